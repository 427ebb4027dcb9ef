"""A model of the time of a configuration at a size that it was not measured at.

The time of a configuration is a sum of parts (see `loads`), each times a number that is not negative: what a launch
takes, its load, the bytes that must move, and so on. These numbers are those with the least squares of relative errors
where it was measured (C. L. Lawson and R. J. Hanson, "Solving Least Squares Problems", 1974, chapter 23). What remains
is taken from the sizes nearby: the logarithm of what was measured over that sum is thought to be a Gaussian process,
whose values are the more alike the nearer they lie, and is interpolated as such (D. G. Krige, "A statistical approach
to some basic mine valuation problems on the Witwatersrand", 1951; C. E. Rasmussen and C. K. I. Williams, "Gaussian
Processes for Machine Learning", 2006, chapter 2). Sizes are near for a configuration where it has about as many blocks,
each with about as much work, where they are about the same, and where rows are aligned alike. For a library's routine
the sizes alone tell. A kernel that was measured nowhere near is thought to take longer. What was measured at few of the
sizes, or never with rows that are not aligned, is not predicted where these would tell.

Whether to trust it, the records tell: sizes are left out, each once, and predicted from the others, among what was
measured there and elsewhere. The model must choose better than the nearest size does, over LEAST_SIZES sizes at least.
They also tell by how much a kernel must be expected to be faster than the library, to be taken in its place, so that
sizes at which it is slower are rare.
In `benchmarks/lookup.py`, which compares both on recordings, the look-up was never worse by this rule than without it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tuner.space.scope import Scope
from tuner.store.grids import Array, Measured, Sizes
from tuner.store.loads import LOAD, PARTS, Position, Terms, TimeTerms

LEAST_SIZES = 3  # that were left out
FOLDS = 6  # parts of the sizes, each of which is left out
MOST_SIZES = 128  # that a model learns from, the most measured first
DEVIATION, NOISE = 0.3, 0.03  # of the logarithms of what is left open, and of those of a measurement
REACH = 1.5  # of the logarithm of blocks, or of the work of each, over which what is left open changes
WIDER = 2.5  # times that of the logarithms of the sizes of a kernel, since blocks and work tell more
DOUBT = 0.1  # by which what was measured nowhere near is thought to take longer
RARE = 0.1  # of the sizes of what was measured most: what was measured at fewer is known there alone
CAUTIONS = (0.0, 0.02, 0.05, 0.1, 0.2, 0.3)  # by how much a kernel is expected to be faster than the library
SURPRISE, LOST = 0.03, 1.0  # over the library, and how much the share of sizes counts at which that much is lost
SPARING = 32.0  # the weight of the other parts of a time than its load, over the third power of the number of sizes
ROUNDS = 100  # of the search for the numbers
SLOTS = (1.0, 0.97, 0.94, 0.91, 0.88, 0.85)  # shares of the multiprocessors that may take blocks
MANY = 12  # sizes, with which fewer multiprocessors can be told from other reasons
BETTER = 0.88  # times the squares of errors with more of them: with as many, fewer are believed
Mask = np.ndarray[tuple[int, ...], np.dtype[np.bool_]]


@dataclass(frozen=True)
class _Fit:
    """What was learnt from some sizes: factors of the parts by entry, and how often these parts were seen; and, by
    entry and size, which were learnt from, and how much what was left open there weighs elsewhere."""

    factors: Array
    learnt: Array
    known: Mask
    weights: Array


class TimeModel:
    """Predicts the times of configurations that were measured at several sizes. `regret` is what its choices lost over
    the best of what was measured, time / best - 1, on average over the sizes that were left out, which count alike;
    None where it is not to be trusted."""

    def __init__(self, measured: Sequence[Measured], scope: Scope, units: int, cache: int = 0) -> None:
        """All are of one operation. `scope` has options, types and limits; `units` are the multiprocessors, `cache` the
        bytes of the last cache, 0 if unknown."""
        least = RARE * max((len(entry.times) for entry in measured), default=0)
        self._positions = [number for number, entry in enumerate(measured) if len(entry.times) > least]
        self._count, measured = len(measured), [measured[number] for number in self._positions]
        counts: dict[Sizes, int] = {}
        for entry in measured:
            for sizes in entry.times:
                counts[sizes] = counts.get(sizes, 0) + 1
        self.sizes = sorted(counts, key=lambda sizes: (-counts[sizes], sizes))[:MOST_SIZES]
        self._is_kernel = np.array([entry.space is not None for entry in measured], bool)
        self._terms = TimeTerms(measured, scope, units, cache, self.sizes)
        times = np.array([[entry.times.get(sizes, np.nan) for entry in measured] for sizes in self.sizes])
        self._times = times.reshape(len(self.sizes), len(measured))
        self._give_slots(units)
        there = self._look()
        self._places = _stacked([terms.place for terms in there]) if there else None
        near = [self._likeness(terms.place) for terms in there]
        self._near = np.array(near).reshape(*self._times.shape, len(near))  # of a size, an entry, another size
        self._caution = 0.0
        every = np.ones(len(self.sizes), bool)
        folds = [np.arange(len(self.sizes)) % FOLDS != fold for fold in range(min(FOLDS, len(self.sizes)))]
        self._fit, *others = self._fitted([every, *folds])
        self.regret = self._left_out(list(zip(folds, others, strict=True)))

    def _look(self) -> list[Terms]:
        """The parts of all times that were measured."""
        there = [self._terms.at(sizes) for sizes in self.sizes]
        parts = np.array([terms.parts for terms in there])
        self._parts = parts.reshape(*self._times.shape, self._terms.count)
        self._known = ~np.isnan(self._times) & np.isfinite(self._parts).all(axis=2)
        self._relative = np.where(self._known[:, :, None], self._parts / self._times[:, :, None], 0.0)
        self._squares = np.einsum("sei,sej->seij", self._relative, self._relative)
        return there

    def _give_slots(self, units: int) -> None:
        """Find how many multiprocessors take blocks of each configuration: fewer, where that explains times better."""
        least = np.full(self._times.shape[1], np.inf)
        chosen = np.full_like(least, units)
        can_tell = (~np.isnan(self._times)).sum(axis=0) >= MANY
        for share in SLOTS if can_tell.any() else ():
            self._terms.slots = np.full_like(least, max(1, round(share * units)))
            self._look()
            factors = _nonnegative(self._squares.sum(axis=0), self._relative.sum(axis=0), self._known.sum(axis=0))
            errors = np.where(self._known, (self._relative * factors).sum(axis=2) - 1, 0.0)
            squares = (errors**2).sum(axis=0)
            is_better = (squares < BETTER * least) & can_tell
            chosen = np.where(is_better, self._terms.slots, chosen)
            least = np.where(is_better, squares, least)
        self._terms.slots = chosen

    def times(self, sizes: Mapping[str, int]) -> Array:
        """The predicted time of each, in ms; infinite where there is none. Doubts make it longer."""
        found = np.full(self._count, np.inf)
        if self.sizes:
            terms = self._terms.at(tuple(sizes.values()))
            predicted = self._predicted(self._fit, terms.parts, self._likeness(terms.place))
            found[self._positions] = self._cautious(predicted, self._caution)
        return found

    def _likeness(self, place: Position) -> Array:
        """How alike what is left open is at a place and at each size that was measured, by entry: 0 to 1."""
        assert self._places is not None
        apart = ((self._places.sizes - place.sizes) ** 2).sum(axis=1)[None]
        blocks = ((self._places.blocks - place.blocks) ** 2).sum(axis=2).T
        kernels = self._is_kernel[:, None]
        squares = np.where(kernels, blocks + apart / WIDER**2, apart) / REACH**2
        squares = squares + ((self._places.alignments - place.alignments) ** 2).sum(axis=1)[None]
        likeness: Array = np.exp(-np.sqrt(squares))
        return likeness

    def _fitted(self, among: Sequence[Mask]) -> Iterator[_Fit]:
        """What each of these choices of sizes tells."""
        chosen = np.array(among, float).reshape(len(among), len(self.sizes))
        squares = np.tensordot(chosen, self._squares, axes=1)
        factors = _nonnegative(squares, np.tensordot(chosen, self._relative, axes=1), chosen @ self._known)
        for mask, each in zip(among, factors, strict=True):
            known = (self._known & mask[:, None]).T
            shares = (self._relative * each).sum(axis=-1).T
            remains = np.where(known & (shares > 0), -np.log(np.where(shares > 0, shares, 1.0)), 0.0)
            covariance = np.where(known[:, :, None] & known[:, None, :], self._near.transpose(1, 0, 2), 0.0)
            # What is not known is a thing apart, and tells nothing.
            covariance += np.where(known, NOISE**2 / DEVIATION**2, 1.0)[:, :, None] * np.eye(len(mask))
            seen = (self._relative * mask[:, None, None] > 0).sum(axis=0)
            yield _Fit(each, seen, known, np.linalg.solve(covariance, remains[:, :, None])[:, :, 0])

    def _predicted(self, fit: _Fit, parts: Array, likeness: Array) -> Array:
        """Times by entry; `likeness` by entry and size."""
        with np.errstate(invalid="ignore"):
            far = 1 - (likeness * fit.known).max(axis=1, initial=0.0)
            remains = (likeness * fit.weights).sum(axis=1) + np.where(self._is_kernel, DOUBT * far, 0.0)
            times: Array = (parts * fit.factors).sum(axis=-1) * np.exp(remains)
            untold = (parts[:, PARTS:] > 0) & (fit.learnt[:, PARTS:] == 0)  # of rows that are not aligned
        times[~np.isfinite(times) | (times <= 0) | untold.any(axis=1) | ~fit.known.any(axis=1)] = np.inf
        return times

    def _cautious(self, times: Array, caution: float) -> Array:
        return times if self._is_kernel.all() else np.where(self._is_kernel, times * (1 + caution), times)

    def _left_out(self, folds: Sequence[tuple[Mask, _Fit]]) -> float | None:
        """The mean regret over sizes that are left out, with the caution that makes it least; None where the nearest
        size does as well."""
        ours: list[list[float]] = []
        lost: list[list[float]] = []  # over the library
        nearest: list[float] = []
        for among, fit in folds:
            others = self._known & among[:, None]
            for position in map(int, np.flatnonzero(~among)):
                shared = self._known[position] & others.any(axis=0)
                if shared.sum() < 2:
                    continue
                predicted = self._predicted(fit, self._parts[position], self._near[position])
                times = self._times[position]
                best = times[shared].min()
                library = times[~self._is_kernel & shared].min(initial=np.inf)
                taken = [float(times[_least(self._cautious(predicted, c), shared)]) for c in CAUTIONS]
                ours.append([time / best - 1 for time in taken])
                lost.append([max(0.0, time / library - 1) for time in taken])
                nearest.append(times[_least(self._nearest(position, others, shared), shared)] / best - 1)
        if len(ours) < LEAST_SIZES:
            return None
        means = np.mean(ours, axis=0)
        chosen = int(np.argmin(means + LOST * np.mean(np.array(lost) > SURPRISE, axis=0)))
        self._caution = CAUTIONS[chosen]
        return float(means[chosen]) if means[chosen] < np.mean(nearest) else None

    def _nearest(self, position: int, others: Mask, shared: Mask) -> Array:
        """The times at the size that is nearest to one, among those with any of the `shared`."""
        assert self._places is not None
        apart = ((self._places.sizes - self._places.sizes[position]) ** 2).sum(axis=1)
        near = min(np.flatnonzero(others[:, shared].any(axis=1)), key=lambda row: apart[row])
        times: Array = np.where(others[near], self._times[near], np.inf)
        return times


def _stacked(places: Sequence[Position]) -> Position:
    return Position(*map(np.stack, zip(*places, strict=True)))


def _nonnegative(squares: Array, sums: Array, counts: Array) -> Array:
    """The numbers x that are not negative with the least |A x - 1|, one after the other improved, for many A at once:
    `squares` are A^T A, `sums` A^T 1, `counts` the rows of A. What few sizes tell is thought to be load (A. N.
    Tikhonov's regularisation)."""
    diagonal = np.einsum("...ii->...i", squares)
    penalty = SPARING * diagonal / np.maximum(counts, 1)[..., None] ** 3
    penalty[..., LOAD] = 0.0
    scale = np.where(diagonal > 0, diagonal + penalty, 1.0)
    x = np.zeros_like(sums)
    order = [LOAD, *(part for part in range(sums.shape[-1]) if part != LOAD)]
    for _ in range(ROUNDS):
        for part in order:
            gradient = sums[..., part] - np.einsum("...j,...j->...", squares[..., part, :], x)
            gradient -= penalty[..., part] * x[..., part]
            x[..., part] = np.maximum(0.0, x[..., part] + gradient / scale[..., part])
    return x


def _least(values: Array, among: Mask) -> int:
    return int(np.argmin(np.where(among, values, np.inf)))
