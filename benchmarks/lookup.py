"""The regret of the look-up between sizes, by the model and by the nearest size, on recorded spaces.

    python benchmarks/lookup.py results/recordings --kernel sgemm/09_coarsened_2d --units 132

Each recorded size is left out in turn. The other sizes get records as tuning would leave them: the best nine of a
number of configurations, drawn independently for each size. `covered`: every configuration of some record was
measured at every size. The regret is relative to the best of these configurations at the left-out size. It needs no
device.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import mean, median
from typing import Any

from tuner.catalog import catalog
from tuner.measure.method import PROTOCOL
from tuner.prediction.grids import Measured
from tuner.prediction.model import TimeModel
from tuner.space.config import Config, ConfigKey, config_key
from tuner.space.model import Space
from tuner.space.scope import COMMON_GPU, Scope
from tuner.space.sources.rendering import Version
from tuner.store import lookup
from tuner.store.lookup import Query
from tuner.store.record import RUNNERS_UP, Record
from tuner.tuning.recordings import recording

Times = dict[ConfigKey, tuple[Config, float]]  # of one size
Sizes = tuple[int, ...]


def times_of(folder: Path, kernel: str) -> dict[Sizes, Times]:
    """The recorded times of a kernel, in ms, by size."""
    found: dict[Sizes, Times] = {}
    for file in recording.files(folder):
        recorded = recording.read(file)
        if recorded.kernel == kernel:
            size = recorded.size.values() if isinstance(recorded.size, Mapping) else recorded.size
            found[tuple(size)] = {
                config_key(config): (config, entry.time_ms)
                for config, entry in recorded.configs()
                if entry.time_ms is not None
            }
    return found


def record(space: Space, sizes: Sizes, ranked: Sequence[tuple[Config, float]], version: Version) -> Record:
    """The record of what was measured at a size, best first."""
    (config, time_ms), *others = ranked
    return Record(
        device="recorded", kind="cuda", architecture="", sizes=named(space, sizes),
        options=dict(space.operation.options), config=config, time_ms=time_ms, spread=0.0, rounds=1, gflops=None,
        library=None, library_ms=None, vs_library=None, error=0.0, bound=0.0, signature=version.signature,
        code=version.code, toolchain="", configurations=1, evaluated=1, failed={}, strategy="", date="", version="",
        protocol=PROTOCOL, next=[{"config": config, "time_ms": time_ms} for config, time_ms in others],
    )  # fmt: skip


def named(space: Space, sizes: Sizes) -> dict[str, int]:
    """Sizes by name."""
    return dict(zip(space.operation.sizes, sizes, strict=True))


def records_of(
    space: Space, times: Mapping[Sizes, Times], draw: int, covered: bool, chance: random.Random, version: Version
) -> list[Record]:
    """What tuning `draw` configurations at each size would leave."""
    kept: dict[Sizes, list[ConfigKey]] = {}
    for sizes, there in times.items():
        tried = chance.sample(sorted(there), min(draw, len(there)))
        kept[sizes] = sorted(tried, key=lambda key: there[key][1])[: RUNNERS_UP + 1]
    if covered:
        every = dict.fromkeys(key for keys in kept.values() for key in keys)
        kept = {sizes: [key for key in every if key in there] for sizes, there in times.items()}
    return [
        record(space, sizes, sorted((times[sizes][key] for key in keys), key=lambda entry: entry[1]), version)
        for sizes, keys in kept.items()
    ]


def regrets(
    space: Space, times: Mapping[Sizes, Times], draw: int, covered: bool, seeds: int, units: int
) -> Iterator[dict[str, Any]]:
    """For each size that is left out, and each seed: the regrets, and what the look-up took."""
    version = Version.of(space)
    for seed in range(seeds):
        for sizes, there in times.items():
            rest = {other: found for other, found in times.items() if other != sizes}
            chance = random.Random(seed)  # noqa: S311  # nothing secret
            records = records_of(space, rest, draw, covered, chance, version)
            known = lookup.known_times(records, list(space.operation.sizes))
            here = {key: there[key][1] for key in known if key in there}
            best = min(here.values())
            scope = Scope(named(space, sizes), space.operation.options, "cuda", COMMON_GPU)
            query = Query(space, scope, "recorded", "cuda", "", version)
            nearest = next(lookup.candidates(records, query))
            taken = next(lookup.candidates(records, Query(**{**vars(query), "units": units})))
            model = TimeModel([Measured(space, config, found) for config, found in known.values()], scope, units)
            start = time.perf_counter()
            predicted = list(known)[int(model.times(scope.sizes).argmin())]
            yield {
                "nearest": here[config_key(nearest.config)] / best - 1,
                "model": here[predicted] / best - 1,
                "rule": here[config_key(taken.config)] / best - 1,
                "used": taken.match == "predicted",
                "expected": taken.regret,
                "seconds": time.perf_counter() - start,
            }


def share(values: Sequence[float]) -> str:
    """Mean and worst."""
    return f"{mean(values):.1%}, {max(values):.1%}"


def main() -> None:
    """Print a line for each kind of records."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--kernel", default="sgemm/09_coarsened_2d")
    parser.add_argument("--units", type=int, default=132, help="multiprocessors of the recorded device")
    parser.add_argument("--seeds", type=int, default=20)
    options = parser.parse_args()
    space = catalog.load(options.kernel)
    times = times_of(options.folder, options.kernel)
    if len(times) < 3:
        parser.error(f"{options.folder}: has {len(times)} sizes of {options.kernel}; at least 3 are needed")
    print(f"{options.kernel} at {', '.join('x'.join(map(str, sizes)) for sizes in times)}: mean and worst regret\n")
    print("| tried at each size | records | nearest size | model | by the rule | used | expected | us |")
    print("|---|---|---|---|---|---|---|---|")
    most = min(map(len, times.values()))
    for draw in (40, 100, 300, most):
        for covered in (False, True):
            rows = list(regrets(space, times, draw, covered, options.seeds if draw < most else 1, options.units))
            found = {name: [row[name] for row in rows] for name in rows[0]}
            expected = [value for value in found["expected"] if value is not None]
            print(
                f"| {draw} | {'covered' if covered else 'each its own'} | {share(found['nearest'])} "
                f"| {share(found['model'])} | {share(found['rule'])} | {mean(found['used']):.0%} "
                f"| {f'{mean(expected):.1%}' if expected else ''} | {median(found['seconds']) * 1e6:.0f} |"
            )


if __name__ == "__main__":
    main()
