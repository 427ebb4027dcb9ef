"""The regret of a family's look-up at sizes that are left out of its records: by the model and by the nearest size.

    python benchmarks/between_sizes.py sgemm --device "NVIDIA H200" --units 132 --cache 52428800

The sizes of the shipped records and tables are split into parts. Each part is left out in turn, and the model learns
from the others. Candidates are configurations measured at SEVERAL sizes. The regret is relative to the best candidate
at the left-out size: among kernels alone, and among kernels and the vendor library. It needs no device, only its
figures. With `--ask cuda`, that device's library provides its tiles, which predictions of its times need; the last
lines then show the error of these predictions.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import geometric_mean, mean, median, stdev

import numpy as np

from tuner import devices
from tuner.devices import Device
from tuner.devices.product import Tiles
from tuner.families import family, products
from tuner.families.known import Knowledge
from tuner.prediction.grids import Measured, Sizes
from tuner.prediction.library_tiles import LibraryTiles
from tuner.prediction.model import TimeModel
from tuner.space.scope import Limits, Scope
from tuner.space.sources.rendering import Version
from tuner.store import time_tables
from tuner.store.lookup import Query
from tuner.store.store import Store

LIMITS = Limits(compute_capability=9.0)
LEAST = 4  # configurations with a time: with fewer, there is little to choose
SEVERAL = 8  # sizes: what has fewer serves those alone
MUCH = 0.1  # of a time


def entries_of(name: str, options: argparse.Namespace) -> list[Measured]:
    """What dispatch knows of a family on a device, by records and tables; the library is the last."""
    knowledge = Knowledge(library=True)
    for space in family.find(name).spaces:
        operation = space.operation
        scope = Scope(dict.fromkeys(operation.sizes, 1), dict(operation.options), "cuda", LIMITS)
        query = Query(space, scope, options.device, "cuda", "", Version.of(space), options.units, options.cache)
        store = Store.of(space, options.results)
        knowledge.add_records(store.records, query)
        knowledge.add_tables(time_tables.read(store.files)[0], query)
    return [Measured(known.space, known.config, known.times) for known in knowledge.all()]


def thinned(entries: Sequence[Measured], every: int) -> list[Measured]:
    """The entries with SEVERAL of every `every`-th size."""
    sizes = {*sorted({sizes for entry in entries for sizes in entry.times})[::every]}
    left = (replace(entry, times={s: t for s, t in entry.times.items() if s in sizes}) for entry in entries)
    return [entry for entry in left if len(entry.times) >= SEVERAL]


def share(values: Sequence[float]) -> str:
    """Median, mean and worst, and at how many of the sizes much is lost."""
    much = mean(value > MUCH for value in values)
    return f"{median(values):.1%}, {mean(values):.1%}, {max(values):.1%}; {much:.1%}"


def _tiles_of(name: str, device: Device) -> LibraryTiles:
    """How the library of a device runs a family's operation: it is asked once at each size."""
    space = family.find(name).spaces[0]
    asked: dict[Sizes, Tiles | None] = {}

    def tiles(scope: Scope) -> Tiles | None:
        sizes = tuple(scope.sizes.values())
        if sizes not in asked:
            asked[sizes] = products.tiles(space, scope, device)
        return asked[sizes]

    return tiles


def main() -> None:
    """Print a line without the library, and one with it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("family")
    parser.add_argument("--results", type=Path, default=Path("results"))
    parser.add_argument("--device", default="NVIDIA H200")
    parser.add_argument("--units", type=int, default=132, help="multiprocessors of the device")
    parser.add_argument("--cache", type=int, default=50 << 20, help="bytes of its last-level cache")
    parser.add_argument("--parts", type=int, default=8, help="number of parts; each is left out once")
    parser.add_argument("--every", type=int, default=1, help="use only every Nth size, to learn from and to leave out")
    parser.add_argument("--without-library", action="store_true", help="only the line without the library")
    parser.add_argument("--ask", metavar="DEVICE", help="device whose library provides its tiles")
    options = parser.parse_args()
    entries = thinned(entries_of(options.family, options), options.every)
    if len(entries) < LEAST:
        parser.error(f"{options.results}: has {len(entries)} configurations of {options.family} at {SEVERAL} sizes")
    names = family.find(options.family).operation
    scope = Scope(dict.fromkeys(names.sizes, 1), dict(names.options), "cuda", LIMITS)
    tiles = _tiles_of(options.family, devices.open_device(options.ask)) if options.ask else lambda scope: None
    print(f"{options.family} on {options.device}: regret, median, mean and worst; sizes that lose over {MUCH:.0%}\n")
    print("| candidates | sizes | model | nearest size | x library, least |\n|---|---|---|---|---|")
    errors: list[float] = []  # of the logarithms of the library's times
    lines = [("kernels", entries[:-1]), ("kernels and library", entries)]
    for title, among in lines[:1] if options.without_library else lines:
        counts: dict[Sizes, int] = {}
        for entry in among:
            for sizes in entry.times:
                counts[sizes] = counts.get(sizes, 0) + 1
        known = sorted(sizes for sizes, count in counts.items() if count >= LEAST)
        places = np.log(np.array(known, float))
        has = np.array([[sizes in entry.times for entry in among] for sizes in known])
        ours: list[float] = []
        nearest: list[float] = []
        ratios: list[float] = []
        for part in range(options.parts):
            out = {*known[part :: options.parts]}
            rest = [replace(e, times={sizes: t for sizes, t in e.times.items() if sizes not in out}) for e in among]
            model = TimeModel(rest, scope, options.units, options.cache, tiles)
            kept = np.arange(len(known)) % options.parts != part
            for sizes in known[part :: options.parts]:
                here = [i for i, entry in enumerate(among) if sizes in entry.times]
                best = min(among[i].times[sizes] for i in here)
                predicted = model.times(dict(zip(names.sizes, sizes, strict=True)))
                if among[-1].space is None and sizes in among[-1].times:
                    errors.append(math.log(predicted[-1] / among[-1].times[sizes]))
                taken = among[min(here, key=lambda i: predicted[i])].times[sizes]
                ours.append(taken / best - 1)
                ratios.append(entries[-1].times.get(sizes, taken) / taken)
                apart = ((places - np.log(np.array(sizes, float))) ** 2).sum(axis=1)
                near = known[int(np.where(kept & has[:, here].any(axis=1), apart, np.inf).argmin())]
                there = min((i for i in here if near in among[i].times), key=lambda i: among[i].times[near])
                nearest.append(among[there].times[sizes] / best - 1)
        print(
            f"| {title} | {len(ours)} | {share(ours)} | {share(nearest)} "
            f"| {geometric_mean(ratios):.3f}, {min(ratios):.3f} |"
        )
    off = [error for error in errors if math.isfinite(error)]
    if len(off) > 1:
        much = mean(abs(error) > MUCH for error in off)
        print(
            f"\nthe library's times are off by {stdev(off):.1%} (standard deviation of logarithms), by over {MUCH:.0%}"
        )
        print(f"at {much:.1%} of {len(off)} sizes; at {len(errors) - len(off)} there is none")


if __name__ == "__main__":
    main()
