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
from tuner.prediction.amounts import BLOCK, LOAD, PARTS, Amounts, Array, Capacity, Course, Position, Rows, Traits
from tuner.prediction.grids import (
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
from tuner.prediction.library_tiles import ToldTiles
from tuner.space.config import Config
from tuner.space.dtypes import DTYPES
from tuner.space.expressions import Expression
from tuner.space.model import Space
from tuner.space.scope import Scope

ALIGNMENT, WIDEST = 16, 1.0  # bytes, and how much farther from all others rows are that are aligned so
LINE = 128  # bytes of a line of a cache: rows that begin amid one touch one more
NARROWER = 0.4  # by which power of two rows are apart of which half as many bytes are aligned
# Where rows lie by the bytes that are aligned.
LEVELS = {each: NARROWER * math.log2(each) + WIDEST * (each >= ALIGNMENT) for each in (1, 2, 4, 8, 16, 32, 64, LINE)}
LEAST_STEP, MOST_STEP = 8, 4096  # of the depth
# Waves of one block per multiprocessor, of two, of as many as run at once, and of four; and none.
PER_WAVE, AT_ONCE = np.reshape([1.0, 1 / 2, 0.0, 1 / 4, 1.0], (5, 1, 1)), 2
PROBLEM = 4  # numbers that `_problem` gives
Entries = Rows | slice
EVERY = slice(None)
UNKNOWN = TiledGrid(np.array([np.nan]), np.zeros((1, 1)), np.zeros(1, bool))  # the grid of what has none that is known


class TimeTerms:
    """The parts of the times of configurations, but for their factors."""

    def __init__(
        self,
        measured: Sequence[Measured],
        scope: Scope,
        cache: int,
        sizes: Sequence[Sizes],
        told: ToldTiles,
    ) -> None:
        """Kernels are measured, then the library with an entry for each routine that is `told`. `cache` is the bytes of
        the last cache, 0 if unknown. `sizes` are those at which grids must be as they are thought to be."""
        self._scope, self._cache = scope, cache
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
                grids.append(UNKNOWN)  # the library tells its tiles, if anything does
                owners.append(number)
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
        self._routines = slice(len(grids) - len(measured) + self._kernels, None)  # of the library, among grids
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
        told = self._told.at(scopes)
        counts = self._told.counts(told)
        there, by_grid = self._tiles(np.array(sizes, float), scopes, counts)
        others: list[list[float]] = []
        for scope, tiles in zip(scopes, told, strict=True):
            aligned = self._aligned(scope)
            place = *map(math.log, scope.sizes.values()), *(LEVELS[each] for each in aligned), *self._told.place(tiles)
            others.append([*self._problem(scope), *(each < ALIGNMENT for each in aligned), *place])
        numbers, places = np.array(others, float), PROBLEM + len(self._rows)
        problem, unaligned = numbers[:, :PROBLEM].T[..., None], numbers[:, None, PROBLEM:places]
        return Amounts(there, counts[2], self._means(by_grid), problem, unaligned, numbers[:, places:])

    def own(self, amounts: Amounts, rows: Rows) -> Amounts:
        """The amounts of each entry at sizes of its own: `rows` has their numbers, by entry, the last axis."""
        there = np.take_along_axis(amounts.there, rows[:, self._owners], axis=0)
        at_once = np.take_along_axis(amounts.at_once, rows[:, self._kernels :], axis=0)
        means = np.take_along_axis(amounts.means, rows[None], axis=1)
        return Amounts(
            there, at_once, means, amounts.problem[:, rows, 0], amounts.unaligned[rows, 0], amounts.shared[:0]
        )

    @property
    def steps(self) -> Array:
        """What the depth may be rounded up to, one after the other, by entry: parameters, and products of two."""
        if self._depth is None:
            return np.empty((0, len(self._configs)))
        return np.array([*itertools.zip_longest(*map(_steps, self._configs), fillvalue=1.0)])

    def capacity(self, traits: Traits) -> Capacity:
        """The capacity for the blocks of each grid."""
        blocks = np.array(traits[:2])[:, None, self._owners]
        return Capacity(blocks, np.minimum(blocks, self._most), traits.steps)

    def course(self, amounts: Amounts, capacity: Capacity) -> Course:
        """How each runs at each size."""
        there, (depth, work) = amounts.there, amounts.problem[:2]
        even, full = there / np.where(there > self._most, capacity.walked, capacity.blocks)
        full[:, self._routines] /= amounts.at_once
        waves = even * PER_WAVE
        waves[AT_ONCE] = full
        np.ceil(waves[:-1], out=waves[:-1])
        rounding = np.ceil(depth / capacity.steps) * capacity.steps / depth
        return Course(self._means(waves), amounts.means[0] * work * rounding, rounding)

    def parts(self, amounts: Amounts, course: Course) -> Array:
        """The parts of the time of each at each size, the last axis; not a number where it has none."""
        (_, work, moved, missed), each = amounts.problem, course.each
        _, tiles, *shares = amounts.means
        parts = np.empty((*each.shape, self.count))
        parts[..., 0] = 1.0
        np.multiply(course.in_waves.transpose(1, 2, 0), each[..., None], out=parts[..., LOAD:BLOCK])
        for number, part in enumerate((each, course.in_waves[0], tiles, moved, missed, *shares), BLOCK):
            parts[..., number] = part
        if not self.has_tiles:
            parts[:, self._kernels :, LOAD] = np.broadcast_to(work, each.shape)[:, self._kernels :]
        of_rows = parts[..., PARTS:].reshape(*each.shape, -1, 2)  # a view
        np.multiply(parts[..., None, LOAD : BLOCK + 1 : BLOCK - LOAD], amounts.unaligned[..., None], out=of_rows)
        return parts

    def position(self, amounts: Amounts, course: Course, entries: Entries = EVERY) -> Position:
        """Where the sizes lie, for these entries."""
        own = np.empty((6, *course.each.shape))
        own[0], own[2:5], own[5] = amounts.means[1], course.in_waves[:3], course.rounding
        np.multiply(amounts.means[0], amounts.problem[1], out=own[1])
        own = own[:, :, entries]
        own[~(own > 0)] = 1.0  # where it is not known
        np.log(own, out=own)
        lengths = len(self._scope.sizes), len(self._rows), self._told.columns
        return Position(amounts.shared, lengths, own.transpose(1, 2, 0))

    def _problem(self, scope: Scope) -> tuple[float, float, float, float]:
        """The depth, the work, the bytes that move, and those of them that do not lie in the last cache."""
        if self._space is None:
            return 1.0, 1.0, 1.0, 0.0
        depth = 1.0 if self._depth is None else float(scope.sizes[self._depth])
        work, moved = work_of(self._space, scope)
        share = min(max(2 * moved / self._cache - 1, 0.0), 1.0) if self._cache else 0.0
        return depth, work, moved, share * moved

    def _aligned(self, scope: Scope) -> list[int]:
        """The powers of two that divide the bytes of rows, up to LINE, for each length of rows."""
        found: list[int] = []
        for length, itemsize in self._rows.items():
            try:
                found.append(math.gcd(length.integer(scope.names) * itemsize, LINE))
            except (ExpressionError, ArithmeticError):
                found.append(1)
        return found

    def _means(self, by_grid: Array) -> Array:
        """The last axis by entry: the means of the grids of each."""
        if len(self._owners) == len(self._configs):
            return by_grid
        means: Array = np.add.reduceat(by_grid, self._first_grids, axis=-1)
        means /= self._grids_of
        return means

    def _tiles(self, sizes: Array, scopes: Sequence[Scope], library: Array) -> tuple[Array, Array]:
        """The tiles by size and grid; and what there are means of (see `Amounts`). `scopes` are the problems of these
        sizes, `library` is what its routines count."""
        powers = np.multiply.reduce(sizes[:, None, :] ** self._powers, axis=2)
        along = self._factors * powers[:, self._power_of]
        rounded = np.ceil(along - ROUNDING)
        found = np.zeros((4, *along.shape[:2]))
        whole = np.multiply.reduce(along, axis=2, out=found[0])
        there = np.multiply.reduce(rounded, axis=2, out=found[1])
        results = np.where(self._is_depth, 1.0, rounded).prod(axis=2) if len(self._sharing) else there.copy()
        if len(rows := self._counted.rows):
            counted = np.array([self._counted.at(scope.names) for scope in scopes])
            there[:, rows], results[:, rows] = counted.swapaxes(0, 1)
            whole[:, self._uneven] = there[:, self._uneven]
        there[:, self._routines] = library[0]
        share = np.divide(1.0, whole, out=whole)
        share[:, self._routines] = library[1]
        if len(sharing := self._sharing):
            blocks = np.minimum(there[:, sharing], self._most[sharing])
            tiles = results[:, sharing] / blocks  # that each has parts of
            found[2, :, sharing], found[3, :, sharing] = np.ceil(tiles).T, 1 / tiles.T
        return there, found


def _depth(space: Space) -> str | None:
    """The only one of the sizes that no result has; None where there is none, or several."""
    others = [*itertools.compress(space.operation.sizes, ~is_in_results(space))]
    return others[0] if len(others) == 1 else None


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
