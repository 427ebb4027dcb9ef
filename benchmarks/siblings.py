"""Searches on one device that know what another one measured, replayed from the time tables of both.

    python benchmarks/siblings.py "NVIDIA H100 80GB HBM3" "NVIDIA H200" --seeds 4

For each shipped kernel with time tables of both devices: at sizes that both measured, with at least --least
configurations in common, the default strategy searches among the configurations that the second device measured, once
without any experience, and once knowing the times of the first device at the same size, as from a log. Then the other
way round. Tables have only configurations that some cover chose, so their spaces are small, and all of them are good.

Prints, by kernel, the evaluations until within 5 and 1 % of the best, as geometric means over sizes and seeds.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator, Sequence
from statistics import fmean

from tuner import paths
from tuner.exchange import replay
from tuner.search.budget import Budget
from tuner.search.experience import Experience
from tuner.store import time_tables
from tuner.store.time_table import TimeTable
from tuner.tuning.recordings.recording import Entry, Recording, Row

WITHIN = (0.05, 0.01)
Sizes = tuple[int, ...]


def main() -> None:
    """Replay each kernel in both directions."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("devices", nargs=2)
    parser.add_argument("--least", type=int, default=10, help="configurations that both devices measured at a size")
    parser.add_argument("--sizes", type=int, default=40, help="most sizes of a kernel, evenly spaced")
    parser.add_argument("--seeds", type=int, default=4)
    options = parser.parse_args()
    for source, target in (options.devices, options.devices[::-1]):
        print(f"{target}, knowing {source}")
        every: dict[str, list[list[float]]] = {"cold": [], "warm": []}
        for kernel, pairs in common(source, target, options.least):
            chosen = pairs[:: max(1, math.ceil(len(pairs) / options.sizes))]
            for start, rows in every.items():
                rows.append(means(chosen, start, options.seeds))
            texts = (f"{start} {', '.join(f'{n:.3g}' for n in rows[-1])}" for start, rows in every.items())
            configurations = fmean(len(recorded.entries) for recorded, _ in chosen)
            about = f"{len(chosen)} of {len(pairs)} sizes, {configurations:.0f} configurations"
            print(f"  {kernel}, {about}: to within 5, 1 %: {'; '.join(texts)}", flush=True)
        for start, rows in every.items():
            print(f"  all {len(rows)}, {start}: {', '.join(f'{geometric(c):.3g}' for c in zip(*rows, strict=True))}")


def common(source: str, target: str, least: int) -> Iterator[tuple[str, list[tuple[Recording, Experience]]]]:
    """For each kernel, what the target measured at sizes that the source knows, and what the source measured there."""
    for file in sorted(paths.shipped("results").glob("*/*.times")):
        tables, _ = time_tables.read_file(file)
        pairs: dict[Sizes, tuple[Recording, Experience]] = {}
        for there in tables:
            for here in tables:
                alike = (there.code, dict(there.types), dict(there.options), there.deployment)
                asked = (here.code, dict(here.types), dict(here.options), here.deployment)
                if (there.device, here.device, alike) != (source, target, asked):
                    continue
                for sizes in sorted({*there.sizes} & {*here.sizes}):
                    known, searched = at(there, sizes), at(here, sizes)
                    if len(known.keys() & searched.keys()) >= least and sizes not in pairs:
                        pairs[sizes] = of_tables(here, searched, known)
        if pairs:
            yield f"{file.parent.name}/{file.stem}", [pairs[sizes] for sizes in sorted(pairs)]


def at(table: TimeTable, sizes: Sizes) -> dict[Row, float]:
    """The times in ms at a size, by configuration."""
    return {tuple(table.configs[key].values()): times[sizes] for key, times in table.times.items() if sizes in times}


def of_tables(table: TimeTable, searched: dict[Row, float], known: dict[Row, float]) -> tuple[Recording, Experience]:
    """The times of a table at a size as a recording, and those of another device as an experience."""
    names = list(next(iter(table.configs.values())))
    values = {name: tuple(sorted({row[i] for row in searched})) for i, name in enumerate(names)}
    recorded = Recording("", table.device, values, {row: Entry(time_ms) for row, time_ms in searched.items()})
    return recorded, Experience([(dict(zip(names, row, strict=True)), time_ms) for row, time_ms in known.items()])


def means(pairs: Sequence[tuple[Recording, Experience]], start: str, seeds: int) -> list[float]:
    """The evaluations until within each of WITHIN, as geometric means."""
    runs = [
        replay.replay(recorded, "optuna", Budget(len(recorded.entries)), seed, experiences=[known] * (start == "warm"))
        for recorded, known in pairs
        for seed in range(seeds)
    ]
    return [geometric([run.within(share) or len(run.evaluations) + 1 for run in runs]) for share in WITHIN]


def geometric(values: Sequence[float]) -> float:
    """The geometric mean."""
    return math.exp(fmean(map(math.log, values)))


if __name__ == "__main__":
    main()
