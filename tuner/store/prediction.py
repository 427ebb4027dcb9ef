"""A model of the time of a configuration at a size that it was not measured at.

A device runs the blocks of a launch in waves over its multiprocessors. One with a block more than the others keeps all
of them waiting, and a block at the edge of the result takes as long as a whole one. NVIDIA's "Matrix Multiplication
Background User's Guide" calls these wave quantization and tile quantization. So the load of a step is

    ceil(blocks / multiprocessors) * multiprocessors * work / whole blocks

where `work` is what the operation says (`flops`, else `bytes`), and `whole blocks` is the number of blocks without
rounding up, so that the quotient is the work of one whole block. The load of a configuration is the mean of its steps'.
Its time is its load over its rate. The rate at a size is the mean of the logarithms of the rates at which it was
measured, weighted by the inverse square of the distance between the logarithms of the sizes (D. Shepard, "A
two-dimensional interpolation function for irregularly-spaced data", 1968). A library's routine, whose blocks nobody
knows, has the work as its load.

Whether to trust it, the records tell: each size is left out in turn and predicted from the others, among what was
measured there and elsewhere. The model must choose better than the nearest size does, over LEAST_SIZES sizes at least.
In `benchmarks/lookup.py`, which compares both on recordings, the look-up was never worse by this rule than without it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tuner.errors import ExpressionError
from tuner.space.expressions import Expression
from tuner.space.model import Config, Space
from tuner.space.scope import Scope

LEAST_SIZES = 3  # that were left out in turn
MOST_SIZES = 64  # that a model learns from, the most measured first
NEAR = 1e-3  # added to squared distances, so that a size that was measured counts most and not infinitely
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
        self._logs = np.log(np.array(self.sizes, float).reshape(len(self.sizes), -1))
        self._loads = _Loads(measured, scope, units, self.sizes)
        columns = [self._loads.at(sizes) for sizes in self.sizes]
        loads = np.array(columns).T if columns else np.empty((len(measured), 0))
        times = np.array([[entry.times.get(sizes, np.nan) for sizes in self.sizes] for entry in measured])
        self._times = times.reshape(loads.shape)
        self._rates = np.log(loads / self._times)
        self.regret = self._left_out(loads)

    def times(self, sizes: Mapping[str, int]) -> Array:
        """The predicted time of each, in ms; infinite where there is none."""
        key = tuple(sizes.values())
        weights = self._weights(np.log(np.array(key, float)))
        return self._predicted(self._loads.at(key), weights)

    def _weights(self, point: Array) -> Array:
        weights: Array = 1 / (((self._logs - point) ** 2).sum(axis=1) + NEAR)
        return weights

    def _predicted(self, load: Array, weights: Array) -> Array:
        known = ~np.isnan(self._rates)
        total = (known * weights).sum(axis=1)
        with np.errstate(invalid="ignore", divide="ignore"):
            rates = np.where(known, self._rates * weights, 0).sum(axis=1) / total
            times: Array = load / np.exp(rates)
        times[~np.isfinite(times)] = np.inf
        return times

    def _left_out(self, loads: Array) -> float | None:
        """The mean regret over sizes that are left out in turn; None where the nearest size does as well."""
        known = ~np.isnan(self._rates)
        ours: list[float] = []
        nearest: list[float] = []
        for position in range(len(self.sizes)):
            others = known.copy()
            others[:, position] = False
            shared = known[:, position] & others.any(axis=1)
            if shared.sum() < 2:
                continue
            weights = self._weights(self._logs[position])
            weights[position] = 0
            predicted = self._predicted(loads[:, position], weights)
            near = max(np.flatnonzero(others[shared].any(axis=0)), key=lambda column: weights[column])
            times = self._times[:, position]
            best = times[shared].min()
            ours.append(times[_least(predicted, shared)] / best - 1)
            nearest.append(times[_least(self._times[:, near], shared & others[:, near])] / best - 1)
        if len(ours) < LEAST_SIZES or sum(ours) >= sum(nearest):
            return None
        return float(np.mean(ours))


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


class _Loads:
    """The loads of configurations. Those with the same grid share their computation."""

    def __init__(self, measured: Sequence[Measured], scope: Scope, units: int, sizes: Sequence[Sizes]) -> None:
        """`sizes` are those at which grids must be as they are thought to be."""
        self._units, self._scope = units, scope
        self._space = next((entry.space for entry in measured if entry.space is not None), None)
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
        """The load of each at these sizes; not a number where it has none."""
        wastes = np.full(self._count + 1, np.nan)
        wastes[self._count] = 1.0  # of a library's routine
        if len(self._owners):
            point = np.array(sizes, float)
            whole = (self._factors * np.prod(point**self._powers, axis=2, keepdims=True))[:, :, 0]
            blocks = np.ceil(whole - ROUNDING).prod(axis=1)
            waits = np.ceil(blocks / self._units) * self._units / whole.prod(axis=1)
            counts = np.bincount(self._owners, minlength=self._count)
            sums = np.bincount(self._owners, weights=waits, minlength=self._count)
            wastes[: self._count] = np.divide(sums, counts, out=wastes[: self._count], where=counts > 0)
        for number, (space, config) in self._others.items():
            wastes[number] = self._waste(space, config, sizes)
        loads: Array = wastes[self._members] * self._work(sizes)
        return loads

    def _grids(self, space: Space, config: Config, sizes: Sequence[Sizes]) -> list[_Grid] | None:
        """The grids of its steps as products; None if one is none."""
        try:
            grids = [_grid(step.grid, space, config, self._at(space, sizes[0])) for step in space.steps]
            for point in sizes:
                names = space.names(config, self._at(space, point))
                for step, grid in zip(space.steps, grids, strict=True):
                    blocks = [extent.integer(names) for extent in step.grid]
                    if (np.ceil(grid.whole(np.array(point, float)) - ROUNDING) != blocks).any():
                        return None
        except (ExpressionError, ArithmeticError, ValueError):
            return None
        return grids

    def _waste(self, space: Space, config: Config, sizes: Sizes) -> float:
        """What whole blocks take over what they do, where a grid is no product: then no block is thought to be cut."""
        try:
            names = space.names(config, self._at(space, sizes))
            waits = []
            for step in space.steps:
                blocks = math.prod(extent.integer(names) for extent in step.grid)
                waits.append(math.ceil(blocks / self._units) * self._units / blocks)
        except (ExpressionError, ArithmeticError):
            return math.nan
        return sum(waits) / len(waits)

    def _work(self, sizes: Sizes) -> float:
        return 1.0 if self._space is None else _work(self._space, self._at(self._space, sizes))

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


def _work(space: Space, scope: Scope) -> float:
    op = space.operation
    amount = op.flops or op.bytes
    try:
        return float(amount.evaluate(scope.names)) if amount is not None else float(math.prod(scope.sizes.values()))
    except (ExpressionError, TypeError, ValueError):
        return float(math.prod(scope.sizes.values()))
