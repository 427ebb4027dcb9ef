"""The value of a sibling's configurations: those that were measured only on the sibling.

    python benchmarks/lending.py hgemm

A third of the configurations of a device that its sibling has, too, are hidden. At sizes that are left out, the
look-up's choice is compared with the best that was measured there, hidden or not: with the sibling, without it, and
with nothing hidden. Kernels only; it needs no device.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Collection, Sequence
from dataclasses import replace
from statistics import mean, median
from typing import Any

from choice import described

from tuner.families import family
from tuner.families.forecast import Forecast
from tuner.prediction.grids import Sizes
from tuner.space.config import ConfigKey, config_key
from tuner.space.scope import Scope
from tuner.store import time_tables
from tuner.store.lookup import Query
from tuner.store.store import Store
from tuner.store.time_table import StoredTable, TimeTable

UNITS, CACHE = 132, 50 << 20  # multiprocessors, and bytes of the last cache
HIDDEN, LEFT_OUT = 1 / 3, 300  # of the configurations, and sizes
MUCH = 0.1
Pair = tuple[int, ConfigKey]  # a kernel by its number, and a configuration


class Lending:
    """The tables of a family, of a device and its sibling, and what is hidden of them."""

    def __init__(self, name: str, device: str, sibling: str, seed: int) -> None:
        self.sibling, self._device, found = sibling, described(device, UNITS, CACHE), family.find(name)
        self._sizes = list(found.operation.sizes)
        self._scope = Scope(dict.fromkeys(self._sizes, 1), dict(found.operation.options), "cuda", self._device.limits)
        self._queries = [Query.of(space, self._scope, self._device) for space in found.spaces]
        self._numbers = {id(space): number for number, space in enumerate(found.spaces)}
        self._tables = [time_tables.read(Store.of(space).files)[0] for space in found.spaces]
        draw = random.Random(seed)  # noqa: S311
        own, theirs = (self._pairs(of) for of in (device, sibling))
        self.hidden = frozenset(draw.sample(sorted(own & theirs, key=str), round(HIDDEN * len(own & theirs))))
        at = sorted(
            sizes
            for number, tables in enumerate(self._tables)
            for table in tables
            if table.device == device
            for key, times in table.times.items()
            if (number, key) not in self.hidden
            for sizes in times
        )
        self._left_out = frozenset(draw.sample([*dict.fromkeys(at)], LEFT_OUT))

    def _pairs(self, device: str) -> set[Pair]:
        return {
            (number, key)
            for number, tables in enumerate(self._tables)
            for table in tables
            if table.device == device
            for key in table.configs
        }

    def regrets(self, hidden: Collection[Pair], with_sibling: bool) -> list[float]:
        """What is lost at each of the sizes that are left out, where these pairs are hidden on the device."""
        learnt = [
            [self._without(table, hidden, number) for table in tables] for number, tables in enumerate(self._tables)
        ]
        lender = self._forecast(learnt, self.sibling, None) if with_sibling else None
        forecast = self._forecast(learnt, "", lender)
        return [self._regret(forecast, sizes) for sizes in sorted(self._left_out)]

    def _forecast(self, tables: Sequence[Sequence[TimeTable]], of: str, lender: Forecast | None) -> Forecast:
        none: list[list[Any]] = [[] for _ in self._queries]
        stored = [[StoredTable.of(table) for table in of_kernel] for of_kernel in tables]
        forecast = Forecast(self._queries, none, stored, self._device, False, lambda scope: None, of, lender)
        forecast.train()
        return forecast

    def _without(self, table: TimeTable, hidden: Collection[Pair], number: int) -> TimeTable:
        """A table without the sizes that are left out, and without what is hidden."""
        is_own = table.device == self._device.name
        times = {
            key: {sizes: time_ms for sizes, time_ms in times.items() if sizes not in self._left_out}
            for key, times in table.times.items()
            if not (is_own and (number, key) in hidden)
        }
        return replace(table, times=times, configs={key: table.configs[key] for key in times})

    def _regret(self, forecast: Forecast, sizes: Sizes) -> float:
        there = {
            (number, key): times[sizes]
            for number, tables in enumerate(self._tables)
            for table in tables
            if table.device == self._device.name
            for key, times in table.times.items()
            if sizes in times
        }
        _, ranked = forecast.ranked(self._scope.at(dict(zip(self._sizes, sizes, strict=True))))
        taken = ((self._numbers[id(known.space)], config_key(known.config)) for known in ranked)
        return next(there[pair] for pair in taken if pair in there) / min(there.values()) - 1


def main() -> None:
    """Print a line for each way."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("family")
    parser.add_argument("--device", default="NVIDIA H100 80GB HBM3")
    parser.add_argument("--sibling", default="NVIDIA H200")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    lending = Lending(options.family, options.device, options.sibling, options.seed)
    print(
        f"{options.family} on {options.device}: {len(lending.hidden)} configurations hidden, {LEFT_OUT} sizes left out"
    )
    print()
    print(f"| known | regret: median, mean, worst | over {MUCH:.0%} |\n|---|---|---|")
    for words, hidden, with_sibling in (
        ("all", frozenset[Pair](), True),
        ("hidden, lent by the sibling", lending.hidden, True),
        ("hidden", lending.hidden, False),
    ):
        lost = lending.regrets(hidden, with_sibling)
        much = mean(each > MUCH for each in lost)
        print(f"| {words} | {median(lost):.1%}, {mean(lost):.1%}, {max(lost):.1%} | {much:.1%} |", flush=True)


if __name__ == "__main__":
    main()
