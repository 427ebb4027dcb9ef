"""What a model of times (see `prediction`) learns from what was measured: the numbers of each entry, what sums of parts
leave open, and, from sizes that are left out, whether to trust it and how much to doubt."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from tuner.prediction.amounts import PARTS, Amounts, Array, Mask, Traits
from tuner.prediction.cost_terms import TimeTerms
from tuner.prediction.fitting import fitted, relative_to, sums
from tuner.prediction.grids import Sizes
from tuner.prediction.learnt import DOUBT, LEAST_NEAR, RISK, STRANGE, Learnt, cautious, risks
from tuner.prediction.nearness import Pairs, inverse, product, solution, squares_apart
from tuner.prediction.training_set import MOST_KNOWN, MOST_OF_LIBRARY, spread, training_sizes

LEAST_SIZES = 3  # that were left out
FOLDS = 6  # parts of the sizes, each of which is left out
DEVIATION, NOISE = 0.3, 0.05  # of the logarithms of what is left open, and of those of a measurement
ODD = 0.7  # the most of a logarithm that is left open
# By how much a kernel is expected to be faster than the library.
CAUTIONS = (0.0, 0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2, 0.3)
SURPRISE, LOST = 0.03, 0.1  # over the library, and how much the share of sizes counts at which that much is lost
SHARES = (1.0, 0.97, 0.94, 0.91, 0.88, 0.85)  # of the multiprocessors that may take blocks
AT_ONCE = (1, 2, 3, 4, 5, 6, 8)  # blocks that may run on each of these
MANY = 12  # sizes, with which traits can be told from other reasons


class Learner:
    """Learns from times in ms, by size and entry, not a number where there is none."""

    def __init__(self, terms: TimeTerms, sizes: Sequence[Sizes], times: Array, is_kernel: Mask, units: int) -> None:
        """`units` are the multiprocessors."""
        self._terms, self._sizes, self._every, self._is_kernel, self._units = terms, sizes, times, is_kernel, units

    def learn(self) -> Learnt:
        """All that there is to learn."""
        there, every = self._terms.amounts(self._sizes), self._every
        traits = self._traits(there, self._masked(every, every))
        course = self._terms.course(there, self._terms.capacity(traits))
        self._parts = self._terms.parts(there, course)
        self._times = self._masked(every, self._thought(every))
        self._known, self._relative = relative_to(self._parts, self._times)
        position = self._terms.position(there, course)
        self._pairs = Pairs(self._is_kernel, self._terms.has_tiles, position, self._known)
        by_pair, factors, caution, regret = self._fit()
        pairs, unseen, doubts = self._pairs, self._unseen_in(self._relative), map(np.array, (caution, regret))
        places = pairs.counts, pairs.places, pairs.scales, pairs.centre
        return Learnt(np.array(traits), factors, unseen, *places, *by_pair.T, *doubts)

    def _masked(self, times: Array, thought: Array) -> Array:
        """The times that are learnt from (see `telling`)."""
        masked = np.where(self._is_kernel & ~training_sizes(times, thought), np.nan, times)
        for column in np.flatnonzero(~self._is_kernel):
            rows = np.flatnonzero(~np.isnan(masked[:, column]))
            masked[np.setdiff1d(rows, spread(rows, MOST_OF_LIBRARY)), column] = np.nan
        return masked

    def _thought(self, times: Array) -> Array:
        """What all times let sums of parts alone think: the sizes at which these promise too much must be known."""
        known, relative = relative_to(self._parts, times)
        factors = fitted(known, relative, np.ones((1, len(times))))[0]
        return sums(self._parts, factors, self._unseen_in(relative))

    def _traits(self, there: Amounts, every: Array) -> Traits:
        """What times tell of each entry: other numbers than one block on each multiprocessor, and no rounding of the
        depth, where that explains times so much better that it is worth a number more (G. Schwarz, "Estimating the
        Dimension of a Model", 1978). First the multiprocessors that take blocks, then the blocks that run at once, then
        the rounding. `there` are the amounts at all sizes, `every` the times."""
        known = ~np.isnan(every)
        told, entries = known.sum(axis=0), every.shape[1]
        # A library's blocks take all multiprocessors, and it tells itself how many run at once.
        can_tell, better = (told >= MANY) & self._is_kernel, np.maximum(told, 1) ** (-1 / np.maximum(told, 1))
        everywhere, least = np.full(entries, float(self._units)), np.full(entries, np.inf)
        traits = Traits(everywhere, everywhere, np.ones(entries))
        if not can_tell.any():
            return traits
        rows = np.argsort(~known, axis=0, kind="stable")[: min(MOST_KNOWN, told.max())]
        amounts = self._terms.own(there, rows)
        times = np.take_along_axis(every, rows, axis=0)

        def take_better(other: Traits) -> None:
            nonlocal traits, least
            squares = self._squares(amounts, times, other)
            is_better = (squares < better * least) & can_tell
            traits, least = Traits(*np.where(is_better, other, traits)), np.where(is_better, squares, least)

        for each in AT_ONCE:
            for share in SHARES:
                number = np.full(entries, float(max(1, round(share * each * self._units))))
                take_better(traits._replace(slots=number if each == 1 else traits.slots, at_once=number))
        for steps in self._terms.steps:
            take_better(traits._replace(steps=steps))
        return traits

    def _squares(self, amounts: Amounts, times: Array, traits: Traits) -> Array:
        """What sums of parts leave open of times, squared, by entry."""
        course = self._terms.course(amounts, self._terms.capacity(traits))
        known, relative = relative_to(self._terms.parts(amounts, course), times)
        factors = fitted(known, relative, np.ones((1, len(times))))[0]
        errors = np.where(known, (relative * factors).sum(axis=2) - 1, 0.0)
        squares: Array = (errors**2).sum(axis=0)
        return squares

    def _fit(self) -> tuple[Array, Array, float, float]:
        """What each pair counts, and the square of its error; the factors; and the caution, and the regret where a part
        of the sizes is left out, each part once."""
        count, entries = self._times.shape
        part = np.arange(count) % FOLDS
        kept = [part != each for each in range(min(FOLDS, count))]
        every, *others = fitted(self._known, self._relative, np.array([np.ones(count), *kept], float))
        by_pair: list[Array] = []
        predicted = np.full((count, entries), np.inf)
        for mask, factors in zip(kept, others, strict=True):
            predicted[~mask] = sums(self._parts[~mask], factors, self._unseen_in(self._relative[mask]))
        logs = [self._logs(factors) for factors in (every, *others)]
        for entry in range(entries):
            rows, near = self._pairs.rows(entry), self._pairs.near_one_another(entry)
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
            predicted[rows, entry] *= np.exp(RISK * risks(product(shares, squares), shares.sum(axis=1)))
            if self._is_kernel[entry]:
                predicted[rows[nearest < LEAST_NEAR], entry] *= STRANGE
        return np.concatenate(by_pair).astype(np.float32), every, *self._left_out(predicted, kept)

    def _unseen_in(self, relative: Array) -> Mask:
        """Which rows were at no size not aligned, by entry and part of such rows; the library's routines together."""
        seen: Mask = np.any(relative[..., PARTS:] > 0, axis=0)
        seen[~self._is_kernel] = seen[~self._is_kernel].any(axis=0)
        return ~seen

    def _logs(self, factors: Array) -> Array:
        """What the sums of parts leave open: the logarithms of measured times over them. A kernel's that is odd must
        not tell too much elsewhere; a library's routines differ, and each tells of its own."""
        shares = (self._relative * factors).sum(axis=2)
        logs = np.where(shares > 0, -np.log(np.where(shares > 0, shares, 1.0)), 0.0)
        return np.where(self._is_kernel, np.clip(logs, -ODD, ODD), logs)

    def _left_out(self, predicted: Array, kept: Sequence[Mask]) -> tuple[float, float]:
        """The caution that makes the mean regret over sizes that are left out least, and this regret; not a number
        where the nearest size does as well."""
        places = np.log(np.array(self._sizes, float))
        times = np.where(self._known, self._times, np.inf)
        if not self._is_kernel.all():  # at another size, another routine of the library runs
            times[:, ~self._is_kernel] = times[:, ~self._is_kernel].min(axis=1, keepdims=True)
        compared = [self._compared(predicted, rows, places, times) for rows in kept]
        ours, lost, nearest = (np.concatenate(each) for each in zip(*compared, strict=True))
        if len(ours) < LEAST_SIZES:
            return CAUTIONS[0], math.nan
        means = ours.mean(axis=0)
        chosen = int(np.argmin(means + LOST * (lost > SURPRISE).mean(axis=0)))
        return CAUTIONS[chosen], float(means[chosen]) if means[chosen] < nearest.mean() else math.nan

    def _compared(self, predicted: Array, kept: Mask, places: Array, elsewhere: Array) -> tuple[Array, Array, Array]:
        """Of each size that is not `kept` and has something to choose: what is lost by these predictions over the best
        and over the library, by caution, and what by taking the best of the nearest size that is kept. `places` are the
        logarithms of sizes, `elsewhere` the times at others than the one to choose at."""
        others = np.isfinite(elsewhere) & kept[:, None]
        shared = self._known & ~kept[:, None] & others.any(axis=0)
        here = np.flatnonzero(shared.sum(axis=1) >= 2)
        shared, times = shared[here], self._times[here]
        best = np.where(shared, times, np.inf).min(axis=1)
        library = np.where(shared & ~self._is_kernel, times, np.inf).min(axis=1)
        expected = cautious(predicted[here][:, None], np.array(CAUTIONS)[:, None], self._is_kernel)
        choice = np.where(shared[:, None], expected, np.inf).argmin(axis=2)
        taken = np.take_along_axis(times, choice, axis=1)
        there = np.einsum("he,se->hs", shared.astype(np.float32), others.astype(np.float32)) > 0
        near = np.where(there, squares_apart(places[here], places), np.inf).argmin(axis=1)
        choice_there = np.where(others[near] & shared, elsewhere[near], np.inf).argmin(axis=1)
        nearest = times[np.arange(len(here)), choice_there] / best - 1
        return taken / best[:, None] - 1, np.maximum(0.0, taken / library[:, None] - 1), nearest
