"""A model of the time of a configuration at a size that it was not measured at.

The time of a configuration is a sum of what a launch takes, of its load, of the bytes that must move, and of its waves
(see `loads`), each times a number that is not negative. These four numbers are those with the least squares of relative
errors where it was measured (C. L. Lawson and R. J. Hanson, "Solving Least Squares Problems", 1974, chapter 23). What
remains is taken from the sizes nearby: the mean of the logarithms of what was measured over that sum, weighted by the
inverse fourth power of the distance (D. Shepard, "A two-dimensional interpolation function for irregularly-spaced
data", 1968).
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

from collections.abc import Mapping, Sequence

import numpy as np

from tuner.space.scope import Scope
from tuner.store.loads import LOAD, PARTS, Array, Measured, Position, Sizes, TimeTerms

LEAST_SIZES = 3  # that were left out in turn
MOST_SIZES = 64  # that a model learns from, the most measured first
SOFT = 0.1  # added to squared distances, so that a size that was measured counts most and not infinitely
SHRINK = 0.1  # the weight of the sum itself among what was measured over it
DOUBT, FAR = 0.3, 0.02  # by how much the time of what was measured nowhere near is longer, and the weight that is near
CAUTIONS = (0.0, 0.02, 0.05, 0.1, 0.2, 0.3)  # by how much a kernel is expected to be faster than the library
LOST = 2.0  # a kernel in the library's place that is slower is a surprise
SPARING = 8.0  # the weight of the other parts of a time than its load, over the number of sizes, squared
ROUNDS = 200  # of the search for the four numbers
ORDER = (LOAD, 0, 2, 3)  # in which these are searched


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
        self._loads = TimeTerms(measured, scope, units, self.sizes)
        columns = [self._loads.at(sizes) for sizes in self.sizes]
        parts = np.stack(columns) if columns else np.empty((0, len(measured), PARTS))  # sizes, entries, parts
        self._places = [self._loads.places(sizes) for sizes in self.sizes]
        self._stacked = Position(*map(np.stack, zip(*self._places, strict=True))) if self._places else None
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

    def _weights(self, place: Position) -> Array:
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
            times: Array = (parts * factors).sum(axis=-1) * np.exp(near)
            times *= 1 + DOUBT * FAR / (FAR + total)
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


def _least(values: Array, among: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]) -> int:
    return int(np.argmin(np.where(among, values, np.inf)))
