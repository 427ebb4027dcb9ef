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

import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from tuner.devices.product import Tiles
from tuner.prediction import model_cache
from tuner.prediction.amounts import Array, Position, Rows, Traits
from tuner.prediction.cost_terms import TimeTerms
from tuner.prediction.fitting import sums
from tuner.prediction.grids import Measured, Sizes, at
from tuner.prediction.learnt import DOUBT, LEAST_NEAR, RISK, STRANGE, UNKNOWN, Learnt, cautious, risks
from tuner.prediction.library_tiles import LibraryTiles, ToldTiles
from tuner.prediction.nearness import Nearness
from tuner.prediction.training_set import SERVES, by_routine, candidates
from tuner.space import launch_form
from tuner.space.scope import Scope

MOST_SIZES = 6144  # that a model learns from, the most measured first
MOST_HOPEFUL = 24  # entries that are looked at closely at once: the library, and kernels with the least sums of parts
FIRST = -1e300  # makes any time the least
LONG = 1 << 10  # times: what is learnt from more is kept on disk
ANSWERS = "answers"  # the library's, beside what is learnt
ASKED = 32  # sizes at which the library must tell the same as when it was learnt


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
        keep: bool = True,
    ) -> None:
        """All are of one operation. `scope` has options, types and limits, and says the order of sizes; `units` are the
        multiprocessors, `cache` the bytes of the last cache, 0 if unknown; `tiles` tells how the library runs the
        operation at a size. Of many entries, what is nowhere needed to have at most `serves` times the best is not
        predicted; infinite: all is. `keep`: what is learnt of many times is kept in the cache, and read from it."""
        kept = [(number, measured[number]) for number in candidates(measured, serves)]
        library = [at(scope, sizes) for _, entry in kept if entry.space is None for sizes in entry.times]
        name, before = "", None
        if keep and sum(len(entry.times) for _, entry in kept) >= LONG:
            asked = map(tiles, library[:: len(library) // ASKED + 1])
            name = model_cache.name(_given(kept, scope, units, cache, asked))
            before = model_cache.read(name, (*Learnt._fields, ANSWERS))
        known = _tiles_of(before[ANSWERS], library) if before else {}
        told = ToldTiles(library, lambda scope: known.get(tuple(scope.sizes.values())) or tiles(scope), units)
        if before and not np.array_equal(before[ANSWERS], told.answers):
            before = None  # it tells other things now
        entries = by_routine(kept, told)
        self._count, self._positions = len(measured), np.array([number for number, _ in entries], int)
        measured = [entry for _, entry in entries]
        counts = Counter(sizes for entry in measured for sizes in entry.times)
        self.sizes = sorted(counts, key=lambda sizes: (-counts[sizes], sizes))[:MOST_SIZES]
        self._is_kernel = np.array([entry.space is not None for entry in measured], bool)
        self._terms = TimeTerms(measured, scope, cache, self.sizes, told)
        self.regret: float | None = None
        if not self.sizes:
            return
        if before:
            learnt = Learnt(*(before[field] for field in Learnt._fields))
        else:
            from tuner.prediction.learning import Learner  # what an earlier process has learnt needs none

            times = _times(measured, self.sizes)
            learnt = Learner(self._terms, self.sizes, times, self._is_kernel, units).learn()
            if name:
                model_cache.write(name, {**learnt._asdict(), ANSWERS: told.answers})
        self._learnt, self._capacity = learnt, self._terms.capacity(Traits(*learnt.traits))
        self._nearness = Nearness(self._is_kernel, learnt.counts, learnt.places, learnt.scales, learnt.centre)
        self._pairs = np.split(np.stack([learnt.weights, learnt.errors]), learnt.counts.cumsum()[:-1], axis=1)
        self._cautions = cautious(np.ones(len(measured)), learnt.caution, self._is_kernel)
        self._doubts, self._least_near = DOUBT * self._is_kernel, LEAST_NEAR * self._is_kernel
        self.regret = None if math.isnan(learnt.regret) else float(learnt.regret)

    def times(self, sizes: Mapping[str, int], strange: float = STRANGE) -> Array:
        """The predicted time of each, in ms; infinite where there is none. Doubts make it longer: that of a kernel that
        was measured nowhere near is `strange` times as long."""
        found = np.full(self._count, np.inf)
        if not self.sizes:
            return found
        amounts = self._terms.amounts([tuple(sizes.values())])
        course = self._terms.course(amounts, self._capacity)
        times = sums(self._terms.parts(amounts, course)[0], self._learnt.factors, self._learnt.unseen)
        times *= math.exp(RISK * UNKNOWN)
        # What has a time was measured at some size; of the library that is the routine which runs here.
        likely = np.where(self._is_kernel, times, times + FIRST).argsort()[: np.isfinite(times).sum()]
        best, looked_at = math.inf, 0  # until the best is among these: sums of parts alone may promise too much
        while looked_at < len(likely) and times[likely[looked_at]] < best:
            hopeful = likely[looked_at : looked_at + MOST_HOPEFUL]
            times[hopeful] *= self._open(hopeful, self._terms.position(amounts, course, hopeful), strange)
            best = min(best, times[hopeful].min())
            looked_at += MOST_HOPEFUL
        found[self._positions[likely]] = (times * self._cautions)[likely]
        return found

    def _open(self, hopeful: Rows, here: Position, strange: float) -> Array:
        """What the sums of parts of these entries leave open at a size, with doubts: factors of times."""
        counts = self._learnt.counts[hopeful]
        first = counts.cumsum() - counts
        near = self._nearness.near(hopeful, here)
        nearest = np.maximum.reduceat(near, first)
        weights, errors = np.concatenate([self._pairs[entry] for entry in hopeful.tolist()], axis=1)
        terms = np.empty((3, len(near)), np.float32)
        np.multiply(near, weights, out=terms[0])
        np.multiply(near, near, out=terms[1])
        np.multiply(terms[1], errors, out=terms[2])
        remains, shares, erred = np.add.reduceat(terms, first, axis=1)
        doubts = (1 - nearest) * self._doubts[hopeful] + RISK * (risks(erred, shares) - UNKNOWN)
        factors: Array = np.exp(remains + doubts) * np.where(nearest < self._least_near[hopeful], strange, 1.0)
        return factors


def _times(measured: Sequence[Measured], sizes: Sequence[Sizes]) -> Array:
    """The times by size and entry, not a number where there is none."""
    rows = {each: row for row, each in enumerate(sizes)}
    times = np.full((len(sizes), len(measured)), np.nan)
    for column, entry in enumerate(measured):
        known = [(rows[each], time_ms) for each, time_ms in entry.times.items() if each in rows]
        times[[row for row, _ in known], column] = [time_ms for _, time_ms in known]
    return times


def _given(
    kept: Sequence[tuple[int, Measured]], scope: Scope, units: int, cache: int, tiles: Iterable[Tiles | None]
) -> Iterator[Array | str]:
    """All that is learnt from; of what the library tells, a part, since that takes as long as all else."""
    spaces = {id(entry.space): entry.space for _, entry in kept if entry.space is not None}
    numbers = {key: number for number, key in enumerate(spaces)}
    yield json.dumps([launch_form.to_json(space) for space in spaces.values()])
    anywhere = scope.at(dict.fromkeys(scope.sizes, 1))
    yield repr((anywhere, units, cache, [*tiles], [(numbers.get(id(entry.space)), entry.config) for _, entry in kept]))
    for _, entry in kept:
        yield np.array([*entry.times], float)
        yield np.array([*entry.times.values()], float)


def _tiles_of(answers: Array, library: Sequence[Scope]) -> dict[Sizes, Tiles]:
    """What a library told at the sizes of these, as `ToldTiles.answers` has it; empty where it does not tell."""
    if len(answers) != len(library):
        return {}
    return {
        tuple(scope.sizes.values()): Tiles(there, whole, blocks, at_once, int(algorithm), (rows, columns, int(parts)))
        for scope, (there, whole, blocks, at_once, algorithm, rows, columns, parts) in zip(
            library, answers.tolist(), strict=True
        )
    }
