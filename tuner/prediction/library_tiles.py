"""How a vendor's library cuts an operation into tiles at the sizes at which it was measured, if it tells at each."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from tuner.devices.product import Tiles
    from tuner.prediction.amounts import Array
    from tuner.prediction.grids import Sizes
    from tuner.space.scope import Scope

LEAST_WAVES = 1e-3  # of a library's tiles
OTHER = 2.0  # how far apart sizes are at which different algorithms run
CUT = 0.8  # and those where tiles are e times as long, or sums have e times as many parts
COMMON = 96  # sizes at least, at which an algorithm runs that is a routine of its own

LibraryTiles = Callable[["Scope"], "Tiles | None"]  # how the library runs the operation at a size, if it tells


class ToldTiles:
    """What a library tells. Where it has no tiles at one of the sizes, it is believed nowhere: `are_known` tells.

    Times of different algorithms have little in common: each that runs at many sizes is a routine of its own. The last
    of the `routines` is all others; where these run at few sizes, with the most common algorithm, which tells of them.
    """

    def __init__(self, measured: Sequence[Scope], ask: LibraryTiles, units: int) -> None:
        """`measured` are the problems at whose sizes it was measured, `units` the multiprocessors."""
        self._told: dict[Sizes, Tiles] = {}
        for scope in measured:
            if (tiles := ask(scope)) is None:
                self._told = {}
                break
            self._told[tuple(scope.sizes.values())] = tiles
        self.are_known = bool(self._told)
        self._ask, self._units = ask, units
        counts = Counter(each.algorithm for each in self._told.values())
        common = [algorithm for algorithm in sorted(counts) if counts[algorithm] >= COMMON]
        if common and sum(counts.values()) - sum(counts[each] for each in common) < COMMON:
            common.remove(max(common, key=lambda each: counts[each]))
        self._routines = {algorithm: number for number, algorithm in enumerate(common)}
        self._others = sorted(counts.keys() - self._routines)
        self.routines = len(common) + 1 if measured else 0

    @property
    def answers(self) -> Array:
        """What it tells where it was measured, in the order of sizes, as numbers: the fields of `Tiles` one by one."""
        rows = [(*each[:-1], *each.cut) for each in self._told.values()]
        return np.array(rows, float).reshape(-1, 8)

    def at(self, scopes: Sequence[Scope]) -> list[Tiles | None]:
        """How it runs at the sizes of these. It is asked again where it was not measured."""
        if not self.are_known:
            return [None] * len(scopes)
        return [self._told.get(tuple(scope.sizes.values())) or self._ask(scope) for scope in scopes]

    def routine(self, sizes: Sizes) -> int:
        """The number of the routine that it runs at a size at which it was measured."""
        return self._routine(self._told[sizes]) if self.are_known else 0

    def counts(self, told: Sequence[Tiles | None]) -> Array:
        """By what is counted, size and routine: the tiles as they are dealt among the multiprocessors, the share of the
        work that one whole tile is, and how many tiles a multiprocessor runs at once. No tiles where it never tells;
        not a number where it does not tell here, or another routine runs."""
        counts = np.full((3, len(told), self.routines), np.nan if self.are_known else 0.0)
        counts[2] = 1.0
        for row, each in enumerate(told):
            if each is not None:
                counts[:, row, self._routine(each)] = each.dealt(self._units), 1 / each.whole, max(1.0, each.at_once)
        return counts

    @property
    def columns(self) -> int:
        """The length of a `place`."""
        return 5 + len(self._others)

    def place(self, tiles: Tiles | None) -> list[float]:
        """The logarithms of the waves of tiles, of one and of as many as run at once, and of the lengths of a tile and
        the parts of a sum; and which algorithm runs, of those that are no routines of their own."""
        if tiles is None:
            return [0.0] * self.columns
        even = tiles.dealt(self._units) / self._units
        waves = math.log(math.ceil(even)), math.log(max(even / tiles.at_once, LEAST_WAVES))
        cut = [CUT * math.log(length) for length in tiles.cut]
        return [*waves, *cut, *(OTHER * (tiles.algorithm == each) for each in self._others)]

    def _routine(self, tiles: Tiles) -> int:
        return self._routines.get(tiles.algorithm, self.routines - 1)
