"""The time model: predicts the time of a configuration at a size at which it was not measured.

The time of a configuration is a sum of cost terms (see `tuner.prediction.cost_terms`) with non-negative coefficients:
the launch, the load of the multiprocessors, the bytes moved, and so on. The coefficients minimise the squared relative
errors at the training sizes (non-negative least squares: C. L. Lawson and R. J. Hanson, "Solving Least Squares
Problems", 1974, chapter 23). The log residual, log(measured / sum of cost terms), is modelled as a Gaussian process and
interpolated from nearby sizes (D. G. Krige, "A statistical approach to some basic mine valuation problems on the
Witwatersrand", 1951; C. E. Rasmussen and C. K. I. Williams, "Gaussian Processes for Machine Learning", 2006,
chapter 2).

Two problems are near for a kernel if they have similar sizes, similar numbers of blocks and waves with similar work per
block, and the same alignment of rows. For the library, its tiles take the place of a kernel's blocks if it reports them
without running anything, as cuBLASLt's heuristics do. Each library algorithm that is chosen at many sizes then has
coefficients of its own. If the library reports no tiles, only the sizes count. A kernel without a training size nearby
gets a longer predicted time. A kernel that was measured at few of the sizes has no prediction. A kernel that was never
measured with unaligned rows has no prediction for unaligned rows.

Cross-validation decides whether the model is trusted. Each fold of the sizes is held out once and predicted from the
others. The model is used only if, over at least LEAST_SIZES held-out sizes, its choices have a lower mean regret than
the best configuration of the nearest size. The same predictions determine the caution: the number of standard
deviations by which a kernel must be predicted to beat the library, so that the chosen kernel is rarely slower than the
library. They also show where predictions err. Among several configurations with similar predicted times, the minimum is
probably an underestimate (the winner's curse), so times are lengthened if predictions at nearby sizes were wrong.
`benchmarks/lookup.py` compares the look-up by this model with the look-up by the nearest size on recordings; the table
is in docs/dispatch.md. The model is better if configurations were measured at all sizes. If each size has only its own,
look-ups by the model were up to 0.4 % slower.
"""

from __future__ import annotations

import copy
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from tuner.prediction.amounts import Array, Features, Indices, Traits
from tuner.prediction.cost_terms import CostTerms
from tuner.prediction.fitting import sums
from tuner.prediction.grids import Measured, Sizes, scope_at
from tuner.prediction.learnt import (
    LENT_DEVIATION,
    LENT_DEVIATION_UNALIGNED,
    PRIOR_ERROR,
    UNSEEN,
    beside_library,
    expected_errors,
    variances,
)
from tuner.prediction.library_tiles import LibraryRoutines, LibraryTiles
from tuner.prediction.nearness import Nearness, of_errors, scales_of
from tuner.prediction.trained import Trained
from tuner.prediction.training_set import SERVES, by_routine, candidates
from tuner.space.model import Space
from tuner.space.scope import Scope

MOST_SIZES = 6144  # training sizes; those with the most entries come first
BATCH = 24  # entries whose residuals are predicted at once, in the order of their sums of cost terms
FIRST = -1e300  # sorts the library before all kernels


class TimeModel:
    """Predicts the times of configurations that were measured at several sizes.

    `regret` is the mean expected regret of its choices, time / best - 1, over held-out sizes, all weighted equally;
    None if the model is not to be trusted. `kernels_regret` is the same if the library is no candidate. `trained` is
    its state, in which the kernel of an entry is its number in `spaces`.
    """

    spaces: list[Space]
    trained: Trained | None = None
    regret: float | None = None
    kernels_regret: float | None = None

    def __init__(
        self,
        measured: Sequence[Measured],
        scope: Scope,
        units: int,
        cache: int = 0,
        tiles: LibraryTiles = lambda scope: None,
        serves: float = SERVES,
    ) -> None:
        """Train a model on these measured times.

        All entries of `measured` are of one operation. `scope` has its options, types and limits, and defines the order
        of sizes. `units` is the number of multiprocessors, `cache` the size of the last-level cache in bytes, 0 if
        unknown. `tiles` returns how the library tiles a problem, None if unknown. `serves` is the slowdown within which
        a configuration may represent others, which are then not modelled (see `candidates`).
        """
        modelled = [(number, measured[number]) for number in candidates(measured, serves)]
        problems = [scope_at(scope, sizes) for _, entry in modelled if entry.space is None for sizes in entry.times]
        library = LibraryRoutines(problems, tiles, units)
        entries = by_routine(modelled, library)
        self._count, self._positions = len(measured), np.array([number for number, _ in entries], int)
        measured = [entry for _, entry in entries]
        self.spaces = [*{id(entry.space): entry.space for entry in measured if entry.space is not None}.values()]
        counts = Counter(sizes for entry in measured for sizes in entry.times)
        sizes = sorted(counts, key=lambda sizes: (-counts[sizes], sizes))[:MOST_SIZES]
        if not sizes:
            return
        from tuner.prediction.clusters import blocks_per_cluster
        from tuner.prediction.grid_table import GridTable
        from tuner.prediction.learning import Learner  # a trained model does not need it

        grids = GridTable.of(measured, scope, sizes)
        entries_of = [(entry.space, entry.config) for entry in measured]
        self._cost = CostTerms(entries_of, scope, cache, grids, library)
        is_kernel, clusters = (
            np.array([space is not None for space, _ in entries_of], bool),
            blocks_per_cluster(entries_of),
        )
        learnt = Learner(self._cost, sizes, _times(measured, sizes), is_kernel, clusters, units).learn()
        numbers = {id(space): number for number, space in enumerate(self.spaces)}
        of_entries = tuple((numbers.get(id(entry.space)), entry.config) for entry in measured)
        self._take(Trained(of_entries, grids, library.to_json(), tuple(sizes), learnt, units, cache))

    @staticmethod
    def restored(trained: Trained, spaces: Sequence[Space], scope: Scope, tiles: LibraryTiles) -> TimeModel:
        """The model with this state. The kernels of its entries are numbers of `spaces`.

        Its times are those of the distinct configurations in the order of the entries, then that of the library.
        """
        model = object.__new__(TimeModel)
        model.spaces = [*spaces]
        kernels = int(trained.is_kernel.sum())
        model._positions = np.minimum(np.arange(len(trained.entries)), kernels)
        model._count = kernels + (len(trained.entries) > kernels)
        library = LibraryRoutines.from_json(trained.routines, tiles, trained.units)
        entries = [(None if number is None else spaces[number], config) for number, config in trained.entries]
        model._cost = CostTerms(entries, scope, trained.cache, trained.grids, library)
        model._take(trained)
        return model

    def _take(self, trained: Trained) -> None:
        """Prepare predictions with this state."""
        self.trained, self._learnt, self._is_kernel = trained, trained.learnt, trained.is_kernel
        learnt, widths = trained.learnt, self._cost.widths
        self._capacity = self._cost.capacity(Traits(*learnt.traits))
        scales = scales_of(self._cost.has_tiles, widths)
        self._nearness = Nearness(self._is_kernel, learnt, scales)
        self._prior, self._first = np.exp(PRIOR_ERROR / 2 * self._is_kernel), np.where(self._is_kernel, 0.0, FIRST)
        self._pairs = np.split(np.stack([learnt.weights, learnt.errors]), learnt.counts.cumsum()[:-1], axis=1)
        self.regret, self.kernels_regret = (
            None if math.isnan(each) else float(each) for each in (learnt.regret, learnt.kernels_regret)
        )

    def with_times(self, times: Mapping[int, Mapping[Sizes, float]]) -> TimeModel:
        """The model with further measured times in ms of kernels, by entry, without training it again."""
        from tuner.prediction.additions import added

        assert self.trained is not None
        other = copy.copy(self)
        other._take(added(self.trained, self._cost, self._capacity, times))
        return other

    def times(
        self,
        sizes: Mapping[str, int],
        lent: bool = False,
        is_valid: Callable[[int], bool] = lambda position: True,
        within: float = 1.0,
    ) -> Array:
        """Predicted times in ms of all configurations, in the order of `measured`; infinite if unknown.

        Uncertainty lengthens the time of a kernel, more so if the library is a candidate. `lent`: whether the times are
        those of another type of the same width, which say less of the library. `is_valid` tells of a position in the
        result whether that configuration may run at these sizes. Only the entries that may take less than `within`
        times the fastest valid one's time include the Gaussian process's residual.
        """
        predicted = np.full(self._count, np.inf)
        if self.trained is None:
            return predicted
        amounts = self._cost.amounts([tuple(sizes.values())])
        schedule = self._cost.schedule(amounts, self._capacity)
        times = sums(self._cost.terms(amounts, schedule)[0], self._learnt.factors, self._learnt.unseen)
        times *= self._prior
        # An entry without training sizes has an infinite time. So has a library routine that does not run at this size.
        ranked = (times + self._first).argsort()[: np.count_nonzero(np.isfinite(times))]
        # Sums of cost terms may be too optimistic, so batches follow until no remaining sum is below `within` times the
        # best time of a valid entry. An invalid one says nothing of those that remain.
        best, done, library, of_library = math.inf, 0, math.inf, None
        while done < len(ranked) and times[ranked[done]] < within * best:
            batch = ranked[done : done + BATCH]
            factors, errors, nearest = self._residuals(batch, self._cost.features(amounts, schedule, batch))
            corrected, is_kernel = times[batch] * factors / self._prior[batch], self._is_kernel[batch]
            own = variances(errors, nearest, is_kernel)
            if done == 0 and not is_kernel.all():
                runs = np.where(is_kernel, np.inf, corrected).argmin()
                library, of_library = corrected[runs], own[runs]
                if lent:
                    is_unaligned = amounts.unaligned[0].any()
                    of_library += (LENT_DEVIATION_UNALIGNED if is_unaligned else LENT_DEVIATION) ** 2
            if of_library is None:
                corrected *= np.exp(np.sqrt(own))
            else:
                caution = self._learnt.caution
                corrected = beside_library(corrected, is_kernel, own, caution, library, of_library)
            times[batch] = corrected
            for entry in batch[corrected.argsort()].tolist():
                if times[entry] >= best:
                    break
                if is_valid(int(self._positions[entry])):
                    best = times[entry]
            done += BATCH
        # What was not looked at must not precede what was: callers also choose among times that are not the best.
        times[ranked[done:]] *= UNSEEN
        predicted[self._positions[ranked]] = times[ranked]
        return predicted

    def _residuals(self, entries: Indices, size: Features) -> tuple[Array, Array, Array]:
        """Of these entries at a size: the interpolated residuals, as factors on the times; the expected errors; and the
        similarities of the nearest training sizes. The library's routines come first in `entries`."""
        counts = self._learnt.counts[entries]
        first = counts.cumsum() - counts
        near = self._nearness.near(entries, size)
        weights, errors = np.concatenate([self._pairs[entry] for entry in entries.tolist()], axis=1)
        summands = np.empty((3, len(near)), np.float32)
        np.multiply(near, weights, out=summands[0])
        of_library = slice(counts[~self._is_kernel[entries]].sum())
        near[of_library] = of_errors(near[of_library], self._cost.has_tiles)
        nearest = np.maximum.reduceat(near, first)
        np.multiply(near, near, out=summands[1])
        np.multiply(summands[1], errors, out=summands[2])
        residuals, shares, squares = np.add.reduceat(summands, first, axis=1)
        factors: Array = np.exp(residuals)
        return factors, expected_errors(squares, shares), nearest


def _times(measured: Sequence[Measured], sizes: Sequence[Sizes]) -> Array:
    """The times in ms, [sizes, entries], NaN if not measured."""
    rows = {each: row for row, each in enumerate(sizes)}
    times = np.full((len(sizes), len(measured)), np.nan)
    for column, entry in enumerate(measured):
        known = [(rows[each], time_ms) for each, time_ms in entry.times.items() if each in rows]
        times[[row for row, _ in known], column] = [time_ms for _, time_ms in known]
    return times
