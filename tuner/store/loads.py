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
Several small blocks share a multiprocessor: times also tell how many blocks of the device run at once. And a kernel
walks the depth, the size that no result has, in whole steps: times tell which of its parameters, or product of two,
the depth is rounded up to a multiple of.

The parts of a time are

- a launch; that load; the waves, for what each begins and ends with; and the tiles, for what each leaves;
- the loads of waves of two and of four blocks per multiprocessor, and of as many as run at once, since a wave is over
  when the last of those that share one is; the load without waves, since blocks that are many even out; the work of
  one block, since few blocks that share a multiprocessor take as long as one;
- the bytes that must move; and those of them that do not lie in the last cache from one run to the next;
- where blocks part the depth of tiles among them, as in stream-K, the tiles that a block has parts of, each of which it
  begins and ends; and how many blocks share a tile, whose sums wait for one another (M. Osama and others, "Stream-K",
  2023).

Rows of an array that are not aligned are read in smaller pieces: where they are not, the load and the work of a block
come once more, for each length of rows. Each part is the mean over the steps of a kernel; a step whose grid is no
product of sizes, such as one that prepares arrays for the next, is left out beside one that has such a grid.

A library may tell its tiles. Blocks that it launches without one make the multiprocessors uneven, as long as all run at
once (see `Tiles.dealt`). A routine whose blocks nobody knows has the work as its load.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence

import numpy as np

from tuner.errors import ExpressionError
from tuner.space.dtypes import DTYPES
from tuner.space.expressions import Expression
from tuner.space.model import Config, Space
from tuner.space.scope import Scope
from tuner.store.amounts import BLOCK, LOAD, PARTS, SHARES, Amounts, Array, Course, Position, Rows, Traits
from tuner.store.grids import (
    ROUNDING,
    CountedTiles,
    Extents,
    Measured,
    Sizes,
    TiledGrid,
    at,
    is_in_results,
    parameters_of,
    work_of,
)
from tuner.store.library_tiles import ToldTiles

ALIGNMENT, WIDEST = 16, 1.0  # bytes, and how much farther from all others rows are that are aligned so
LINE = 128  # bytes of a line of a cache: rows that begin amid one touch one more
NARROWER = 0.4  # by which power of two rows are apart of which half as many bytes are aligned
LEAST_STEP, MOST_STEP = 8, 4096  # of the depth
Entries = Rows | slice
EVERY = slice(None)
UNKNOWN = TiledGrid(np.array([np.nan]), np.zeros((1, 1)), np.zeros(1, bool))  # the grid of what has none that is known


class TimeTerms:
    """The parts of the times of configurations, but for their factors."""

    def __init__(
        self,
        measured: Sequence[Measured],
        scope: Scope,
        units: int,
        cache: int,
        sizes: Sequence[Sizes],
        told: ToldTiles,
    ) -> None:
        """Kernels are measured, then the library with an entry for each routine that is `told`. `units` are the
        multiprocessors, `cache` the bytes of the last cache, 0 if unknown. `sizes` are those at which grids must be as
        they are thought to be."""
        self._units, self._scope, self._cache = units, scope, cache
        self._space = next((entry.space for entry in measured if entry.space is not None), None)
        self._rows = {} if self._space is None else _rows(self._space, scope)
        self._kernels = sum(entry.space is not None for entry in measured)
        self._depth = None if self._space is None else _depth(self._space)
        self._configs = [{} if entry.space is None else entry.config for entry in measured]
        scopes = functools.cache(functools.partial(at, scope))  # many grids are looked at at the same sizes
        parameters: dict[int, list[str]] = {}
        extents: dict[int, list[Extents]] = {}
        known: dict[tuple[object, ...], list[TiledGrid]] = {}
        grids: list[TiledGrid] = []
        owners: list[int] = []
        for number, (space, config) in enumerate((entry.space, entry.config) for entry in measured):
            if space is None:
                continue
            if id(space) not in parameters:
                parameters[id(space)] = parameters_of(space)
                extents[id(space)] = [Extents(step, space) for step in space.steps]
            key = id(space), *(config.get(name) for name in parameters[id(space)])
            if key not in known:
                found = [TiledGrid.of(each, config, scopes, sizes) for each in extents[id(space)]]
                there = [grid for grid in found if grid is not None]
                known[key] = [grid for grid in there if grid.is_product] or there or [UNKNOWN]
            for grid in known[key]:
                grids.append(grid)
                owners.append(number)
        self._counted, self._owners = CountedTiles(grids), np.array(owners, int)
        self._uneven = np.array([row for row, grid in enumerate(grids) if not grid.is_product], int)
        self._sharing = np.array([row for row, grid in enumerate(grids) if grid.is_depth.any()], int)
        _, self._first_grids, self._grids_of = np.unique(owners, return_index=True, return_counts=True)
        axes = max((len(grid.factors) for grid in grids), default=0)
        self._factors, powers = np.ones((len(grids), axes)), np.zeros((len(grids), axes, len(scope.sizes)))
        self._is_depth = np.zeros((len(grids), axes), bool)
        for row, grid in enumerate(grids):
            if grid.agrees:
                self._is_depth[row, : len(grid.is_depth)] = grid.is_depth
            self._factors[row, : len(grid.factors)], powers[row, : len(grid.factors)] = grid.factors, grid.powers
        # Few powers of sizes are those of all grids.
        self._powers, inverse = np.unique(powers.reshape(-1, len(scope.sizes)), axis=0, return_inverse=True)
        self._power_of = inverse.reshape(self._factors.shape)
        self._most = np.array([grid.most for grid in grids], float)
        self._told = told

    @property
    def has_tiles(self) -> bool:
        """Whether the library tells its tiles."""
        return self._told.are_known

    @property
    def count(self) -> int:
        """How many parts a time has."""
        return PARTS + 2 * len(self._rows)

    def amounts(self, sizes: Sequence[Sizes]) -> Amounts:
        """What is counted at each of these sizes."""
        scopes = [at(self._scope, each) for each in sizes]  # all entries are of one operation
        numbers = np.array(sizes, float)
        there, whole, shared = self._tiles(numbers, scopes)
        work, alignments = np.ones((len(sizes), 2)), np.ones((len(sizes), 1, len(self._rows)), int)
        if self._space is not None:
            for row, scope in enumerate(scopes):
                work[row], alignments[row] = work_of(self._space, scope), self._alignments(scope)
        depth = np.ones((len(sizes), 1)) if self._depth is None else numbers[:, [self._depth]]
        told = self._told.at(scopes)
        library, shares, at_once = self._told.counts(told)
        tiles, share = self._means(np.array([there, 1 / whole]), np.array([library, shares]))
        counted = there, shared, tiles, share, library, np.maximum(at_once, 1.0)
        return Amounts(numbers, *counted, depth, work[:, [0]], work[:, [1]], alignments, self._told.places(told))

    def own(self, amounts: Amounts, rows: Rows) -> Amounts:
        """The amounts of each entry at sizes of its own: `rows` has their numbers, by entry, the last axis."""

        def of(by_size: Array, owners: Entries = EVERY) -> Array:
            return np.take_along_axis(by_size, rows[:, owners], axis=0)

        there, shared = of(amounts.there, self._owners), of(amounts.shared, self._owners[self._sharing])
        every = amounts.depth, amounts.work, amounts.moved, amounts.alignments
        depth, work, moved, alignments = (each[rows, 0] for each in every)
        libraries = slice(self._kernels, None)
        library, at_once = of(amounts.library, libraries), of(amounts.at_once, libraries)
        counted = there, shared, of(amounts.tiles), of(amounts.share), library, at_once
        return Amounts(amounts.sizes[:0], *counted, depth, work, moved, alignments, amounts.places[:0])

    @property
    def steps(self) -> Array:
        """What the depth may be rounded up to, one after the other, by entry: parameters, and products of two."""
        if self._depth is None:
            return np.empty((0, len(self._configs)))
        return np.array([*itertools.zip_longest(*map(_steps, self._configs), fillvalue=1.0)])

    def course(self, amounts: Amounts, traits: Traits) -> Course:
        """How each runs at each size."""
        there, room = amounts.there, np.array(traits[:2])[:, None, self._owners]
        even, full = there / np.where(there > self._most, np.minimum(room, self._most), room)
        library = amounts.library / self._units
        in_waves = self._means(_in_waves(even, full), _in_waves(library, library / amounts.at_once))
        rounding = np.ceil(amounts.depth / traits.steps) * traits.steps / amounts.depth
        return Course(in_waves, amounts.share * amounts.work * rounding, rounding)

    def parts(self, amounts: Amounts, course: Course) -> Array:
        """The parts of the time of each at each size, the last axis; not a number where it has none."""
        work, moved, each, in_waves = amounts.work, amounts.moved, course.each, course.in_waves
        missed = np.minimum(np.maximum(2 * moved / self._cache - 1, 0.0), 1.0) if self._cache else 0.0
        parts = np.empty((*each.shape, self.count))
        parts[..., 0] = 1.0
        parts[..., LOAD:BLOCK] = (in_waves * each).transpose(1, 2, 0)
        for number, part in enumerate((each, in_waves[0], amounts.tiles, moved, missed * moved), BLOCK):
            parts[..., number] = part
        shares = self._means(self._shares(amounts), np.zeros((2, *amounts.library.shape)))
        parts[..., SHARES:PARTS] = shares.transpose(1, 2, 0)
        if not self.has_tiles:
            parts[:, self._kernels :, LOAD] = np.broadcast_to(work, each.shape)[:, self._kernels :]
        unaligned = (amounts.alignments < ALIGNMENT)[..., None]
        parts[..., PARTS:] = (parts[:, :, None, (LOAD, BLOCK)] * unaligned).reshape(*each.shape, -1)
        return parts

    def position(self, amounts: Amounts, course: Course, entries: Entries = EVERY) -> Position:
        """Where the sizes lie, for these entries."""
        tiles, share = amounts.tiles[:, entries], amounts.share[:, entries]
        own = np.empty((*tiles.shape, 6))
        own[..., 0], own[..., 1], own[..., 5] = tiles, share * amounts.work, course.rounding[:, entries]
        own[..., 2:5] = course.in_waves[:3, :, entries].transpose(1, 2, 0)
        with np.errstate(invalid="ignore", divide="ignore"):
            np.log(own, out=own)
        own[~np.isfinite(own)] = 0.0
        alignments = amounts.alignments[:, 0]
        levels = NARROWER * np.log2(alignments) + WIDEST * (alignments >= ALIGNMENT)
        return Position(np.log(amounts.sizes), levels, own, amounts.places)

    def _shares(self, amounts: Amounts) -> Array:
        """By size and grid: the tiles of the result that a block has parts of, and how many blocks share one; zero
        where no depth is parted."""
        shares = np.zeros((2, *amounts.there.shape))
        if not len(self._sharing):
            return shares
        blocks = np.minimum(amounts.there[:, self._sharing], self._most[self._sharing])
        with np.errstate(invalid="ignore", divide="ignore"):
            shares[:, :, self._sharing] = np.ceil(amounts.shared / blocks), blocks / amounts.shared
        return shares

    def _alignments(self, scope: Scope) -> list[int]:
        """The powers of two that divide the bytes of rows, up to LINE, for each length of rows."""
        found: list[int] = []
        for length, itemsize in self._rows.items():
            try:
                found.append(math.gcd(length.integer(scope.names) * itemsize, LINE))
            except (ExpressionError, ArithmeticError):
                found.append(1)
        return found

    def _means(self, by_grid: Array, library: Array) -> Array:
        """The last axis by entry: of each kernel the mean of its grids, and the library's by routine."""
        if not len(self._owners):
            return library
        means = np.add.reduceat(by_grid, self._first_grids, axis=-1)
        means /= self._grids_of
        return np.concatenate([means, library], axis=-1)

    def _tiles(self, sizes: Array, scopes: Sequence[Scope]) -> tuple[Array, Array, Array]:
        """By size: the tiles of each grid, how many they would be without rounding up, and the tiles of the result, of
        the grids that part their depth. `scopes` are the problems of these sizes."""
        powers = (sizes[:, None, :] ** self._powers).prod(axis=2)
        along = self._factors * powers[:, self._power_of]
        rounded = np.ceil(along - ROUNDING)
        there, whole = rounded.prod(axis=2), along.prod(axis=2)
        results = np.where(self._is_depth, 1.0, rounded).prod(axis=2) if len(self._sharing) else there.copy()
        if self._counted.rows:
            counted = np.array([self._counted.at(scope.names) for scope in scopes])
            there[:, self._counted.rows], results[:, self._counted.rows] = counted.swapaxes(0, 1)
            whole[:, self._uneven] = there[:, self._uneven]
        return there, whole, results[:, self._sharing]


def _in_waves(even: Array, full: Array) -> Array:
    """So many tiles per multiprocessor in waves of one, of two, of as many as run at once, of which there are `full`,
    and of four; and without waves."""
    waves = np.empty((5, *even.shape))
    np.ceil(even, out=waves[0])
    np.ceil(even / 2, out=waves[1])
    np.ceil(full, out=waves[2])
    np.ceil(even / 4, out=waves[3])
    waves[4] = even
    return waves


def _depth(space: Space) -> int | None:
    """Which of the sizes is the only one that no result has; None where there is none, or several."""
    in_results = is_in_results(space)
    return int(in_results.argmin()) if (~in_results).sum() == 1 else None


def _steps(config: Config) -> list[float]:
    """The parameters of a configuration, and the products of two, that may be the length of steps."""
    values = [value for value in config.values() if type(value) is int and value > 1]
    products = {*values, *(one * other for one, other in itertools.combinations(values, 2))}
    return [float(step) for step in sorted(products) if LEAST_STEP <= step <= MOST_STEP]


def _rows(space: Space, scope: Scope) -> dict[Expression, int]:
    """The lengths of rows of arrays of several dimensions, and the bytes of the narrowest elements of each."""
    varying, found = space.varying, dict[Expression, int]()
    for argument in space.operation.arrays:
        element, shape = DTYPES.get(scope.types.get(argument.dtype, argument.dtype)), argument.shape or ()
        if element is not None and argument.name not in varying and len(shape) > 1:
            found[shape[-1]] = min(element.itemsize, found.get(shape[-1], element.itemsize))
    return found
