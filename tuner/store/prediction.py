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
from collections.abc import Callable, Mapping, Sequence
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
MAGNIFIED = 1 << 10  # sizes times this have next to whole blocks alone
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
        self._measured, self._scope = measured, scope
        self._loads = _Loads(units)
        counts: dict[Sizes, int] = {}
        for entry in measured:
            for sizes in entry.times:
                counts[sizes] = counts.get(sizes, 0) + 1
        self.sizes = sorted(counts, key=lambda sizes: (-counts[sizes], sizes))[:MOST_SIZES]
        self._logs = np.log(np.array(self.sizes, float).reshape(len(self.sizes), -1))
        columns = [self._load_at(sizes) for sizes in self.sizes]
        loads = np.array(columns).T if columns else np.empty((len(measured), 0))
        times = np.array([[entry.times.get(sizes, np.nan) for sizes in self.sizes] for entry in measured])
        self._times = times.reshape(loads.shape)
        self._rates = np.log(loads / self._times)
        self.regret = self._left_out(loads)

    def times(self, sizes: Mapping[str, int]) -> Array:
        """The predicted time of each, in ms; infinite where there is none."""
        key = tuple(sizes.values())
        weights = self._weights(np.log(np.array(key, float)))
        return self._predicted(self._load_at(key), weights)

    def _load_at(self, sizes: Sizes) -> Array:
        return self._loads.at(self._measured, self._scope, sizes)

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


class _Loads:
    """The loads of configurations. Those with the same grid share their computation."""

    def __init__(self, units: int) -> None:
        self._units = units
        self._grids: dict[tuple[object, ...], list[tuple[Sequence[Expression], Callable[[Sizes], float]]]] = {}
        self._parameters: dict[int, list[str]] = {}

    def at(self, measured: Sequence[Measured], scope: Scope, sizes: Sizes) -> Array:
        """The load of each at these sizes; not a number where it has none."""
        shares: dict[tuple[object, ...], float] = {}
        loads, work = np.empty(len(measured)), 0.0
        for position, entry in enumerate(measured):
            space = entry.space
            if space is None:
                loads[position] = 1.0
                continue
            key = self._key(space, entry.config)
            if key not in shares:
                there = replace(scope, sizes=_named(space, sizes))
                shares[key] = self._waste(key, space, entry.config, there, sizes)
                work = work or _work(space, there)
            loads[position] = shares[key]
        return loads * (work or 1.0)

    def _key(self, space: Space, config: Config) -> tuple[object, ...]:
        names = self._parameters.get(id(space))
        if names is None:
            names = self._parameters[id(space)] = _parameters_of_grids(space)
        return (id(space), *(config.get(name) for name in names))

    def _waste(self, key: tuple[object, ...], space: Space, config: Config, scope: Scope, sizes: Sizes) -> float:
        """Whole blocks' worth of time over whole blocks: 1 if no multiprocessor ever waits."""
        try:
            if key not in self._grids:
                self._grids[key] = [(step.grid, _whole(step.grid, space, config, scope)) for step in space.steps]
            names = space.names(config, scope)
            waits = []
            for grid, whole in self._grids[key]:
                blocks = math.prod(extent.integer(names) for extent in grid)
                waits.append(math.ceil(blocks / self._units) * self._units / whole(sizes))
        except (ExpressionError, ZeroDivisionError, OverflowError, ValueError):
            return math.nan
        return sum(waits) / len(waits)


def _whole(grid: Sequence[Expression], space: Space, config: Config, scope: Scope) -> Callable[[Sizes], float]:
    """The number of blocks without rounding up, as a function of sizes: a product of their powers."""

    def blocks(sizes: Sequence[int]) -> int:
        names = space.names(config, replace(scope, sizes=_named(space, sizes)))
        return math.prod(extent.integer(names) for extent in grid)

    large = [MAGNIFIED * size for size in scope.sizes.values()]
    there = blocks(large)
    doubled = (blocks([*large[:i], 2 * large[i], *large[i + 1 :]]) for i in range(len(large)))
    powers = [round(math.log2(more / there)) for more in doubled]
    factor = there / math.prod(float(size) ** power for size, power in zip(large, powers, strict=True))
    used = [(i, power) for i, power in enumerate(powers) if power]
    return lambda sizes: factor * math.prod(float(sizes[i]) ** power for i, power in used)


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


def _named(space: Space, sizes: Sequence[int]) -> dict[str, int]:
    return dict(zip(space.operation.sizes, sizes, strict=True))
