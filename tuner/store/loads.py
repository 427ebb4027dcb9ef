"""What the time of a configuration is made of at a size, but for factors: a launch, its load, bytes and waves.

A device runs the blocks of a launch in waves over its multiprocessors. One with a block more than the others keeps all
of them waiting, and a block at the edge of the result takes as long as a whole one. NVIDIA's "Matrix Multiplication
Background User's Guide" calls these wave quantization and tile quantization. So the load of a step is

    ceil(blocks / multiprocessors) * multiprocessors * work / whole blocks

where `work` is what the operation says (`flops`, else `bytes`), and `whole blocks` is the number of blocks without
rounding up, so that the quotient is the work of one whole block. The load of a configuration is the mean of its steps'.
A library's routine, whose blocks nobody knows, has the work as its load.
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

PARTS, LOAD = 4, 1  # of a time: a launch, the load, bytes, waves; and which of them is the load
ALIGNMENT, WIDEST = 16, 2.0  # bytes, and how much farther from all others rows are that are aligned so
MOST_CHECKED = 8  # sizes at which grids must be as they are thought to be
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


@dataclass(frozen=True)
class _Grid:
    """The blocks of a step along x, y and z, without rounding up: `factors` times the powers of sizes (a row each)."""

    factors: Array
    powers: Array

    def whole(self, sizes: Array) -> Array:
        """The blocks along each axis at these sizes, which need not be whole numbers."""
        blocks: Array = self.factors * np.prod(sizes**self.powers, axis=1)
        return blocks


class Position(NamedTuple):
    """Where sizes lie: their logarithms, those of the alignment of rows, and by entry those of the blocks and of the
    work of each."""

    sizes: Array
    alignments: Array
    blocks: Array


class TimeTerms:
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

    def places(self, sizes: Sizes) -> Position:
        """Where these sizes lie among others."""
        wastes, logs = self._wastes(sizes), np.log(np.array(sizes, float))
        with np.errstate(invalid="ignore", divide="ignore"):
            blocks, each = wastes[:, 2], wastes[:, 0] * self._work(sizes)[0] / wastes[:, 1]
            kinds = np.nan_to_num(np.log(np.stack([blocks, each], axis=1)), posinf=0.0)
        alignments = [] if self._space is None else self._alignments(self._at(self._space, sizes))
        return Position(logs, np.array(alignments, float), kinds[self._members])

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
    return space.parameters_behind(name for step in space.steps for extent in step.grid for name in extent.names)


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
