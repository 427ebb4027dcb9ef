"""The gain of a warm start: searches of a recording with and without the best configurations of near sizes.

    python benchmarks/warm_start.py results/recordings/09-3072.json.gz --near 09-2048.json.gz 09-4096.json.gz

The search starts with the configurations that records of the near recordings would hold, best and runners-up
alternating, as `tune` takes them from the store. `--misled` adds a search that starts with the worst configurations of
the recording itself. Prints the evaluations until within 10, 5 and 1 % of the optimum, as medians over seeds, and the
fraction of the optimum at 25, 50 and 100 evaluations.
"""

from __future__ import annotations

import argparse
import itertools
from operator import itemgetter
from pathlib import Path
from statistics import mean, median

from tuner.catalog import catalog
from tuner.exchange import recording, replay
from tuner.exchange.recording import Recording
from tuner.search.budget import Budget
from tuner.space import parsing
from tuner.space.config import Config
from tuner.space.scope import Limits, Scope
from tuner.store.store import WARM
from tuner.tuning.finals.runners_up import runners_up


def ranking(data: Recording) -> list[Config]:
    """The configurations of a recording that run, the fastest first."""
    times = [(entry.time_ms, key) for key, entry in data.entries.items() if entry.time_ms is not None]
    return [dict(zip(data.parameters, key, strict=True)) for _, key in sorted(times, key=itemgetter(0))]


def record_configs(data: Recording) -> list[Config]:
    """The best configuration and its runners-up, as a record keeps them."""
    space = catalog.load(data.kernel)
    sizes = parsing.parse_size(data.size, space.operation)
    scope = Scope(sizes, space.operation.options, "cuda", Limits(1024, 232_448, 32))
    configs = ranking(data)
    return [configs[0], *runners_up(space, scope, configs)]


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recording", type=Path)
    parser.add_argument("--near", nargs="*", type=Path, default=[])
    parser.add_argument("--misled", action="store_true")
    parser.add_argument("--seeds", type=int, default=24)
    parser.add_argument("--budget", type=int, default=200)
    options = parser.parse_args()
    near = [record_configs(recording.read(path)) for path in options.near]
    configs = list(itertools.chain(*itertools.zip_longest(*near)))
    distinct = [config for n, config in enumerate(configs) if config is not None and config not in configs[:n]]
    data = recording.read(options.recording)
    starts = {"cold": [], "warm": distinct[:WARM]}
    if options.misled:
        starts["misled"] = ranking(data)[-WARM:]
    for name, warm in starts.items():
        runs = [replay.replay(data, "optuna", Budget(options.budget), s, warm=warm) for s in range(options.seeds)]
        within = [median(run.within(share) or options.budget + 1 for run in runs) for share in (0.10, 0.05, 0.01)]
        fractions = [mean(run.fraction(n) for run in runs) for n in (25, 50, 100)]
        print(
            f"{name:7} to within 10, 5, 1 %: {', '.join(f'{n:g}' for n in within)}; fraction of the optimum at 25, 50, "
            f"100: {', '.join(f'{f:.3f}' for f in fractions)}"
        )


if __name__ == "__main__":
    main()
