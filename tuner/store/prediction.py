"""A model of the time of a configuration at a size that it was not measured at.

A device runs the blocks of a launch in waves over its multiprocessors. One with a block more than the others keeps all
of them waiting, and a block at the edge of the result takes as long as a whole one. NVIDIA's "Matrix Multiplication
Background User's Guide" calls these wave quantization and tile quantization. So the load of a step is

    ceil(blocks / multiprocessors) * multiprocessors * work / whole blocks

where `work` is what the operation says (`flops`, else `bytes`), and `whole blocks` is the number of blocks without
rounding up, so that the quotient is the work of one whole block. The load of a configuration is the mean of its steps'.
A library's routine, whose blocks nobody knows, has the work as its load.

The time of a configuration is a sum of what a launch takes, of its load, of the bytes that must move, and of its waves,
each times a number that is not negative. These four numbers are those with the least squares of relative errors where
it was measured (C. L. Lawson and R. J. Hanson, "Solving Least Squares Problems", 1974, chapter 23). What remains is
taken from the sizes nearby: the mean of the logarithms of what was measured over that sum, weighted by the inverse
fourth power of the distance (D. Shepard, "A two-dimensional interpolation function for irregularly-spaced data", 1968).
Sizes are near for a configuration where it has about as many blocks, each with about as much work: the distance is that
of the logarithms of both. For a library's routine it is that of the logarithms of the sizes. To either is added that of
the powers of two which divide the bytes of rows, up to 16, because aligned rows are read in larger pieces. What was
measured nowhere near is doubted: its time is taken for longer.

Whether to trust it, the records tell: each size is left out in turn and predicted from the others, among what was
measured there and elsewhere. The model must choose better than the nearest size does, over LEAST_SIZES sizes at least.
They also tell by how much a kernel must be expected to be faster than the library, to be taken in its place; what is
then lost over the library counts LOST times more.
In `benchmarks/lookup.py`, which compares both on recordings, the look-up was never worse by this rule than without it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from tuner.errors import ExpressionError
from tuner.space.dtypes import DTYPES
from tuner.space.expressions import Expression
from tuner.space.model import Config, Space
from tuner.space.scope import Scope

LEAST_SIZES = 3  # that were left out in turn
MOST_SIZES = 64  # that a model learns from, the most measured first
SOFT = 0.1  # added to squared distances, so that a size that was measured counts most and not infinitely
SHRINK = 0.1  # the weight of the sum itself among what was measured over it
DOUBT, FAR = 0.3, 0.02  # by how much the time of what was measured nowhere near is longer, and the weight that is near
CAUTIONS = (0.0, 0.02, 0.05, 0.1, 0.2, 0.3)  # by how much a kernel is expected to be faster than the library
LOST = 2.0  # a kernel in the library's place that is slower is a surprise
ALIGNMENT, WIDEST = 16, 2.0  # bytes, and how much farther from all others rows are that are aligned so
SPARING = 8.0  # the weight of the other parts of a time than its load, over the number of sizes, squared
MOST_CHECKED = 8  # sizes at which grids must be as they are thought to be
ROUNDS = 200  # of the search for the four numbers
MAGNIFIED = 1 << 16  # sizes times this have next to whole blocks alone
ROUNDING = 1e-4  # of a block: more than the error of what follows from that, less than any part of a block
Sizes = tuple[int, ...]  # in the order of the operation
Array = np.ndarray[Any, np.dtype[np.float64]]


@dataclass(frozen=True, eq=False)
class Measured:
    """A configuration of a kernel, or a library's routine where `space` is None, and its times in ms by size."""

    space: Space | None
    config: Config
    times: Mapping[Sizes, float]


class TimeModel:
    """Predicts the times of configurations that were measured at several sizes. `regret` is what its choices lost over
    the best of what was measured, on average over the sizes that were left out; None where it is not to be trusted."""

    def __init__(self, measured: Sequence[Measured], scope: Scope, units: int) -> None:
        """All are of one operation. `scope` has options, types and limits; `units` are the multiprocessors."""
        counts: dict[Sizes, int] = {}
        for entry in measured:
            for sizes in entry.times:
                counts[sizes] = counts.get(sizes, 0) + 1
        self.sizes = sorted(counts, key=lambda sizes: (-counts[sizes], sizes))[:MOST_SIZES]
        self._is_kernel = np.array([entry.space is not None for entry in measured], bool)
        self._loads = _Loads(measured, scope, units, self.sizes)
        columns = [self._loads.at(sizes) for sizes in self.sizes]
        parts = np.stack(columns) if columns else np.empty((0, len(measured), PARTS))  # sizes, entries, parts
        self._places = [self._loads.places(sizes) for sizes in self.sizes]
        self._stacked = _Places(*map(np.stack, zip(*self._places, strict=True))) if self._places else None
        times = np.array([[entry.times.get(sizes, np.nan) for entry in measured] for sizes in self.sizes])
        self._times = times.reshape(parts.shape[:2])
        self._known = ~np.isnan(self._times) & np.isfinite(parts).all(axis=2)
        relative = np.where(self._known[:, :, None], parts / self._times[:, :, None], 0.0)
        self._relative = relative
        self._squares = np.einsum("sei,sej->seij", relative, relative)
        self._factors = _nonnegative(self._squares.sum(axis=0), relative.sum(axis=0), self._known.sum(axis=0))
        self._remains = self._remaining(self._factors)
        self._caution = 0.0
        self.regret = self._left_out(parts)

    def times(self, sizes: Mapping[str, int]) -> Array:
        """The predicted time of each, in ms; infinite where there is none. Doubts make it longer."""
        key = tuple(sizes.values())
        weights = self._known * self._weights(self._loads.places(key))
        predicted = self._predicted(self._loads.at(key), self._factors, self._remains, weights)
        return self._cautious(predicted, self._caution)

    def _weights(self, place: _Places) -> Array:
        """How much each size tells of each entry at a place."""
        if self._stacked is None:
            return np.empty(self._known.shape)
        apart = ((self._stacked.sizes - place.sizes) ** 2).sum(axis=1)[:, None]
        squares = np.where(self._is_kernel, ((self._stacked.blocks - place.blocks) ** 2).sum(axis=2), apart)
        squares = squares + ((self._stacked.alignments - place.alignments) ** 2).sum(axis=1)[:, None]
        weights: Array = 1 / (squares + SOFT) ** 2
        return weights

    def _remaining(self, factors: Array) -> Array:
        """The logarithm of what was measured over the sum, by size and entry; 0 where nothing was."""
        with np.errstate(divide="ignore"):
            shares = (self._relative * factors).sum(axis=-1)
        remains: Array = np.where(self._known & (shares > 0), -np.log(np.where(shares > 0, shares, 1.0)), 0.0)
        return remains

    def _predicted(self, parts: Array, factors: Array, remains: Array, weights: Array) -> Array:
        total = weights.sum(axis=0)
        with np.errstate(invalid="ignore", divide="ignore"):
            near = (remains * weights).sum(axis=0) / (total + SHRINK)
            times: Array = (parts * factors).sum(axis=-1) * np.exp(near) * (1 + DOUBT * FAR / (FAR + total))
        times[~np.isfinite(times) | (times <= 0) | (total == 0)] = np.inf
        return times

    def _cautious(self, times: Array, caution: float) -> Array:
        return times if self._is_kernel.all() else np.where(self._is_kernel, times * (1 + caution), times)

    def _left_out(self, parts: Array) -> float | None:
        """The mean regret over sizes that are left out in turn, with the caution that makes it least; None where the
        nearest size does as well."""
        ours: list[list[float]] = []
        lost: list[list[float]] = []  # over the library
        nearest: list[float] = []
        squares, sums = self._squares.sum(axis=0), self._relative.sum(axis=0)
        factors = _nonnegative(squares - self._squares, sums - self._relative, self._known.sum(axis=0) - self._known)
        for position in range(len(self.sizes)):
            others = self._known.copy()
            others[position] = False
            shared = self._known[position] & others.any(axis=0)
            if shared.sum() < 2:
                continue
            weights = others * self._weights(self._places[position])
            predicted = self._predicted(parts[position], factors[position], self._remaining(factors[position]), weights)
            apart = [((place.sizes - self._places[position].sizes) ** 2).sum() for place in self._places]
            near = min(np.flatnonzero(others[:, shared].any(axis=1)), key=lambda row: apart[row])
            times = self._times[position]
            best = times[shared].min()
            library = times[~self._is_kernel & shared].min(initial=np.inf)
            taken = [float(times[_least(self._cautious(predicted, c), shared)]) for c in CAUTIONS]
            ours.append([time / best - 1 for time in taken])
            lost.append([max(0.0, time / library - 1) for time in taken])
            nearest.append(times[_least(self._times[near], shared & others[near])] / best - 1)
        if len(ours) < LEAST_SIZES:
            return None
        means = np.mean(ours, axis=0)
        chosen = int(np.argmin(means + LOST * np.mean(lost, axis=0)))
        self._caution = CAUTIONS[chosen]
        return float(means[chosen]) if means[chosen] < np.mean(nearest) else None


def _nonnegative(squares: Array, sums: Array, counts: Array) -> Array:
    """The numbers x that are not negative with the least |A x - 1|, one after the other improved, for many A at once:
    `squares` are A^T A, `sums` A^T 1, `counts` the rows of A. What few sizes tell is thought to be load (A. N.
    Tikhonov's regularisation)."""
    diagonal = np.einsum("...ii->...i", squares)
    penalty = SPARING * diagonal / np.maximum(counts, 1)[..., None] ** 2
    penalty[..., LOAD] = 0.0
    scale = np.where(diagonal > 0, diagonal + penalty, 1.0)
    x = np.zeros_like(sums)
    for _ in range(ROUNDS):
        for part in ORDER:
            gradient = sums[..., part] - np.einsum("...j,...j->...", squares[..., part, :], x)
            gradient -= penalty[..., part] * x[..., part]
            x[..., part] = np.maximum(0.0, x[..., part] + gradient / scale[..., part])
    return x


def _least(values: Array, among: np.ndarray[Any, np.dtype[np.bool_]]) -> int:
    return int(np.argmin(np.where(among, values, np.inf)))


@dataclass(frozen=True)
class _Grid:
    """The blocks of a step along x, y and z, without rounding up: `factors` times the powers of sizes (a row each)."""

    factors: Array
    powers: Array

    def whole(self, sizes: Array) -> Array:
        """The blocks along each axis at these sizes, which need not be whole numbers."""
        blocks: Array = self.factors * np.prod(sizes**self.powers, axis=1)
        return blocks


class _Places(NamedTuple):
    """Where sizes lie: their logarithms, those of the alignment of rows, and by entry those of the blocks and of the
    work of each."""

    sizes: Array
    alignments: Array
    blocks: Array


PARTS = 4  # of a time: a launch, the load, bytes, waves
LOAD = 1
ORDER = (LOAD, 0, 2, 3)  # in which they are searched


class _Loads:
    """The parts of the times of configurations, but for their factors. Those with the same grid share their
    computation."""

    def __init__(self, measured: Sequence[Measured], scope: Scope, units: int, sizes: Sequence[Sizes]) -> None:
        """`sizes` are those at which grids must be as they are thought to be."""
        self._units, self._scope = units, scope
        self._space = next((entry.space for entry in measured if entry.space is not None), None)
        self._rows = [] if self._space is None else _rows(self._space, scope)
        parameters: dict[int, list[str]] = {}
        samples: dict[tuple[object, ...], tuple[Space, Config]] = {}
        keys: list[tuple[object, ...] | None] = []
        for entry in measured:
            if entry.space is None:
                keys.append(None)
                continue
            names = parameters.setdefault(id(entry.space), []) or _parameters_of_grids(entry.space)
            parameters[id(entry.space)] = names
            keys.append(key := (id(entry.space), *(entry.config.get(name) for name in names)))
            samples.setdefault(key, (entry.space, entry.config))
        numbers = {key: number for number, key in enumerate(samples)}
        self._members = np.array([len(samples) if key is None else numbers[key] for key in keys], int)
        # Grids that are products of rounded powers are computed all at once, any others one by one.
        self._others: dict[int, tuple[Space, Config]] = {}
        rows: list[_Grid] = []
        self._owners: list[int] = []
        for number, (space, config) in enumerate(samples.values()):
            grids = self._grids(space, config, sizes)
            if grids is None:
                self._others[number] = (space, config)
            else:
                rows += grids
                self._owners += [number] * len(grids)
        self._count = len(samples)
        self._factors = np.array([grid.factors for grid in rows]).reshape(-1, 3, 1)
        self._powers = np.array([grid.powers for grid in rows])

    def at(self, sizes: Sizes) -> Array:
        """The parts of each at these sizes, in rows: 1, the load, bytes, and waves; not a number where it has none."""
        wastes, (work, moved) = self._wastes(sizes), self._work(sizes)
        kinds = np.stack([np.ones(len(wastes)), wastes[:, 0] * work, np.full(len(wastes), moved), wastes[:, 1]], axis=1)
        parts: Array = kinds[self._members]
        return parts

    def places(self, sizes: Sizes) -> _Places:
        """Where these sizes lie among others."""
        wastes, logs = self._wastes(sizes), np.log(np.array(sizes, float))
        with np.errstate(invalid="ignore", divide="ignore"):
            blocks, each = wastes[:, 2], wastes[:, 0] * self._work(sizes)[0] / wastes[:, 1]
            kinds = np.nan_to_num(np.log(np.stack([blocks, each], axis=1)), posinf=0.0)
        alignments = [] if self._space is None else self._alignments(self._at(self._space, sizes))
        return _Places(logs, np.array(alignments, float), kinds[self._members])

    def _alignments(self, scope: Scope) -> list[float]:
        """The logarithms to base 2 of the powers of two that divide the bytes of the rows of each array."""
        found: list[float] = []
        for length, itemsize in self._rows:
            try:
                divides = math.gcd(length.integer(scope.names) * itemsize, ALIGNMENT)
            except (ExpressionError, ArithmeticError):
                divides = 1
            found.append(math.log2(divides) + (WIDEST if divides == ALIGNMENT else 0.0))
        return found

    def _wastes(self, sizes: Sizes) -> Array:
        """What whole blocks take over what they do, waves, and blocks, in rows by grid; means of steps."""
        wastes = np.full((self._count + 1, 3), np.nan)
        wastes[self._count] = 1.0, 0.0, 1.0  # of a library's routine
        if len(self._owners):
            point = np.array(sizes, float)
            whole = (self._factors * np.prod(point**self._powers, axis=2, keepdims=True))[:, :, 0]
            blocks = np.ceil(whole - ROUNDING).prod(axis=1)
            waves = np.ceil(blocks / self._units)
            counts = np.bincount(self._owners, minlength=self._count)
            for column, values in enumerate((waves * self._units / whole.prod(axis=1), waves, blocks)):
                sums = np.bincount(self._owners, weights=values, minlength=self._count)
                wastes[: self._count, column] = np.divide(
                    sums, counts, out=wastes[: self._count, column], where=counts > 0
                )
        for number, (space, config) in self._others.items():
            wastes[number] = self._waste(space, config, sizes)
        return wastes

    def _grids(self, space: Space, config: Config, sizes: Sequence[Sizes]) -> list[_Grid] | None:
        """The grids of its steps as products; None if one is none."""
        try:
            grids = [_grid(step.grid, space, config, self._at(space, sizes[0])) for step in space.steps]
            for point in sizes[:: max(1, len(sizes) // MOST_CHECKED)]:
                names = space.names(config, self._at(space, point))
                for step, grid in zip(space.steps, grids, strict=True):
                    blocks = [extent.integer(names) for extent in step.grid]
                    if (np.ceil(grid.whole(np.array(point, float)) - ROUNDING) != blocks).any():
                        return None
        except (ExpressionError, ArithmeticError, ValueError):
            return None
        return grids

    def _waste(self, space: Space, config: Config, sizes: Sizes) -> tuple[float, float, float]:
        """What whole blocks take over what they do, waves, and blocks, where a grid is no product: then no block is
        thought to be cut."""
        try:
            names = space.names(config, self._at(space, sizes))
            counts = [math.prod(extent.integer(names) for extent in step.grid) for step in space.steps]
            waves = [math.ceil(blocks / self._units) for blocks in counts]
            waits = [wave * self._units / blocks for wave, blocks in zip(waves, counts, strict=True)]
        except (ExpressionError, ArithmeticError):
            return math.nan, math.nan, math.nan
        return sum(waits) / len(waits), sum(waves) / len(waves), sum(counts) / len(counts)

    def _work(self, sizes: Sizes) -> tuple[float, float]:
        return (1.0, 1.0) if self._space is None else _work(self._space, self._at(self._space, sizes))

    def _at(self, space: Space, sizes: Sizes) -> Scope:
        return replace(self._scope, sizes=dict(zip(space.operation.sizes, sizes, strict=True)))


def _grid(grid: Sequence[Expression], space: Space, config: Config, scope: Scope) -> _Grid:
    """A grid as products of powers of sizes, as far as it grows so."""

    def blocks(sizes: Sequence[int]) -> list[int]:
        names = space.names(config, replace(scope, sizes=dict(zip(scope.sizes, sizes, strict=True))))
        return [extent.integer(names) for extent in grid]

    large = [MAGNIFIED * size for size in scope.sizes.values()]
    there = blocks(large)
    doubled = [blocks([*large[:i], 2 * large[i], *large[i + 1 :]]) for i in range(len(large))]
    powers = np.array([[round(math.log2(more[axis] / there[axis])) for more in doubled] for axis in range(3)], float)
    return _Grid(np.array(there, float) / np.prod(np.array(large, float) ** powers, axis=1), powers)


def _parameters_of_grids(space: Space) -> list[str]:
    """The parameters that the grids of a space depend on."""
    queue = [name for step in space.steps for extent in step.grid for name in extent.names]
    visited: set[str] = set()
    while queue:
        name = queue.pop()
        if name not in visited:
            visited.add(name)
            queue += space.derived[name].names if name in space.derived else ()
    return [name for name in space.parameters if name in visited]


def _work(space: Space, scope: Scope) -> tuple[float, float]:
    """What an operation says that it computes, or else moves; and what it moves, or else holds."""
    op, elements = space.operation, float(math.prod(scope.sizes.values()))

    def amount(expression: Expression | None, otherwise: float) -> float:
        try:
            return otherwise if expression is None else float(expression.evaluate(scope.names))
        except (ExpressionError, TypeError, ValueError):
            return otherwise

    moved = amount(op.bytes, elements)
    return amount(op.flops, moved), moved


def _rows(space: Space, scope: Scope) -> list[tuple[Expression, int]]:
    """The elements of a row of each array of several dimensions, and the bytes of an element."""
    varying, found = space.varying, list[tuple[Expression, int]]()
    for argument in space.operation.arrays:
        element, shape = DTYPES.get(scope.types.get(argument.dtype, argument.dtype)), argument.shape or ()
        if element is not None and argument.name not in varying and len(shape) > 1:
            found.append((shape[-1], element.itemsize))
    return found
