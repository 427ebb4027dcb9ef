"""Cost terms: the quantities whose weighted sum is the predicted time of a configuration at a size.

A device runs the blocks of a launch in waves over its multiprocessors. If one multiprocessor has a block more than the
others, all wait for it, and a partial block at the edge of the output takes as long as a whole one. NVIDIA's "Matrix
Multiplication Background User's Guide" calls these effects wave quantization and tile quantization. The load of a step
is therefore

    ceil(blocks / multiprocessors) * work / whole blocks

`work` is the operation's `flops`, or its `bytes` if it declares no flops. `whole blocks` is the number of blocks
without rounding up, so that the quotient is the work of one whole block. If the blocks are persistent, each loops over
tiles. Then the formula has the number of tiles instead of blocks, and the number of blocks instead of multiprocessors.

An entry is a configuration of a kernel, or a routine of the vendor library. Three properties of each entry are
estimated from its times (see `Traits`):

- `slots`, the multiprocessors that take blocks. The blocks of a cluster share one group of multiprocessors (NVIDIA's
  "H100 Tensor Core GPU Architecture"). If a group has too few multiprocessors left for another cluster, they stay idle.
  The configurations whose clusters have the same number of blocks share one estimate.
- `resident`, the blocks that the device runs at once: several small blocks share a multiprocessor.
- `depth_steps`, the step of the loop over the depth, which is the size that no output has (K of a matrix product). The
  kernel rounds the depth up to a multiple of one of its parameters, or of a product of two.

The cost terms are

- the launch, a constant; the load; the waves, for their prologue and epilogue; and the tiles, for a fixed cost of each;
- the load in waves of two and of four blocks per multiprocessor, and of all resident blocks: if blocks share a
  multiprocessor, a wave ends when the last of them ends;
- the load without rounding up to waves: if there are many waves, their quantization averages out;
- the work of one block: if only a few blocks share a multiprocessor, they take as long as one block alone;
- the bytes moved, and those of them that the last-level cache does not retain from one run to the next;
- if blocks split the depth of an output tile, as in stream-K (M. Osama and others, "Stream-K", 2023): the number of
  output tiles to which a block contributes, for the prologue and epilogue of each; and the number of blocks that share
  an output tile, because they wait for one another to add up their partial sums.

Rows of an array that are not aligned are read in narrower accesses. For each row length, two further terms repeat the
load and the work of one block; they are 0 if the rows are aligned. A third one repeats the load if rows begin inside
cache lines, because an access then touches a line more. Each term is the mean over the steps of a kernel. A step whose
grid is not a product of sizes, such as one that prepares arrays for the next step, is ignored if the grid of another
step is such a product. So is a step that reads no input, such as one that adds up partial sums, if another
one reads one and its grid depends on all sizes of the outputs. Otherwise the others may only prepare what it reads.

A library may report its tiles. It may launch more blocks than tiles; a block without a tile occupies a slot if all
blocks are resident at once (see `Tiles.dealt`). For a routine whose tiles are unknown, the load is the work.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from tuner.errors import ExpressionError
from tuner.prediction.amounts import BLOCK, LOAD, TERMS, Amounts, Array, Capacity, Features, Indices, Schedule, Traits
from tuner.prediction.grids import ROUNDING, CountedTiles, Sizes, is_in_outputs, scope_at, work_of
from tuner.prediction.library_tiles import LibraryRoutines
from tuner.space.config import Config
from tuner.space.dtypes import DTYPES
from tuner.space.expressions import Expression
from tuner.space.model import Space
from tuner.space.scope import Scope

if TYPE_CHECKING:
    from tuner.prediction.grid_table import GridTable

ALIGNMENT, ALIGNED_DISTANCE = 16, 1.0  # bytes of the widest access; feature distance if only one row allows it
LINE = 128  # bytes of a cache line; a row that begins inside a line touches one line more
HALVING_DISTANCE = 0.4  # feature distance of rows if one is aligned to half as many bytes as the other
# The feature of a row length, by the bytes to which rows are aligned.
ALIGNMENT_FEATURES = {
    each: HALVING_DISTANCE * math.log2(each) + ALIGNED_DISTANCE * (each >= ALIGNMENT)
    for each in (1, 2, 4, 8, 16, 32, 64, LINE)
}
LEAST_STEP, MOST_STEP = 8, 4096  # of the loop over the depth
# Five ways to round up to waves: one block per multiprocessor, two, all resident (index RESIDENT), four, no rounding.
PER_WAVE, RESIDENT = np.reshape([1.0, 1 / 2, 0.0, 1 / 4, 1.0], (5, 1, 1)), 2
PROBLEM = 4  # numbers in the result of `_problem`
Entries = Indices | slice
ALL_ENTRIES = slice(None)


class CostTerms:
    """Computes the cost terms of entries at any size, and their features for the Gaussian process."""

    def __init__(
        self,
        entries: Sequence[tuple[Space | None, Config]],
        scope: Scope,
        cache: int,
        table: GridTable,
        library: LibraryRoutines,
    ) -> None:
        """`entries` has the kernels first, then an entry for each routine of the `library`; `table` has their grids.

        `cache` is the size of the last-level cache in bytes, 0 if unknown.
        """
        self._scope, self._cache = scope, cache
        self._space = next((space for space, _ in entries if space is not None), None)
        self._row_lengths = {} if self._space is None else _row_lengths(self._space, scope)
        self._kernels = sum(space is not None for space, _ in entries)
        self._depth = None if self._space is None else _depth(self._space)
        self._configs = [{} if space is None else config for space, config in entries]
        grids, owners = table
        self._owners = np.array(owners, int)
        self._routines = slice(len(grids) - len(entries) + self._kernels, None)  # rows of the library's routines
        _, self._first_grids, self._grids_of = np.unique(owners, return_index=True, return_counts=True)
        # Configurations with equal tiles share a grid, whose tiles are computed once: `_shared` is its number by row.
        distinct = [*{id(grid): grid for grid in grids}.values()]
        numbers = {id(grid): number for number, grid in enumerate(distinct)}
        self._shared = np.array([numbers[id(grid)] for grid in grids], int)
        self._counted = CountedTiles(distinct)
        self._uneven = np.array([number for number, grid in enumerate(distinct) if not grid.is_product], int)
        self._sharing = np.array([number for number, grid in enumerate(distinct) if grid.is_depth.any()], int)
        axes = max((len(grid.factors) for grid in distinct), default=0)
        self._factors, powers = np.ones((axes, len(distinct))), np.zeros((axes, len(distinct), len(scope.sizes)))
        self._is_depth = np.zeros((axes, len(distinct)), bool)
        for number, grid in enumerate(distinct):
            if grid.agrees:
                self._is_depth[: len(grid.is_depth), number] = grid.is_depth
            self._factors[: len(grid.factors), number], powers[: len(grid.factors), number] = grid.factors, grid.powers
        # Grids share few distinct powers of sizes, so each is computed once.
        self._powers, inverse = np.unique(powers.reshape(-1, len(scope.sizes)), axis=0, return_inverse=True)
        self._power_of = inverse.reshape(self._factors.shape)
        self._bounds = np.array([grid.most for grid in distinct], float)
        self._most = self._bounds[self._shared]
        self._library = library

    @property
    def has_tiles(self) -> bool:
        """Whether the library reports its tiles."""
        return self._library.are_known

    @property
    def widths(self) -> tuple[int, int, int]:
        """The numbers of columns of the groups of shared features (see `Features`)."""
        return len(self._scope.sizes), len(self._row_lengths), self._library.columns

    @property
    def count(self) -> int:
        """The number of cost terms."""
        return TERMS + 3 * len(self._row_lengths)

    def amounts(self, sizes: Sequence[Sizes]) -> Amounts:
        """The quantities behind the cost terms at these sizes."""
        scopes = [scope_at(self._scope, each) for each in sizes]  # all entries are of one operation
        reported = self._library.at(scopes)
        counts = self._library.counts(reported)
        tiles, by_grid = self._tiles(np.array(sizes, float), scopes, counts)
        rows: list[list[float]] = []
        for scope, library_tiles in zip(scopes, reported, strict=True):
            aligned = self._aligned(scope)
            shared = (
                *map(math.log, scope.sizes.values()),
                *(ALIGNMENT_FEATURES[each] for each in aligned),
                *self._library.features(library_tiles),
            )
            unaligned_rows = [each < most for most in (ALIGNMENT, LINE) for each in aligned]
            rows.append([*self._problem(scope), *unaligned_rows, *shared])
        numbers, lengths = np.array(rows, float), len(self._row_lengths)
        problem, first_shared = numbers[:, :PROBLEM].T[..., None], PROBLEM + 2 * lengths
        unaligned = numbers[:, PROBLEM:first_shared].reshape(len(rows), 1, 2, lengths).transpose(2, 0, 1, 3)
        return Amounts(tiles, counts[2], self._means(by_grid), problem, unaligned, numbers[:, first_shared:])

    def own(self, amounts: Amounts, rows: Indices) -> Amounts:
        """Select different sizes for each entry: `rows`, [selected, entries], has their indices in `amounts`."""
        tiles = np.take_along_axis(amounts.tiles, rows[:, self._owners], axis=0)
        resident = np.take_along_axis(amounts.resident, rows[:, self._kernels :], axis=0)
        means = np.take_along_axis(amounts.means, rows[None], axis=1)
        return Amounts(
            tiles, resident, means, amounts.problem[:, rows, 0], amounts.unaligned[:, rows, 0], amounts.shared[:0]
        )

    @property
    def depth_steps(self) -> Array:
        """Candidates for `Traits.depth_steps`, [candidates, entries]: parameters, and products of two; 1 pads."""
        if self._depth is None:
            return np.empty((0, len(self._configs)))
        return np.array([*itertools.zip_longest(*map(_depth_steps, self._configs), fillvalue=1.0)])

    def capacity(self, traits: Traits) -> Capacity:
        """The number of blocks of each grid that run together, according to these traits."""
        blocks = np.array(traits[:2])[:, None, self._owners]
        return Capacity(blocks, np.minimum(blocks, self._most), traits.depth_steps)

    def schedule(self, amounts: Amounts, capacity: Capacity) -> Schedule:
        """How the blocks of each entry run at each size."""
        tiles, (depth, work) = amounts.tiles, amounts.problem[:2]
        per_slot, per_resident = tiles / np.where(tiles > self._most, capacity.persistent, capacity.blocks)
        per_resident[:, self._routines] /= amounts.resident
        waves = per_slot * PER_WAVE
        waves[RESIDENT] = per_resident
        np.ceil(waves[:-1], out=waves[:-1])
        rounding = np.ceil(depth / capacity.depth_steps) * capacity.depth_steps / depth
        return Schedule(self._means(waves), amounts.means[0] * work * rounding, rounding)

    def terms(self, amounts: Amounts, schedule: Schedule) -> Array:
        """The cost terms, [sizes, entries, terms], NaN if unknown."""
        (_, work, moved, missed), tile_work = amounts.problem, schedule.tile_work
        _, tiles, *sharing = amounts.means
        terms = np.empty((*tile_work.shape, self.count))
        terms[..., 0] = 1.0
        np.multiply(schedule.waves.transpose(1, 2, 0), tile_work[..., None], out=terms[..., LOAD:BLOCK])
        for number, term in enumerate((tile_work, schedule.waves[0], tiles, moved, missed, *sharing), BLOCK):
            terms[..., number] = term
        if not self.has_tiles:
            terms[:, self._kernels :, LOAD] = np.broadcast_to(work, tile_work.shape)[:, self._kernels :]
        narrow, within_lines = amounts.unaligned
        of_rows = (LOAD, narrow), (BLOCK, narrow), (LOAD, within_lines)
        terms[..., TERMS:] = np.concatenate([terms[..., number, None] * rows for number, rows in of_rows], axis=-1)
        return terms

    def features(self, amounts: Amounts, schedule: Schedule, entries: Entries = ALL_ENTRIES) -> Features:
        """The features of the sizes, for these entries."""
        own = np.empty((6, *schedule.tile_work.shape))
        own[0], own[2:5], own[5] = amounts.means[1], schedule.waves[:3], schedule.depth_rounding
        np.multiply(amounts.means[0], amounts.problem[1], out=own[1])
        own = own[:, :, entries]
        own[~(own > 0)] = 1.0  # unknown
        np.log(own, out=own)
        return Features(amounts.shared, self.widths, own.transpose(1, 2, 0))

    def _problem(self, scope: Scope) -> tuple[float, float, float, float]:
        """The depth, the work, the bytes moved, and those of them that the last-level cache does not retain."""
        if self._space is None:
            return 1.0, 1.0, 1.0, 0.0
        depth = 1.0 if self._depth is None else float(scope.sizes[self._depth])
        work, moved = work_of(self._space, scope)
        share = min(max(2 * moved / self._cache - 1, 0.0), 1.0) if self._cache else 0.0
        return depth, work, moved, share * moved

    def _aligned(self, scope: Scope) -> list[int]:
        """For each row length, the bytes to which rows are aligned: a power of two, at most LINE."""
        alignments: list[int] = []
        for length, itemsize in self._row_lengths.items():
            try:
                alignments.append(math.gcd(length.integer(scope.names) * itemsize, LINE))
            except (ExpressionError, ArithmeticError):
                alignments.append(1)
        return alignments

    def _means(self, by_grid: Array) -> Array:
        """Means over the grids of each entry: replaces the last axis, grids, by entries."""
        if len(self._owners) == len(self._configs):
            return by_grid
        means: Array = np.add.reduceat(by_grid, self._first_grids, axis=-1)
        means /= self._grids_of
        return means

    def _tiles(self, sizes: Array, scopes: Sequence[Scope], library: Array) -> tuple[Array, Array]:
        """The tiles, [sizes, grids], and the quantities of `Amounts.means` by grid, [4, sizes, grids].

        `scopes` are the problems of these sizes, `library` is the result of `LibraryRoutines.counts`.
        """
        powers = np.multiply.reduce(sizes[:, None, :] ** self._powers, axis=2)
        along = self._factors * powers[:, self._power_of]
        rounded = np.ceil(along - ROUNDING)
        by_grid = np.zeros((4, len(sizes), along.shape[2]))
        whole = np.multiply.reduce(along, axis=1, out=by_grid[0])
        tiles = np.multiply.reduce(rounded, axis=1, out=by_grid[1])
        outputs = np.where(self._is_depth, 1.0, rounded).prod(axis=1) if len(self._sharing) else tiles.copy()
        if len(rows := self._counted.rows):
            counted = np.array([self._counted.at(scope.names) for scope in scopes])
            tiles[:, rows], outputs[:, rows] = counted.swapaxes(0, 1)
            whole[:, self._uneven] = tiles[:, self._uneven]
        np.divide(1.0, whole, out=whole)
        if len(sharing := self._sharing):
            blocks = np.minimum(tiles[:, sharing], self._bounds[sharing])
            per_block = outputs[:, sharing] / blocks  # output tiles
            by_grid[2, :, sharing], by_grid[3, :, sharing] = np.ceil(per_block).T, 1 / per_block.T
        by_grid = by_grid[..., self._shared]
        tiles, by_grid[0, :, self._routines] = by_grid[1], library[1]
        tiles[:, self._routines] = library[0]
        return tiles, by_grid


def _depth(space: Space) -> str | None:
    """The only size that no output has; None if there are none or several."""
    others = [*itertools.compress(space.operation.sizes, ~is_in_outputs(space))]
    return others[0] if len(others) == 1 else None


def _depth_steps(config: Config) -> list[float]:
    """The parameters of a configuration, and products of two, that may be the step of the loop over the depth."""
    values = [value for value in config.values() if type(value) is int and value > 1]
    products = {*values, *(one * other for one, other in itertools.combinations(values, 2))}
    return [float(step) for step in sorted(products) if LEAST_STEP <= step <= MOST_STEP]


def _row_lengths(space: Space, scope: Scope) -> dict[Expression, int]:
    """The row lengths of arrays with several dimensions, each with the bytes of its narrowest element type."""
    varying, lengths = space.varying, dict[Expression, int]()
    for argument in space.operation.arrays:
        element, shape = DTYPES.get(scope.types.get(argument.dtype, argument.dtype)), argument.shape or ()
        if element is not None and argument.name not in varying and len(shape) > 1:
            lengths[shape[-1]] = min(element.itemsize, lengths.get(shape[-1], element.itemsize))
    return lengths
