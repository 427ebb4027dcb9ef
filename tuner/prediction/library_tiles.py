"""The tiles that the vendor library chooses at each size, as its heuristics report them without running anything."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from tuner.devices.product import Tiles
    from tuner.prediction.amounts import Array
    from tuner.prediction.grids import Sizes
    from tuner.space.scope import Scope

LEAST_WAVES = 1e-3  # lower bound of the waves, before their logarithm
ALGORITHM_DISTANCE = 2.0  # in the features, between sizes with different algorithms that are no routines of their own
TILE_SCALE = 0.8  # of the logarithms of tile lengths and of split-K parts in the features
ROUTINE_SIZES = 96  # an algorithm chosen at fewer measured sizes is no routine of its own

LibraryTiles = Callable[["Scope"], "Tiles | None"]  # the library's tiles for a problem, None if it does not report them


class LibraryRoutines:
    """The tiles and algorithms that the library reports for each size.

    Times of different algorithms have little in common, so each algorithm that is chosen at many sizes is a routine: an
    entry of the model with coefficients of its own. All other algorithms share the last routine. If these are chosen at
    few sizes, the most common algorithm joins them, so that the last routine has enough times.

    `are_known` is False if the library has not reported tiles for every measured size; then none of them are used.
    `count` is the number of routines.
    """

    def __init__(self, measured: Sequence[Scope], ask: LibraryTiles, units: int) -> None:
        """`measured` are the problems at which the library was measured, `units` the number of multiprocessors."""
        self._reported: dict[Sizes, Tiles] = {}
        for scope in measured:
            if (tiles := ask(scope)) is None:
                self._reported = {}
                break
            self._reported[tuple(scope.sizes.values())] = tiles
        self.are_known = bool(self._reported)
        self._ask, self._units = ask, units
        counts = Counter(each.algorithm for each in self._reported.values())
        common = [algorithm for algorithm in sorted(counts) if counts[algorithm] >= ROUTINE_SIZES]
        if common and sum(counts.values()) - sum(counts[each] for each in common) < ROUTINE_SIZES:
            common.remove(max(common, key=lambda each: counts[each]))
        self._routines = {algorithm: number for number, algorithm in enumerate(common)}
        self._others = sorted(counts.keys() - self._routines)
        self.count = len(common) + 1 if measured else 0

    @staticmethod
    def from_json(data: Any, ask: LibraryTiles, units: int) -> LibraryRoutines:
        """The routines of a trained model, which asks the library at every size. See `to_json`."""
        routines = LibraryRoutines([], ask, units)
        routines.are_known, routines.count = bool(data["known"]), int(data["count"])
        routines._routines = {int(algorithm): number for number, algorithm in enumerate(data["common"])}
        routines._others = [int(algorithm) for algorithm in data["others"]]
        return routines

    def to_json(self) -> dict[str, Any]:
        """What distinguishes the routines, without the tiles at the measured sizes."""
        return {"known": self.are_known, "count": self.count, "common": [*self._routines], "others": self._others}

    def at(self, scopes: Sequence[Scope]) -> list[Tiles | None]:
        """The tiles for these problems. Asks the library for those at which it was not measured."""
        if not self.are_known:
            return [None] * len(scopes)
        return [self._reported.get(tuple(scope.sizes.values())) or self._ask(scope) for scope in scopes]

    def routine(self, sizes: Sizes) -> int:
        """The number of the routine that runs at a measured size."""
        return self._routine(self._reported[sizes]) if self.are_known else 0

    def counts(self, tiles: Sequence[Tiles | None]) -> Array:
        """Three quantities by size and routine, [3, sizes, routines], of the `tiles` of each size.

        They are the tiles as distributed over the multiprocessors, the share of the work in one whole tile, and the
        tiles that a multiprocessor runs at once. The first two are 0 if the library never reports tiles, and NaN if it
        does not for this size or another routine runs.
        """
        counts = np.full((3, len(tiles), self.count), np.nan if self.are_known else 0.0)
        counts[2] = 1.0
        for row, each in enumerate(tiles):
            if each is not None and self.count:  # a model without the library still asks, to tell how similar sizes are
                counts[:, row, self._routine(each)] = each.dealt(self._units), 1 / each.whole, max(1.0, each.at_once)
        return counts

    @property
    def columns(self) -> int:
        """The length of the result of `features`."""
        return 5 + len(self._others)

    def features(self, tiles: Tiles | None) -> list[float]:
        """The features of the library's tiles at a size.

        They are the logarithms of the waves of one block per multiprocessor, of the waves of all resident blocks, of
        the rows and columns of a tile, and of the split-K parts; then a column for each algorithm that is no routine of
        its own.
        """
        if tiles is None:
            return [0.0] * self.columns
        per_unit = tiles.dealt(self._units) / self._units
        waves = math.log(math.ceil(per_unit)), math.log(max(per_unit / tiles.at_once, LEAST_WAVES))
        cut = [TILE_SCALE * math.log(length) for length in tiles.cut]
        return [*waves, *cut, *(ALGORITHM_DISTANCE * (tiles.algorithm == each) for each in self._others)]

    def _routine(self, tiles: Tiles) -> int:
        return self._routines.get(tiles.algorithm, self.count - 1)
