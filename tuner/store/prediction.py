"""A model of the time of a configuration at a size that it was not measured at.

The time of a configuration is a sum of parts (see `loads`), each times a number that is not negative: what a launch
takes, its load, the bytes that must move, and so on. These numbers are those with the least squares of relative errors
where it was measured (C. L. Lawson and R. J. Hanson, "Solving Least Squares Problems", 1974, chapter 23). What remains
is taken from the sizes nearby: the logarithm of what was measured over that sum is thought to be a Gaussian process,
whose values are the more alike the nearer they lie, and is interpolated as such (D. G. Krige, "A statistical approach
to some basic mine valuation problems on the Witwatersrand", 1951; C. E. Rasmussen and C. K. I. Williams, "Gaussian
Processes for Machine Learning", 2006, chapter 2). Sizes are near for a configuration where it has about as many blocks
and waves of these, each with about as much work, where they are about the same, and where rows are aligned alike. Of a
library that tells its tiles, as cuBLASLt's heuristics do without running anything, these tell as the blocks of a kernel
do, and each algorithm that runs at many sizes has numbers of its own; of any other the sizes alone. A kernel that was
measured nowhere near is thought to take longer. What was measured at few of the sizes, or never with rows that are not
aligned, is not predicted where these would tell.

Whether to trust it, the records tell: sizes are left out, each once, and predicted from the others, among what was
measured there and elsewhere. The model must choose better than the nearest size does, over LEAST_SIZES sizes at least.
They also tell by how much a kernel must be expected to be faster than the library, to be taken in its place, so that
sizes at which it is slower are rare; and how large errors are where: of several that are predicted to be about as fast,
the least one is most likely thought to be faster than it is. So what was badly predicted at sizes nearby is thought to
take longer.
In `benchmarks/lookup.py`, which compares both on recordings, the look-up was never worse by this rule than without it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence

import numpy as np

from tuner.space.scope import Scope
from tuner.store import kept_models
from tuner.store.amounts import Amounts, Array, Mask, Position, Rows, Traits
from tuner.store.fitting import fitted, relative_to, sums
from tuner.store.grids import Measured, Sizes, at
from tuner.store.library_tiles import LibraryTiles, ToldTiles
from tuner.store.loads import TimeTerms
from tuner.store.nearness import BLOCK, Nearness, inverse, product, solution, squares_apart
from tuner.store.telling import MOST_KNOWN, SERVES, by_routine, needed, telling

LEAST_SIZES = 3  # that were left out
FOLDS = 6  # parts of the sizes, each of which is left out
MOST_SIZES = 6144  # that a model learns from, the most measured first
DEVIATION, NOISE = 0.3, 0.05  # of the logarithms of what is left open, and of those of a measurement
ODD = 0.7  # the most of a logarithm that is left open
DOUBT = 0.1  # by which what was measured nowhere near is thought to take longer
# And how many times as long where even the nearest size is less near than that: sums of parts may be off by as much.
STRANGE, LEAST_NEAR = 3.0, 0.15
RISK = 0.5  # of the errors of the logarithms, as sizes nearby show them: by that much it is thought to take longer
UNKNOWN, FEW = 0.1, 0.3  # such an error where nothing is near, and how many sizes that counts as
# By how much a kernel is expected to be faster than the library.
CAUTIONS = (0.0, 0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2, 0.3)
SURPRISE, LOST = 0.03, 0.1  # over the library, and how much the share of sizes counts at which that much is lost
SHARES = (1.0, 0.97, 0.94, 0.91, 0.88, 0.85)  # of the multiprocessors that may take blocks
AT_ONCE = (1, 2, 3, 4, 5, 6, 8)  # blocks that may run on each of these
MANY = 12  # sizes, with which traits can be told from other reasons
MOST_HOPEFUL = 24  # entries that are looked at closely at once: the library, and kernels with the least sums of parts
LONG = 1 << 12  # times or places for one: what is learnt from more is kept on disk


class TimeModel:
    """Predicts the times of configurations that were measured at several sizes. `regret` is what its choices lost over
    the best of what was measured, time / best - 1, on average over the sizes that were left out, which count alike;
    None where it is not to be trusted."""

    def __init__(
        self,
        measured: Sequence[Measured],
        scope: Scope,
        units: int,
        cache: int = 0,
        tiles: LibraryTiles = lambda scope: None,
        serves: float = SERVES,
    ) -> None:
        """All are of one operation. `scope` has options, types and limits, and says the order of sizes; `units` are the
        multiprocessors, `cache` the bytes of the last cache, 0 if unknown; `tiles` tells how the library runs the
        operation at a size. Of many entries, what is nowhere needed to have at most `serves` times the best is not
        predicted; infinite: all is."""
        kept = [(number, measured[number]) for number in needed(measured, serves)]
        library = next((entry.times for _, entry in kept if entry.space is None), {})
        told = ToldTiles([at(scope, sizes) for sizes in library], tiles, units)
        entries = by_routine(kept, told)
        self._count, measured = len(measured), [entry for _, entry in entries]
        self._positions = np.array([number for number, _ in entries], int)
        counts: dict[Sizes, int] = {}
        for entry in measured:
            for sizes in entry.times:
                counts[sizes] = counts.get(sizes, 0) + 1
        self.sizes = sorted(counts, key=lambda sizes: (-counts[sizes], sizes))[:MOST_SIZES]
        self._is_kernel = np.array([entry.space is not None for entry in measured], bool)
        self._terms = TimeTerms(measured, scope, units, cache, self.sizes, told)
        rows = {sizes: row for row, sizes in enumerate(self.sizes)}
        self._times = np.full((len(self.sizes), len(measured)), np.nan)
        for column, entry in enumerate(measured):
            known = [(rows[sizes], time_ms) for sizes, time_ms in entry.times.items() if sizes in rows]
            self._times[[row for row, _ in known], column] = [time_ms for _, time_ms in known]
        if self.sizes:
            self._times[self._is_kernel & ~telling(self._times)] = np.nan
        self._caution = 0.0
        self.regret: float | None = None
        if self.sizes:
            self._begin(units)

    def _begin(self, units: int) -> None:
        """Learn, or read what an earlier process has learnt from the same."""
        there = self._terms.amounts(self.sizes)
        name = kept_models.name([*self._terms.numbers(there), self._times]) if self._times.size >= LONG else ""
        kept = kept_models.read(name) if name else None
        self._traits = self._told_traits(units) if kept is None else Traits(*kept["traits"])
        course = self._terms.course(there, self._traits)
        self._parts = self._terms.parts(there, course)
        self._known, self._relative = relative_to(self._parts, self._times)
        position = self._terms.position(there, course)
        self._nearness = Nearness(self._is_kernel, self._terms.has_tiles, position, self._known)
        self._counts, self._seen = self._known.sum(axis=0), self._seen_in(self._relative)
        if kept is not None:
            self._factors, by_pair = kept["factors"], kept["by pair"]
            self._caution, regret = map(float, kept["doubts"])
            self.regret = None if math.isnan(regret) else regret
        else:
            by_pair, self.regret = self._learnt()
            if name:
                doubts = np.array([self._caution, math.nan if self.regret is None else self.regret])
                traits = np.array(self._traits)
                learnt = {"factors": self._factors, "by pair": by_pair, "traits": traits, "doubts": doubts}
                kept_models.write(name, learnt)
        self._weights, self._errors = map(self._nearness.in_blocks, by_pair.T)

    def times(self, sizes: Mapping[str, int], strange: float = STRANGE) -> Array:
        """The predicted time of each, in ms; infinite where there is none. Doubts make it longer: that of a kernel that
        was measured nowhere near is `strange` times as long."""
        found = np.full(self._count, np.inf)
        if self.sizes:
            amounts = self._terms.amounts([tuple(sizes.values())])
            course = self._terms.course(amounts, self._traits)
            times = sums(self._terms.parts(amounts, course)[0], self._factors, self._seen) * math.exp(RISK * UNKNOWN)
            likely = np.argsort(np.where(self._is_kernel | np.isinf(times), times, 0.0))
            likely = likely[self._counts[likely] > 0]
            looked_at = 0  # until the best is among these: sums of parts alone may promise too much
            while times[likely[looked_at:]].min(initial=np.inf) < times[likely[:looked_at]].min(initial=np.inf):
                hopeful = likely[looked_at : looked_at + MOST_HOPEFUL]
                times[hopeful] *= self._open(hopeful, self._terms.position(amounts, course, hopeful), strange)
                looked_at += MOST_HOPEFUL
            np.minimum.at(found, self._positions, self._cautious(times, self._caution))
        return found

    def _open(self, hopeful: Rows, here: Position, strange: float) -> Array:
        """What the sums of parts of these entries leave open at a size, with doubts: factors of times."""
        is_kernel = self._is_kernel[hopeful]
        near = self._nearness.near(hopeful, here)
        weights, errors = ([by_entry[entry] for entry in hopeful] for by_entry in (self._weights, self._errors))
        first = np.array([0, *itertools.accumulate(map(len, weights[:-1]))])
        nearest = np.maximum.reduceat(near.ravel(), first * BLOCK)
        remains = np.add.reduceat(np.einsum("bp,bp->b", near, np.concatenate(weights)), first)
        near *= near
        squares = np.add.reduceat(np.einsum("bp,bp->b", near, np.concatenate(errors)), first)
        risks = _risks(squares, np.add.reduceat(near.sum(axis=1), first))
        factors: Array = np.exp(remains + DOUBT * (1 - nearest) * is_kernel + RISK * (risks - UNKNOWN))
        factors[(nearest < LEAST_NEAR) & is_kernel] *= strange
        return factors

    def _told_traits(self, units: int) -> Traits:
        """What times tell of each entry: other numbers than one block on each multiprocessor, and no rounding of the
        depth, where that explains times so much better that it is worth a number more (G. Schwarz, "Estimating the
        Dimension of a Model", 1978). First the multiprocessors that take blocks, then the blocks that run at once, then
        the rounding."""
        known = ~np.isnan(self._times)
        told, entries = known.sum(axis=0), self._times.shape[1]
        can_tell, better = told >= MANY, np.maximum(told, 1) ** (-1 / np.maximum(told, 1))
        everywhere, least = np.full(entries, float(units)), np.full(entries, np.inf)
        traits = Traits(everywhere, everywhere, np.ones(entries))
        if not can_tell.any():
            return traits
        rows = np.argsort(~known, axis=0, kind="stable")[: min(MOST_KNOWN, told.max())]
        amounts = self._terms.own(self._terms.amounts(self.sizes), rows)
        times = np.take_along_axis(self._times, rows, axis=0)

        def take_better(other: Traits) -> None:
            nonlocal traits, least
            squares = self._squares(amounts, times, other)
            is_better = (squares < better * least) & can_tell
            traits, least = Traits(*np.where(is_better, other, traits)), np.where(is_better, squares, least)

        for each in AT_ONCE:
            for share in SHARES:
                number = np.full(entries, float(max(1, round(share * each * units))))
                take_better(traits._replace(slots=number if each == 1 else traits.slots, at_once=number))
        for steps in self._terms.steps:
            take_better(traits._replace(steps=steps))
        return traits

    def _squares(self, amounts: Amounts, times: Array, traits: Traits) -> Array:
        """What sums of parts leave open of times, squared, by entry."""
        known, relative = relative_to(self._terms.parts(amounts, self._terms.course(amounts, traits)), times)
        factors = fitted(known, relative, np.ones((1, len(times))))[0]
        errors = np.where(known, (relative * factors).sum(axis=2) - 1, 0.0)
        squares: Array = (errors**2).sum(axis=0)
        return squares

    def _learnt(self) -> tuple[Array, float | None]:
        """Learn from all sizes. Returns what each pair counts, and the square of its error; and what is lost where a
        part of the sizes is left out, each part once."""
        count, entries = self._times.shape
        part = np.arange(count) % FOLDS
        kept = [part != each for each in range(min(FOLDS, count))]
        self._factors, *others = fitted(self._known, self._relative, np.array([np.ones(count), *kept], float))
        by_pair: list[Array] = []
        predicted = np.full((count, entries), np.inf)
        for mask, factors in zip(kept, others, strict=True):
            predicted[~mask] = sums(self._parts[~mask], factors, self._seen_in(self._relative[mask]))
        logs = [self._logs(factors) for factors in (self._factors, *others)]
        for entry in range(entries):
            rows, near = self._nearness.rows(entry), self._nearness.near_one_another(entry)
            inverted = inverse(near + NOISE**2 / DEVIATION**2 * np.eye(len(rows)))
            weights = product(inverted, logs[0][rows, entry])
            is_apart = part[rows][:, None] != part[rows]
            nearest = (near * is_apart).max(axis=1, initial=0.0)
            doubts = DOUBT * (1 - nearest) * self._is_kernel[entry]
            for each in {*map(int, part[rows])}:  # Rasmussen and Williams, section 5.4.2
                out, remains = np.flatnonzero(part[rows] == each), logs[each + 1][rows, entry]
                open_ = product(inverted[out], remains)
                foretold = remains[out] - solution(inverted[np.ix_(out, out)], open_)
                predicted[rows[out], entry] *= np.exp(foretold + doubts[out])
            squares = np.log(predicted[rows, entry] / self._times[rows, entry]) ** 2
            squares = np.nan_to_num(squares, posinf=0.0)
            by_pair.append(np.stack([weights, squares], axis=1))
            shares = (near * is_apart) ** 2
            predicted[rows, entry] *= np.exp(RISK * _risks(product(shares, squares), shares.sum(axis=1)))
            if self._is_kernel[entry]:
                predicted[rows[nearest < LEAST_NEAR], entry] *= STRANGE
        return np.concatenate(by_pair).astype(np.float32), self._left_out(predicted, kept)

    def _seen_in(self, relative: Array) -> Array:
        """The sizes with each part, by entry; those of the library's routines together."""
        seen: Array = (relative > 0).sum(axis=0)
        seen[~self._is_kernel] = seen[~self._is_kernel].sum(axis=0)
        return seen

    def _logs(self, factors: Array) -> Array:
        """What the sums of parts leave open: the logarithms of measured times over them. A kernel's that is odd must
        not tell too much elsewhere; a library's routines differ, and each tells of its own."""
        shares = (self._relative * factors).sum(axis=2)
        logs = np.where(shares > 0, -np.log(np.where(shares > 0, shares, 1.0)), 0.0)
        return np.where(self._is_kernel, np.clip(logs, -ODD, ODD), logs)

    def _cautious(self, times: Array, caution: Array | float) -> Array:
        return np.where(self._is_kernel, times * (1 + caution), times)

    def _left_out(self, predicted: Array, kept: Sequence[Mask]) -> float | None:
        """The mean regret over sizes that are left out, with the caution that makes it least; None where the nearest
        size does as well."""
        apart = squares_apart(np.log(np.array(self.sizes, float)))
        times = np.where(self._known, self._times, np.inf)
        if not self._is_kernel.all():  # at another size, another routine of the library runs
            times[:, ~self._is_kernel] = times[:, ~self._is_kernel].min(axis=1, keepdims=True)
        compared = [self._compared(predicted, rows, apart, times) for rows in kept]
        ours, lost, nearest = (np.concatenate(each) for each in zip(*compared, strict=True))
        if len(ours) < LEAST_SIZES:
            return None
        means = ours.mean(axis=0)
        chosen = int(np.argmin(means + LOST * (lost > SURPRISE).mean(axis=0)))
        self._caution = CAUTIONS[chosen]
        return float(means[chosen]) if means[chosen] < nearest.mean() else None

    def _compared(self, predicted: Array, kept: Mask, apart: Array, elsewhere: Array) -> tuple[Array, Array, Array]:
        """Of each size that is not `kept` and has something to choose: what is lost by these predictions over the best
        and over the library, by caution, and what by taking the best of the nearest size that is kept. `apart` are the
        squares of the distances of sizes, `elsewhere` the times at others than the one to choose at."""
        others = np.isfinite(elsewhere) & kept[:, None]
        shared = self._known & ~kept[:, None] & others.any(axis=0)
        here = np.flatnonzero(shared.sum(axis=1) >= 2)
        shared, times = shared[here], self._times[here]
        best = np.where(shared, times, np.inf).min(axis=1)
        library = np.where(shared & ~self._is_kernel, times, np.inf).min(axis=1)
        expected = self._cautious(predicted[here][:, None], np.array(CAUTIONS)[:, None])
        choice = np.where(shared[:, None], expected, np.inf).argmin(axis=2)
        taken = np.take_along_axis(times, choice, axis=1)
        there = np.einsum("he,se->hs", shared.astype(np.float32), others.astype(np.float32)) > 0
        near = np.where(there, apart[here], np.inf).argmin(axis=1)
        choice_there = np.where(others[near] & shared, elsewhere[near], np.inf).argmin(axis=1)
        nearest = times[np.arange(len(here)), choice_there] / best - 1
        return taken / best[:, None] - 1, np.maximum(0.0, taken / library[:, None] - 1), nearest


def _risks(squares: Array, weights: Array) -> Array:
    """The errors to be expected, by the sums of their squares and of the weights of these."""
    risks: Array = np.sqrt((squares + FEW * UNKNOWN**2) / (weights + FEW))
    return risks
