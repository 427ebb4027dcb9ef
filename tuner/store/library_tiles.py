"""How a vendor's library cuts an operation into tiles at the sizes at which it was measured, if it tells at each."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from tuner.devices.product import Tiles
    from tuner.space.scope import Scope
    from tuner.store.amounts import Array
    from tuner.store.grids import Sizes

LEAST_WAVES = 1e-3  # of a library's tiles
OTHER = 2.0  # how far apart sizes are at which different algorithms run
CUT = 0.8  # and those where tiles are e times as long, or sums have e times as many parts

LibraryTiles = Callable[["Scope"], "Tiles | None"]  # how the library runs the operation at a size, if it tells


class ToldTiles:
    """What a library tells. Where it has no tiles at one of the sizes, it is believed nowhere: `are_known` tells."""

    def __init__(self, measured: Iterable[Scope], ask: LibraryTiles, units: int) -> None:
        """`measured` are the problems at whose sizes it was measured, `units` the multiprocessors."""
        self._told: dict[Sizes, Tiles] = {}
        for scope in measured:
            if (tiles := ask(scope)) is None:
                self._told = {}
                break
            self._told[tuple(scope.sizes.values())] = tiles
        self.are_known = bool(self._told)
        self._ask, self._units = ask, units
        self._unknown = np.nan if self.are_known else 0.0
        self._algorithms = sorted({each.algorithm for each in self._told.values()})

    def at(self, scopes: Sequence[Scope]) -> list[Tiles | None]:
        """How it runs at the sizes of these. It is asked again where it was not measured."""
        if not self.are_known:
            return [None] * len(scopes)
        return [self._told.get(tuple(scope.sizes.values())) or self._ask(scope) for scope in scopes]

    def counts(self, told: Sequence[Tiles | None]) -> Array:
        """The tiles, by size: zero where it never tells, not a number where it does not tell here."""
        return np.array([self._unknown if each is None else each.there for each in told], float)

    def shares(self, told: Sequence[Tiles | None]) -> Array:
        """The share of the work that one whole tile is, by size, as `counts` is."""
        return np.array([self._unknown if each is None else 1 / each.whole for each in told], float)

    def places(self, told: Sequence[Tiles | None]) -> Array:
        """By size: the logarithms of the waves of tiles, as counted and as it says, and of the lengths of a tile and
        the parts of a sum; and which algorithm runs."""
        places = np.zeros((len(told), 5 + len(self._algorithms)))
        for place, tiles in zip(places, told, strict=True):
            if tiles is not None:
                waves = math.log(math.ceil(tiles.there / self._units)), math.log(max(tiles.waves, LEAST_WAVES))
                cut = [CUT * math.log(length) for length in tiles.cut]
                place[:] = [*waves, *cut, *(OTHER * (tiles.algorithm == each) for each in self._algorithms)]
        return places
