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
the best configuration of the nearest size. The same predictions determine the caution: the share by which a kernel must
be predicted to beat the library, so that the chosen kernel is rarely slower than the library. They also show where
predictions err. Among several configurations with similar predicted times, the minimum is probably an underestimate
(the winner's curse), so times are lengthened if predictions at nearby sizes were wrong. `benchmarks/lookup.py` compares
the look-up by this model with the look-up by the nearest size on recordings; the model was never worse.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from tuner.devices.product import Tiles
from tuner.prediction import model_cache
from tuner.prediction.amounts import Array, Features, Indices, Traits
from tuner.prediction.cost_terms import CostTerms
from tuner.prediction.fitting import sums
from tuner.prediction.grids import Measured, Sizes, scope_at
from tuner.prediction.learnt import (
    DISTANCE_PENALTY,
    LEAST_NEAR,
    PRIOR_ERROR,
    RISK,
    STRANGE,
    Learnt,
    cautious,
    expected_errors,
)
from tuner.prediction.library_tiles import LibraryRoutines, LibraryTiles
from tuner.prediction.nearness import Nearness
from tuner.prediction.training_set import SERVES, by_routine, candidates
from tuner.space import launch_form
from tuner.space.scope import Scope

MOST_SIZES = 6144  # training sizes; those with the most entries come first
BATCH = 24  # entries whose residuals are predicted at once, in the order of their sums of cost terms
FIRST = -1e300  # sorts the library before all kernels
LEAST_CACHED = 1 << 10  # measured times; a model trained on fewer is not cached on disk
ANSWERS = "answers"  # the key of the library's tiles in the cache file
ASKED = 32  # sizes at which the library's tiles are hashed into the cache file's name


class TimeModel:
    """Predicts the times of configurations that were measured at several sizes.

    `regret` is the mean expected regret of its choices, time / best - 1, over held-out sizes, all weighted equally;
    None if the model is not to be trusted. `sizes` are the training sizes.
    """

    def __init__(
        self,
        measured: Sequence[Measured],
        scope: Scope,
        units: int,
        cache: int = 0,
        tiles: LibraryTiles = lambda scope: None,
        serves: float = SERVES,
        keep: bool = True,
    ) -> None:
        """Train a model on these measured times, or read it from the cache.

        All entries of `measured` are of one operation. `scope` has its options, types and limits, and defines the order
        of sizes. `units` is the number of multiprocessors, `cache` the size of the last-level cache in bytes, 0 if
        unknown. `tiles` returns how the library tiles a problem, None if unknown. `serves` is the slowdown within which
        a configuration may represent others, which are then not modelled (see `candidates`). With `keep`, a model
        trained on many times is cached on disk.
        """
        modelled = [(number, measured[number]) for number in candidates(measured, serves)]
        problems = [scope_at(scope, sizes) for _, entry in modelled if entry.space is None for sizes in entry.times]
        name, cached = "", None
        if keep and sum(len(entry.times) for _, entry in modelled) >= LEAST_CACHED:
            asked = map(tiles, problems[:: len(problems) // ASKED + 1])
            name = model_cache.name(_training_data(modelled, scope, units, cache, asked))
            cached = model_cache.read(name, (*Learnt._fields, ANSWERS))
        known = _tiles_of(cached[ANSWERS], problems) if cached else {}
        library = LibraryRoutines(problems, lambda scope: known.get(tuple(scope.sizes.values())) or tiles(scope), units)
        if cached and not np.array_equal(cached[ANSWERS], library.answers):
            cached = None  # the library reports other tiles now
        entries = by_routine(modelled, library)
        self._count, self._positions = len(measured), np.array([number for number, _ in entries], int)
        measured = [entry for _, entry in entries]
        counts = Counter(sizes for entry in measured for sizes in entry.times)
        self.sizes = sorted(counts, key=lambda sizes: (-counts[sizes], sizes))[:MOST_SIZES]
        self._is_kernel = np.array([entry.space is not None for entry in measured], bool)
        self._cost = CostTerms(measured, scope, cache, self.sizes, library)
        self.regret: float | None = None
        if not self.sizes:
            return
        if cached:
            learnt = Learnt(*(cached[field] for field in Learnt._fields))
        else:
            from tuner.prediction.learning import Learner  # a cached model does not need it

            times = _times(measured, self.sizes)
            learnt = Learner(self._cost, self.sizes, times, self._is_kernel, units).learn()
            if name:
                model_cache.write(name, {**learnt._asdict(), ANSWERS: library.answers})
        self._learnt, self._capacity = learnt, self._cost.capacity(Traits(*learnt.traits))
        self._nearness = Nearness(self._is_kernel, learnt.counts, learnt.places, learnt.scales, learnt.centre)
        self._pairs = np.split(np.stack([learnt.weights, learnt.errors]), learnt.counts.cumsum()[:-1], axis=1)
        self._cautions = cautious(np.ones(len(measured)), learnt.caution, self._is_kernel)
        self._distance_penalties = DISTANCE_PENALTY * self._is_kernel
        self._least_near = LEAST_NEAR * self._is_kernel
        self.regret = None if math.isnan(learnt.regret) else float(learnt.regret)

    def times(self, sizes: Mapping[str, int], strange: float = STRANGE) -> Array:
        """Predicted times in ms of all configurations, in the order of `measured`; infinite if unknown.

        Uncertainty lengthens a time. `strange` is a further factor for a kernel without a training size nearby. Only
        the entries that may be the fastest include the Gaussian process's residual.
        """
        predicted = np.full(self._count, np.inf)
        if not self.sizes:
            return predicted
        amounts = self._cost.amounts([tuple(sizes.values())])
        schedule = self._cost.schedule(amounts, self._capacity)
        times = sums(self._cost.terms(amounts, schedule)[0], self._learnt.factors, self._learnt.unseen)
        times *= math.exp(RISK * PRIOR_ERROR)
        # An entry without training sizes has an infinite time. So has a library routine that does not run at this size.
        ranked = np.where(self._is_kernel, times, times + FIRST).argsort()[: np.isfinite(times).sum()]
        # Sums of cost terms may be too optimistic, so batches follow until no remaining sum is below the best time.
        best, done = math.inf, 0
        while done < len(ranked) and times[ranked[done]] < best:
            batch = ranked[done : done + BATCH]
            times[batch] *= self._residuals(batch, self._cost.features(amounts, schedule, batch), strange)
            best = min(best, times[batch].min())
            done += BATCH
        predicted[self._positions[ranked]] = (times * self._cautions)[ranked]
        return predicted

    def _residuals(self, entries: Indices, size: Features, strange: float) -> Array:
        """The interpolated residuals of these entries at a size, with the penalties for uncertainty, as time factors.

        `times` has already applied the penalty of PRIOR_ERROR.
        """
        counts = self._learnt.counts[entries]
        first = counts.cumsum() - counts
        near = self._nearness.near(entries, size)
        nearest = np.maximum.reduceat(near, first)
        weights, errors = np.concatenate([self._pairs[entry] for entry in entries.tolist()], axis=1)
        summands = np.empty((3, len(near)), np.float32)
        np.multiply(near, weights, out=summands[0])
        np.multiply(near, near, out=summands[1])
        np.multiply(summands[1], errors, out=summands[2])
        residuals, shares, squares = np.add.reduceat(summands, first, axis=1)
        penalties = (1 - nearest) * self._distance_penalties[entries]
        penalties = penalties + RISK * (expected_errors(squares, shares) - PRIOR_ERROR)
        factors: Array = np.exp(residuals + penalties) * np.where(nearest < self._least_near[entries], strange, 1.0)
        return factors


def _times(measured: Sequence[Measured], sizes: Sequence[Sizes]) -> Array:
    """The times in ms, [sizes, entries], NaN if not measured."""
    rows = {each: row for row, each in enumerate(sizes)}
    times = np.full((len(sizes), len(measured)), np.nan)
    for column, entry in enumerate(measured):
        known = [(rows[each], time_ms) for each, time_ms in entry.times.items() if each in rows]
        times[[row for row, _ in known], column] = [time_ms for _, time_ms in known]
    return times


def _training_data(
    modelled: Sequence[tuple[int, Measured]], scope: Scope, units: int, cache: int, tiles: Iterable[Tiles | None]
) -> Iterator[Array | str]:
    """All data that determine the trained model, for the cache file's name.

    `tiles` are the library's tiles at a few sizes only, because asking the library at all sizes would double the time
    that a cached model takes to load.
    """
    spaces = {id(entry.space): entry.space for _, entry in modelled if entry.space is not None}
    numbers = {key: number for number, key in enumerate(spaces)}
    yield json.dumps([launch_form.to_json(space) for space in spaces.values()])
    unsized = scope.at(dict.fromkeys(scope.sizes, 1))
    configs = [(numbers.get(id(entry.space)), entry.config) for _, entry in modelled]
    yield repr((unsized, units, cache, [*tiles], configs))
    for _, entry in modelled:
        yield np.array([*entry.times], float)
        yield np.array([*entry.times.values()], float)


def _tiles_of(answers: Array, problems: Sequence[Scope]) -> dict[Sizes, Tiles]:
    """The library's tiles at the sizes of these problems, from cached `LibraryRoutines.answers`; empty if unknown."""
    if len(answers) != len(problems):
        return {}
    return {
        tuple(scope.sizes.values()): Tiles(count, whole, blocks, at_once, int(algorithm), (rows, columns, int(parts)))
        for scope, (count, whole, blocks, at_once, algorithm, rows, columns, parts) in zip(
            problems, answers.tolist(), strict=True
        )
    }
