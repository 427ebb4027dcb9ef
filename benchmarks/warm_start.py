"""What known configurations of near sizes are worth: searches of a recording with and without them.

    python benchmarks/warm_start.py results/recordings/09-3072.json.gz --near 09-2048.json.gz 09-4096.json.gz

The five best of each near recording, taken in turn, begin the search, as `tune` takes them from the store. `--misled`
begins it with the five worst of the recording itself instead. Prints the evaluations to within 10, 5 and 1 % of the
optimum, medians over seeds, and the fraction of the optimum at 25, 50 and 100.
"""

from __future__ import annotations

import argparse
import itertools
from pathlib import Path
from statistics import mean, median

from tuner import recording, replay
from tuner.search.strategies import Budget
from tuner.space import Config
from tuner.store import WARM


def best(path: Path, count: int, worst: bool = False) -> list[Config]:
    """The best, or the worst, configurations of a recording that run."""
    found = recording.read(path)
    timed = [(entry.time_ms, key) for key, entry in found.entries.items() if entry.time_ms is not None]
    ordered = sorted(timed, key=lambda one: one[0], reverse=worst)
    return [dict(zip(found.parameters, key, strict=True)) for _, key in ordered[:count]]


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recording", type=Path)
    parser.add_argument("--near", nargs="*", type=Path, default=[])
    parser.add_argument("--misled", action="store_true")
    parser.add_argument("--seeds", type=int, default=24)
    parser.add_argument("--budget", type=int, default=200)
    options = parser.parse_args()
    taken = list(itertools.chain(*itertools.zip_longest(*(best(path, WARM) for path in options.near))))
    starts = {"cold": [], "warm": [config for config in taken if config is not None][:WARM]}
    if options.misled:
        starts["misled"] = best(options.recording, WARM, worst=True)
    found = recording.read(options.recording)
    for name, warm in starts.items():
        runs = [replay.replay(found, "optuna", Budget(options.budget), s, warm=warm) for s in range(options.seeds)]
        within = [median(run.within(share) or options.budget + 1 for run in runs) for share in (0.10, 0.05, 0.01)]
        fractions = [mean(run.fraction(n) for run in runs) for n in (25, 50, 100)]
        print(
            f"{name:7} to within 10, 5, 1 %: {', '.join(f'{n:g}' for n in within)}; fraction of the optimum at 25, 50, "
            f"100: {', '.join(f'{f:.3f}' for f in fractions)}"
        )


if __name__ == "__main__":
    main()
