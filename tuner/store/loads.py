"""What the time of a configuration is made of at a size, but for factors.

A device runs the blocks of a launch in waves over its multiprocessors. One with a block more than the others keeps all
of them waiting, and a block at the edge of the result takes as long as a whole one. NVIDIA's "Matrix Multiplication
Background User's Guide" calls these wave quantization and tile quantization. So the load of a step is

    ceil(blocks / multiprocessors) * work / whole blocks

where `work` is what the operation says (`flops`, else `bytes`), and `whole blocks` is the number of blocks without
rounding up, so that the quotient is the work of one whole block. Where a grid does not grow with its tiles, the blocks
that it has walk over these: then tiles take the place of blocks, and the blocks that of the multiprocessors.

Not every multiprocessor takes every block: those of a cluster share one group of multiprocessors (NVIDIA's "H100 Tensor
Core GPU Architecture"), and what is left of a group takes none. So `slots` are as many multiprocessors as times tell.

The parts of a time are

- a launch; that load; the waves, for what each begins and ends with; and the tiles, for what each leaves;
- the loads of waves of two and of four blocks per multiprocessor, since a wave is over when the last of those that
  share one is; the load without waves, since blocks that are many even out; the work of one block, since few blocks
  that share a multiprocessor take as long as one;
- the bytes that must move; and those of them that do not lie in the last cache from one run to the next.

Rows of an array that are not aligned are read in smaller pieces: where they are not, the load and the work of a block
come once more, for each length of rows. Each part is the mean over the steps of a kernel; a step whose grid is no
product of sizes, such as one that prepares arrays for the next, is left out beside one that has such a grid. A
library's routine, whose blocks nobody knows, has the work as its load.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tuner.devices.product import Tiles
from tuner.errors import ExpressionError
from tuner.space.dtypes import DTYPES
from tuner.space.expressions import Expression
from tuner.space.model import Config, Space
from tuner.space.scope import Scope
from tuner.store.grids import ROUNDING, Array, Measured, Sizes, TiledGrid, at, parameters_of, work_of

PARTS = 10  # of a time, but for those of rows that are not aligned
LOAD, BLOCK = 1, 7  # which of them are the load, and the work of one block
ALIGNMENT, WIDEST = 16, 1.0  # bytes, and how much farther from all others rows are that are aligned so
LEAST_WAVES = 1e-3  # of a library's tiles
NARROWER = 0.4  # by which power of two rows are apart of which half as many bytes are aligned


LibraryTiles = Callable[[Sizes], Tiles | None]  # how the library runs the operation at these sizes, if it tells


class Position(NamedTuple):
    """Where sizes lie: their logarithms, the alignment of rows; and by entry the logarithms of the blocks and of the
    work of each, and of a library that tells its tiles those of their waves, as counted and as it says, and which of
    its algorithms runs."""

    sizes: Array
    alignments: Array
    blocks: Array
    library: Array


class Terms(NamedTuple):
    """Of all entries at a size: the parts of their times, in rows, and where it lies for them."""

    parts: Array
    place: Position


@dataclass(frozen=True, eq=False)
class _Counted:
    """A configuration whose tiles must be counted, its grid, and the rows of all that have this grid."""

    space: Space
    config: Config
    grid: TiledGrid
    rows: list[int]


class TimeTerms:
    """The parts of the times of configurations, but for their factors."""

    def __init__(
        self,
        measured: Sequence[Measured],
        scope: Scope,
        units: int,
        cache: int,
        sizes: Sequence[Sizes],
        tiles: LibraryTiles,
    ) -> None:
        """`units` are the multiprocessors, `cache` the bytes of the last cache, 0 if unknown. `sizes` are those at
        which grids must be as they are thought to be, and the library must tell its `tiles`, to be believed."""
        self._units, self._scope, self._cache = units, scope, cache
        self._space = next((entry.space for entry in measured if entry.space is not None), None)
        self._rows = {} if self._space is None else _rows(self._space, scope)
        self._libraries = np.array([entry.space is None for entry in measured], bool)
        self.slots = np.full(len(measured), float(units))
        parameters: dict[int, list[str]] = {}
        known: dict[tuple[object, ...], list[TiledGrid]] = {}
        counted: dict[int, _Counted] = {}
        grids: list[TiledGrid] = []
        owners: list[int] = []
        for number, (space, config) in enumerate((entry.space, entry.config) for entry in measured):
            if space is None:
                continue
            if id(space) not in parameters:
                parameters[id(space)] = parameters_of(space)
            key = id(space), *(config.get(name) for name in parameters[id(space)])
            if key not in known:
                found = [TiledGrid.of(step, space, config, scope, sizes) for step in space.steps]
                there = [grid for grid in found if grid is not None]
                known[key] = [grid for grid in there if grid.is_product] or there
            for grid in known[key]:
                if not grid.agrees:
                    counted.setdefault(id(grid), _Counted(space, config, grid, [])).rows.append(len(grids))
                grids.append(grid)
                owners.append(number)
        self._counted, self._owners = [*counted.values()], np.array(owners, int)
        self._factors = np.array([grid.factors for grid in grids]).reshape(-1, 3, 1)
        self._powers = np.array([grid.powers for grid in grids])
        self._most = np.array([grid.most for grid in grids], float)
        self._learnt: dict[Sizes, tuple[Array, Array]] = {}
        library: Mapping[Sizes, float] = next((entry.times for entry in measured if entry.space is None), {})
        told = {each: tiles(each) for each in library}
        self._told = told if all(told.values()) else {}
        self._tiles_of = tiles
        self._algorithms = sorted({each.algorithm for each in told.values() if each})
        if grids:  # a model looks at these again and again
            self._learnt = {each: self._tiles(each) for each in sizes}

    @property
    def has_tiles(self) -> bool:
        """Whether the library tells its tiles."""
        return bool(self._told)

    @property
    def count(self) -> int:
        """How many parts a time has."""
        return PARTS + 2 * len(self._rows)

    def at(self, sizes: Sizes) -> Terms:
        """The parts of each at these sizes, not a number where it has none; and where these sizes lie."""
        work, moved = (1.0, 1.0) if self._space is None else work_of(self._space, at(self._space, self._scope, sizes))
        waves, double, fourfold, even, blocks, each = self._waves(sizes)
        each = each * work
        alignments = self._alignments(sizes)
        missed = min(max(2 * moved / self._cache - 1, 0.0), 1.0) * moved if self._cache else 0.0
        parts = [np.ones_like(waves), waves * each, waves, blocks, double * each, fourfold * each, even * each, each]
        parts += [np.full_like(waves, moved), np.full_like(waves, missed)]
        for alignment in alignments:
            parts += [parts[part] * (alignment < ALIGNMENT) for part in (LOAD, BLOCK)]
        if not self.has_tiles:
            parts[LOAD][self._libraries] = work
            for which, alignment in enumerate(alignments):
                parts[PARTS + 2 * which][self._libraries] = work * (alignment < ALIGNMENT)
        with np.errstate(invalid="ignore", divide="ignore"):
            places = np.nan_to_num(np.log(np.stack([blocks, each], axis=1)), posinf=0.0)
        places[self._libraries & (not self.has_tiles)] = 0.0
        levels = [
            NARROWER * math.log2(alignment) + (WIDEST if alignment == ALIGNMENT else 0.0) for alignment in alignments
        ]
        place = Position(np.log(np.array(sizes, float)), np.array(levels, float), places, self._library_place(sizes))
        return Terms(np.stack(parts, axis=1), place)

    def _alignments(self, sizes: Sizes) -> list[int]:
        """The powers of two that divide the bytes of rows, up to ALIGNMENT, for each length of rows."""
        found: list[int] = []
        if self._space is None:
            return found
        scope = at(self._space, self._scope, sizes)
        for length, itemsize in self._rows.items():
            try:
                found.append(math.gcd(length.integer(scope.names) * itemsize, ALIGNMENT))
            except (ExpressionError, ArithmeticError):
                found.append(1)
        return found

    def _waves(self, sizes: Sizes) -> Array:
        """By entry: the waves of one, two and four blocks per multiprocessor; the tiles over multiprocessors; the
        tiles; and the share of the work that one whole tile is. All are means of steps."""
        found = np.full((6, len(self._libraries)), np.nan)
        found[:, self._libraries] = self._library_waves(sizes)
        if len(self._owners):
            there, whole = self._learnt.get(sizes) or self._tiles(sizes)
            slots = self.slots[self._owners]
            even = there / np.where(there > self._most, np.minimum(slots, self._most), slots)
            columns = np.ceil(even), np.ceil(even / 2), np.ceil(even / 4), even, there, 1 / whole
            counts = np.bincount(self._owners, minlength=len(self._libraries))
            for row, values in zip(found, columns, strict=True):
                sums = np.bincount(self._owners, weights=values, minlength=len(self._libraries))
                np.divide(sums, counts, out=row, where=counts > 0)
        return found

    def _library_tiles(self, sizes: Sizes) -> Tiles | None:
        return self._told.get(sizes) or self._tiles_of(sizes) if self.has_tiles else None

    def _library_waves(self, sizes: Sizes) -> Array:
        """The same of a library, in a column; zeros where it does not tell its tiles."""
        tiles = self._library_tiles(sizes)
        if tiles is None:
            return np.full((6, 1), np.nan if self.has_tiles else 0.0)
        even = tiles.there / self._units
        waves = math.ceil(even), math.ceil(even / 2), math.ceil(even / 4)
        return np.array([*waves, even, tiles.there, 1 / tiles.whole]).reshape(-1, 1)

    def _library_place(self, sizes: Sizes) -> Array:
        """By entry, for a library: the waves of its tiles, as counted and as it says, and which algorithm runs."""
        place = np.zeros((len(self._libraries), 2 + len(self._algorithms)))
        if tiles := self._library_tiles(sizes):
            waves = math.log(math.ceil(tiles.there / self._units)), math.log(max(tiles.waves, LEAST_WAVES))
            place[self._libraries] = [*waves, *(tiles.algorithm == each for each in self._algorithms)]
        return place

    def _tiles(self, sizes: Sizes) -> tuple[Array, Array]:
        """The tiles of each grid, and how many they would be without rounding up."""
        along = (self._factors * np.prod(np.array(sizes, float) ** self._powers, axis=2, keepdims=True))[:, :, 0]
        there, whole = np.ceil(along - ROUNDING).prod(axis=1), along.prod(axis=1)
        scopes: dict[int, Scope] = {}  # whose names are computed once
        for counted in self._counted:
            operation = id(counted.space.operation)
            scope = scopes.setdefault(operation, at(counted.space, self._scope, sizes))
            there[counted.rows] = counted.grid.tiles(counted.space.names(counted.config, scope))
            if not counted.grid.is_product:
                whole[counted.rows] = there[counted.rows]
        return there, whole


def _rows(space: Space, scope: Scope) -> dict[Expression, int]:
    """The lengths of rows of arrays of several dimensions, and the bytes of the narrowest elements of each."""
    varying, found = space.varying, dict[Expression, int]()
    for argument in space.operation.arrays:
        element, shape = DTYPES.get(scope.types.get(argument.dtype, argument.dtype)), argument.shape or ()
        if element is not None and argument.name not in varying and len(shape) > 1:
            found[shape[-1]] = min(element.itemsize, found.get(shape[-1], element.itemsize))
    return found
