"""Train a time model: fit its traits, coefficients and Gaussian process, and estimate its regret by cross-validation.

`tuner.prediction.model` describes the model.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from tuner.prediction.amounts import TERMS, Amounts, Array, Indices, Mask, Traits
from tuner.prediction.cost_terms import CostTerms
from tuner.prediction.fitting import fitted, relative_to, sums
from tuner.prediction.grids import Sizes
from tuner.prediction.learnt import LOSS, Learnt, beside_library, expected_errors, variances
from tuner.prediction.nearness import Pairs, inverse, matvec, of_errors, solve, squared_distances
from tuner.prediction.training_set import MOST_KERNEL_SIZES, MOST_LIBRARY_SIZES, spread, training_sizes

LEAST_SIZES = 3  # held-out sizes; with fewer, the model is not trusted
FOLDS = 6  # of the cross-validation
# The least launch, as a share of the shortest time of all kernels, or of MOST_LAUNCH ms if that is shorter. A
# configuration whose own shortest time is at most TOLD_LAUNCH x that one tells what its launch takes.
LEAST_LAUNCH, MOST_LAUNCH, TOLD_LAUNCH = 0.9, 0.01, 1.5
DEVIATION, NOISE = 0.3, 0.05  # standard deviations of the log residuals and of the noise of a log time
MOST_RESIDUAL = 0.7  # log residuals of kernels are clipped to this magnitude
# Standard deviations by which a kernel must be predicted to beat the library. Cross-validation judges each by the mean
# regret, to which it adds LOSS_WEIGHT x the share of sizes more than LOSS slower than the library. The largest is used
# whose sum exceeds the least by at most the standard error of their difference. The weight makes up for this: at a size
# left out, the choice is among the few kernels measured there, so losses are rarer than at a new size. With 2.0, gemm16
# lost at 0.14 % of the sizes left out, and at three of 230 new ones, at which some ten kernels were measured afterwards
# (H200; with 1.6 at seven, with 2.3 at one).
CAUTIONS, LOSS_WEIGHT = (1.6, 1.8, 2.0, 2.3), 20.0
SHARES = (1.0, 0.97, 0.94, 0.91, 0.88, 0.85, 0.8)  # candidates for the share of multiprocessors that take blocks
RESIDENT = (1, 2, 3, 4, 5, 6, 8)  # candidates for the resident blocks per multiprocessor
LEAST_TRAIT_SIZES = 12  # with fewer sizes, traits are not estimated


class Learner:
    """Trains a time model on times in ms, [sizes, entries], NaN if not measured."""

    def __init__(
        self, cost: CostTerms, sizes: Sequence[Sizes], times: Array, is_kernel: Mask, clusters: Indices, units: int
    ) -> None:
        """`is_kernel`, [entries], is False for the library's routines; `clusters`, [entries], are the blocks per
        cluster; `units` is the number of multiprocessors."""
        self._cost, self._sizes, self._all_times, self._is_kernel, self._units = cost, sizes, times, is_kernel, units
        self._clusters = clusters

    def learn(self) -> Learnt:
        """Train the model, and return its learned state."""
        amounts, every = self._cost.amounts(self._sizes), self._all_times
        self._floors = self._least_launches()
        traits = self._traits(amounts, self._training_times(every, every))
        schedule = self._cost.schedule(amounts, self._cost.capacity(traits))
        self._terms = self._cost.terms(amounts, schedule)
        self._times = self._training_times(every, self._estimated(every))
        self._known, self._relative = relative_to(self._terms, self._times)
        features = self._cost.features(amounts, schedule)
        self._pairs = Pairs(self._is_kernel, self._cost.has_tiles, features, self._known)
        by_pair, coefficients, *validated = self._fit()
        pairs, unseen = self._pairs, self._unseen_in(self._relative)
        places = pairs.counts, pairs.sizes, features.shared, pairs.features
        return Learnt(np.array(traits), coefficients, unseen, *places, *by_pair.T, *map(np.array, validated))

    def _least_launches(self) -> Array:
        """A time in ms, [entries], that no launch undercuts. A configuration measured only at large sizes tells nothing
        of its launch, and would be preferred at small ones."""
        shortest = np.nanmin(np.where(np.isnan(self._all_times), np.inf, self._all_times), axis=0, initial=np.inf)
        least = min(MOST_LAUNCH, float(shortest[self._is_kernel].min(initial=np.inf)))
        return np.where(self._is_kernel & (shortest > TOLD_LAUNCH * least), LEAST_LAUNCH * least, 0.0)

    def _training_times(self, times: Array, estimated: Array) -> Array:
        """The times at the training sizes (see `training_set`), NaN at all others."""
        masked = np.where(self._is_kernel & ~training_sizes(times, estimated), np.nan, times)
        for column in np.flatnonzero(~self._is_kernel):
            rows = np.flatnonzero(~np.isnan(masked[:, column]))
            masked[np.setdiff1d(rows, spread(rows, MOST_LIBRARY_SIZES)), column] = np.nan
        return masked

    def _estimated(self, times: Array) -> Array:
        """The cost terms' estimates, fitted to all times. Sizes at which they are too optimistic must be trained on."""
        known, relative = relative_to(self._terms, times)
        coefficients = fitted(known, relative, np.ones((1, len(times))), self._floors)[0]
        return sums(self._terms, coefficients, self._unseen_in(relative))

    def _traits(self, amounts: Amounts, every: Array) -> Traits:
        """Estimate the traits of each entry by a greedy search: slots, then resident blocks, then the depth step.

        The default is one block on each multiprocessor and no rounding of the depth. Another value must reduce the
        squared error enough to justify one more parameter (Bayesian information criterion: G. Schwarz, "Estimating the
        Dimension of a Model", 1978). Entries whose clusters have the same number of blocks share one estimate of the
        slots, because these follow from the device: few configurations are measured at sizes that tell them. `amounts`
        and `every`, the times, are of all sizes.
        """
        known = ~np.isnan(every)
        counts, entries = known.sum(axis=0), every.shape[1]
        # The library's blocks use all multiprocessors, and the library reports how many are resident.
        can_estimate = (counts >= LEAST_TRAIT_SIZES) & self._is_kernel
        better = np.maximum(counts, 1) ** (-1 / np.maximum(counts, 1))
        units, least = np.full(entries, float(self._units)), np.full(entries, np.inf)
        traits = Traits(units, units, np.ones(entries))
        if not can_estimate.any():
            return traits
        rows = np.argsort(~known, axis=0, kind="stable")[: min(MOST_KERNEL_SIZES, counts.max())]
        own = self._cost.own(amounts, rows)
        times = np.take_along_axis(every, rows, axis=0)

        def number(share: float, resident: int = 1) -> Array:
            return np.full(entries, float(max(1, round(share * resident * self._units))))

        def take_better(other: Traits, among: Mask) -> None:
            nonlocal traits, least
            squares = self._squared_errors(own, times, other)
            is_better = (squares < better * least) & among
            traits, least = Traits(*np.where(is_better, other, traits)), np.where(is_better, squares, least)

        of_shares = [
            self._squared_errors(own, times, traits._replace(slots=number(each), resident=number(each)))
            for each in SHARES
        ]
        shares = self._shared_shares(np.array(of_shares), counts * can_estimate)
        shared = np.where(np.isnan(shares), units, np.maximum(1.0, np.round(np.nan_to_num(shares) * self._units)))
        traits = Traits(shared, shared, np.ones(entries))
        for each in RESIDENT:
            for share in SHARES:
                other = traits._replace(
                    slots=number(share) if each == 1 else traits.slots, resident=number(share, each)
                )
                take_better(
                    other,
                    can_estimate & (np.isnan(shares) | (shares == share)),
                )
        for steps in self._cost.depth_steps:
            take_better(traits._replace(depth_steps=steps), can_estimate)
        return traits

    def _shared_shares(self, squares: Array, counts: Indices) -> Array:
        """For entries with clusters, the share of multiprocessors that take blocks; NaN for others: [entries].

        `squares`, [shares, entries], are the squared errors with each of SHARES. `counts`, [entries], are the numbers
        of sizes, 0 if an entry tells nothing.
        """
        shares = np.full(len(counts), np.nan)
        logs = counts * np.log(np.where(counts > 0, squares, 1.0) + np.finfo(float).tiny)
        for each in np.unique(self._clusters[self._is_kernel & (self._clusters > 1)]):
            of_size = self._is_kernel & (self._clusters == each)
            sums = logs[:, of_size].sum(axis=1)
            best = int(sums.argmin())
            is_better = sums[best] < sums[0] - math.log(max(1, counts[of_size].sum()))
            shares[of_size] = SHARES[best] if is_better else SHARES[0]
        return shares

    def _squared_errors(self, amounts: Amounts, times: Array, traits: Traits) -> Array:
        """The sums of squared relative errors of the fitted cost terms, [entries]."""
        schedule = self._cost.schedule(amounts, self._cost.capacity(traits))
        known, relative = relative_to(self._cost.terms(amounts, schedule), times)
        coefficients = fitted(known, relative, np.ones((1, len(times))))[0]
        errors = np.where(known, (relative * coefficients).sum(axis=2) - 1, 0.0)
        squares: Array = (errors**2).sum(axis=0)
        return squares

    def _fit(self) -> tuple[Array, Array, float, float, float]:
        """Fit the coefficients and the Gaussian process, and validate them on held-out folds of the sizes.

        Returns the weight and the squared error of each pair, [pairs, 2]; the coefficients; the caution; the regret,
        and that of kernels alone.
        """
        count, entries = self._times.shape
        fold = np.arange(count) % FOLDS
        kept = [fold != each for each in range(min(FOLDS, count))]
        every, *others = fitted(self._known, self._relative, np.array([np.ones(count), *kept], float), self._floors)
        by_pair, has_library = list[Array](), not self._is_kernel.all()
        predicted, doubtful = np.full((count, entries), np.inf), np.zeros((count, entries))
        for mask, coefficients in zip(kept, others, strict=True):
            predicted[~mask] = sums(self._terms[~mask], coefficients, self._unseen_in(self._relative[mask]))
        residuals = [self._residuals(coefficients) for coefficients in (every, *others)]
        for entry in range(entries):
            rows, covariance = self._pairs.rows(entry), self._pairs.covariance(entry)
            inverted = inverse(covariance + NOISE**2 / DEVIATION**2 * np.eye(len(rows)))
            weights = matvec(inverted, residuals[0][rows, entry])
            in_other_fold = fold[rows][:, None] != fold[rows]
            for each in {*map(int, fold[rows])}:  # leave-one-out formulas: Rasmussen and Williams, section 5.4.2
                held_out, of_fold = np.flatnonzero(fold[rows] == each), residuals[each + 1][rows, entry]
                product = matvec(inverted[held_out], of_fold)
                interpolated = of_fold[held_out] - solve(inverted[np.ix_(held_out, held_out)], product)
                predicted[rows[held_out], entry] *= np.exp(interpolated)
            squares = np.log(predicted[rows, entry] / self._times[rows, entry]) ** 2
            squares = np.nan_to_num(squares, posinf=0.0)
            by_pair.append(np.stack([weights, squares], axis=1))
            is_kernel, alike = self._is_kernel[entry], covariance * in_other_fold
            if not is_kernel:
                alike = of_errors(alike, self._cost.has_tiles)
            nearest, shares = alike.max(axis=1, initial=0.0), alike**2
            expected = expected_errors(matvec(shares, squares), shares.sum(axis=1))
            doubtful[rows, entry] = variances(expected, nearest, is_kernel)
        alone = (predicted * np.exp(np.sqrt(doubtful)))[:, None]
        caution, of_kernels = 0.0, self._validated(alone, kept, self._is_kernel)[1]
        regret = of_kernels
        if has_library:
            number, regret = self._validated(self._beside_library(predicted, doubtful), kept, np.ones(entries, bool))
            caution = CAUTIONS[number]
        return np.concatenate(by_pair).astype(np.float32), every, caution, regret, of_kernels

    def _beside_library(self, predicted: Array, doubtful: Array) -> Array:
        """The predicted times as they are compared where the library is a candidate, [sizes, cautions, entries].
        `doubtful` are the variances of log times."""
        rows, library = np.arange(len(predicted)), np.flatnonzero(~self._is_kernel)
        runs = library[np.where(self._known[:, library], predicted[:, library], np.inf).argmin(axis=1)]
        times, own, cautions = predicted[:, None], doubtful[:, None], np.array(CAUTIONS)[:, None]
        of_library = (each[rows, runs][:, None, None] for each in (predicted, doubtful))
        return beside_library(times, self._is_kernel, own, cautions, *of_library)

    def _unseen_in(self, relative: Array) -> Mask:
        """Mark the terms of unaligned rows that are 0 at all sizes, [entries, terms]; all library routines are one.

        The last third, of rows inside cache lines, is not marked: a kernel that never had such rows runs with them.
        """
        seen: Mask = np.any(relative[..., TERMS:] > 0, axis=0)
        seen[~self._is_kernel] = seen[~self._is_kernel].any(axis=0)
        seen[:, seen.shape[1] // 3 * 2 :] = True
        return ~seen

    def _residuals(self, coefficients: Array) -> Array:
        """Log residuals: the logarithms of measured times over the sums of cost terms, [sizes, entries].

        Those of kernels are clipped, so that an outlier has little effect on other sizes. Those of the library are not,
        because its routines differ.
        """
        shares = (self._relative * coefficients).sum(axis=2)
        logs = np.where(shares > 0, -np.log(np.where(shares > 0, shares, 1.0)), 0.0)
        return np.where(self._is_kernel, np.clip(logs, -MOST_RESIDUAL, MOST_RESIDUAL), logs)

    def _validated(self, predicted: Array, kept: Sequence[Mask], among: Mask) -> tuple[int, float]:
        """The number of the caution that its choices at held-out sizes justify, and its mean regret, if the choice is
        among the entries of `among`. `predicted` are the times at each caution, [sizes, cautions, entries].

        The regret is NaN if the best configuration of the nearest size does as well, or if too few sizes are held out.
        """
        places = np.log(np.array(self._sizes, float))
        times = np.where(self._known & among, self._times, np.inf)
        if not self._is_kernel.all():  # the library may run another routine at another size
            times[:, ~self._is_kernel] = times[:, ~self._is_kernel].min(axis=1, keepdims=True)
        compared = [self._compared(predicted, rows, places, times, among) for rows in kept]
        regrets, losses, nearest = (np.concatenate(each) for each in zip(*compared, strict=True))
        if len(regrets) < LEAST_SIZES:
            return 0, math.nan
        costs = regrets + LOSS_WEIGHT * (losses > LOSS)
        further = costs - costs[:, [costs.mean(axis=0).argmin()]]
        errors = further.std(axis=0) / math.sqrt(len(costs))
        chosen = int(np.flatnonzero(further.mean(axis=0) <= errors)[-1])
        regret = float(regrets[:, chosen].mean())
        return chosen, regret if regret < nearest.mean() else math.nan

    def _compared(
        self, predicted: Array, kept: Mask, places: Array, elsewhere: Array, among: Mask
    ) -> tuple[Array, Array, Array]:
        """Compare the model with the best, the library and the nearest size, at held-out sizes of at least two entries,
        of which one is predicted: where all have unaligned rows as no other size has, the model chooses nothing.

        Returns the regrets of the predictions, [held-out sizes, cautions]; their slowdowns over the library, of the
        same shape; and the regrets of taking the best entry of the nearest size, [held-out sizes]. `predicted` are the
        predictions at each caution, [sizes, cautions, entries]; `kept` marks the sizes that are not held out; `places`
        are the logarithms of sizes; `elsewhere` are the times as seen from another size; the choice is among the
        entries of `among`.
        """
        others = np.isfinite(elsewhere) & kept[:, None]
        shared = self._known & among & ~kept[:, None] & others.any(axis=0)
        is_predicted = (shared & np.isfinite(predicted[:, 0])).any(axis=1)
        held_out = np.flatnonzero(is_predicted & (shared.sum(axis=1) >= 2))
        shared, times = shared[held_out], self._times[held_out]
        best = np.where(shared, times, np.inf).min(axis=1)
        library = np.where(shared & ~self._is_kernel, times, np.inf).min(axis=1)
        choice = np.where(shared[:, None], predicted[held_out], np.inf).argmin(axis=2)
        chosen = np.take_along_axis(times, choice, axis=1)
        in_common = np.einsum("he,se->hs", shared.astype(np.float32), others.astype(np.float32)) > 0
        near = np.where(in_common, squared_distances(places[held_out], places), np.inf).argmin(axis=1)
        choice_near = np.where(others[near] & shared, elsewhere[near], np.inf).argmin(axis=1)
        nearest = times[np.arange(len(held_out)), choice_near] / best - 1
        return chosen / best[:, None] - 1, np.maximum(0.0, chosen / library[:, None] - 1), nearest
