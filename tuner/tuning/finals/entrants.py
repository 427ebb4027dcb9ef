"""The entrants of the finals: which trials of a search are measured again."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from tuner.measure.timing.clock import FINAL_SECONDS, MAX_ROUNDS, NOISE, spread
from tuner.measure.timing.race import RACE
from tuner.space.config import ConfigKey, config_key
from tuner.space.default import declared_or_first
from tuner.store import verdicts
from tuner.tuning.finals.ties import TieRule

if TYPE_CHECKING:
    from tuner.measure.process.supervisor import Supervisor
    from tuner.search.pool import Pool
    from tuner.space.model import Space
    from tuner.space.scope import Scope
    from tuner.tuning.finals.final_round import FinalRound
    from tuner.tuning.finals.preference import Preference
    from tuner.tuning.ledger.ledger import Ledger
    from tuner.tuning.ledger.trial import Trial

FINALISTS = 5
MOST_TIED = 5  # more finalists, if the search's times do not separate them from the fastest
MOST_RIVALS = 500  # trials that are looked at
NEAR = 0.02  # relative difference of two times of a search that the finals may turn round
# The same two on a processor, for the shortest run of the search. There, other programs may lengthen most runs of one
# of the best configurations. Where its process has its memory, or two threads on one core, may lengthen all its runs:
# these take twice as long, which noise may exceed.
MOST_TIED_ON_PROCESSOR, NEAR_ON_PROCESSOR = 15, 1.25
MOST_SHORT = 3  # of these: those with the shortest runs, which nothing disturbed. The rule prefers the others
MOST_TRADED_OFF = 20  # finalists of a search with several objectives
# On a processor, other programs and the system's scheduler may lengthen all runs of a configuration by so much, mostly
# because two of its threads share a core. So up to MOST_LOOKED_AT, those that the rule prefers, get a second look.
DISTURBED_MS, MOST_LOOKED_AT = 20.0, 8
TURN_MS = 1.0  # what another program takes at least, if it is given a processor while a run lasts
SLOW = 10.0  # times the best: so large a difference is no noise
ROUND_MS = 1e3 * FINAL_SECONDS / MAX_ROUNDS  # longest round of which MAX_ROUNDS fit into FINAL_SECONDS


class Entrants:
    """The trials that may be finalists or runners-up."""

    def __init__(
        self,
        worker: Supervisor,
        ledger: Ledger,
        final_round: FinalRound,
        among: Pool | None,
        preference: Preference,
        is_short: bool = False,
    ) -> None:
        """Only configurations of `among` can be finalists, if it is given. `is_short`: only rivals of the best enter.

        Raises RequestError if no configuration has the bits that are asked for.
        """
        self._worker, self._ledger, self._round, self._among = worker, ledger, final_round, among
        self._is_short, self._on_processor = is_short, worker.device.on_processor
        space, scope = worker.task.space, worker.scope
        self.rule = TieRule.of(preference.record, declared_or_first(space, scope), ledger.trials)
        self._same_bits = preference.same_bits
        self._target = preference.same_bits.target(ledger) if preference.same_bits is not None else None

    def look_again(self) -> None:
        """On a processor, measure again what may have lost only because another program ran for a moment. It may turn
        out the best, behind which others have lost, too."""
        task = self._worker.task
        if not self._on_processor or task.method.objectives != ("time",) or self._is_short:
            return
        looked_at = set[ConfigKey]()
        while len(looked_at) < MOST_LOOKED_AT:
            preferred = sorted(self._disturbed(), key=self.rule.rank)
            unseen = [trial for trial in preferred if config_key(trial.config) not in looked_at]
            if not unseen:
                return
            again = unseen[: MOST_LOOKED_AT - len(looked_at)]
            self._round.look_again(again)
            looked_at.update(config_key(trial.config) for trial in again)

    def _disturbed(self) -> list[Trial]:
        """The trials that another program may have kept from being near the best."""
        trials = list(itertools.islice(self.best(self._among), MOST_RIVALS))
        first, rest = trials[:FINALISTS], trials[FINALISTS:]
        least = min((min(trial.outcome.times) for trial in first), default=0.0)
        is_noise = any(spread(trial.outcome.times) > NOISE for trial in first)
        low, high = least + (0.0 if is_noise else TURN_MS), least + DISTURBED_MS
        lost = [trial for trial in rest if not self._is_near(trial, first[0])]
        return [trial for trial in lost if low <= min(trial.outcome.times) <= high]

    def prepare(self, trials: Sequence[Trial]) -> None:
        """Verify the configuration whose bits are asked for on the finals' inputs, unless it is among `trials`."""
        if self._target is not None and self._target not in trials:
            self._round.verified([self._target])

    def admits(self, trial: Trial) -> bool:
        """Whether a trial has the bits that are asked for, as far as it was verified."""
        if self._same_bits is None:
            return True
        target = self._round.bits_of(self._target) if self._target is not None else {}
        return self._same_bits.admits(self._round.bits_of(trial), target)

    def best(self, among: Pool | None = None) -> Iterator[Trial]:
        """The successful trials of valid configurations, best first; only those of a pool, if there is one."""
        space, scope = self._worker.task.space, self._worker.scope
        trials = (trial for trial in self._ledger.best if among is None or among.find(trial.config) is not None)
        return (trial for trial in trials if space.valid(trial.config, scope) and self.admits(trial))

    def ranked(self) -> list[Trial]:
        """The FINALISTS best trials, and up to MOST_TIED others that are as good in the search, those that the rule
        prefers, and on a processor those with the shortest runs; of several objectives, the non-dominated trials. There
        are fewer others where a round would take longer than ROUND_MS."""
        objectives = self._worker.task.method.objectives
        if len(objectives) > 1:
            return _front(list(self.best()))
        trials = list(itertools.islice(self.best(self._among), MOST_RIVALS))
        first, rest = trials[:FINALISTS], trials[FINALISTS:]
        if self._is_short:
            return _promising(first, first)
        if objectives != ("time",):
            return first
        near = self._near(first, rest)
        while near and sum(trial.time_ms or 0.0 for trial in (*first, *near)) > ROUND_MS:
            near.pop()
        return [*first, *near]

    def _near(self, first: Sequence[Trial], rest: Sequence[Trial]) -> list[Trial]:
        """Those of `rest` that the search's times do not separate from the first of `first`, as many as may enter."""
        near = sorted((trial for trial in rest if self._is_near(trial, first[0])), key=self.rule.rank)
        if not self._on_processor:
            return near[:MOST_TIED]
        shortest = sorted(near, key=lambda trial: min(trial.outcome.times))[:MOST_SHORT]
        return [*shortest, *(trial for trial in near if trial not in shortest)][:MOST_TIED_ON_PROCESSOR]

    def beside(self, ranked: Sequence[Trial]) -> list[Trial]:
        """The trials of the default and of the record that is there, if they are not among `ranked`.

        Those that are too slow, invalid or missing are left out.
        """
        if self._among is not None:
            return []
        known = {config_key(trial.config): trial for trial in self.best()}
        configs = [config for config in (self.rule.default, self.rule.record) if config is not None]
        found = [known[key] for config in configs if (key := config_key(config)) in known]
        fast = [trial for trial in found if not is_too_slow(trial.time_ms or 0.0, ranked[0].time_ms or 0.0)]
        fast = _promising(fast, ranked) if self._is_short else fast
        return [trial for number, trial in enumerate(fast) if trial not in (*ranked, *fast[:number])]

    def _is_near(self, trial: Trial, best: Trial) -> bool:
        """Whether the search's times leave open which of two trials is faster."""
        one, other = (verdicts.of_times(each.outcome.times) for each in (best, trial))
        near = NEAR_ON_PROCESSOR if self._on_processor else NEAR
        time_ms = min(trial.outcome.times) if self._on_processor else other.time_ms
        return time_ms <= one.time_ms + max(near * one.time_ms, verdicts.REPEATABLE_MS) or bool(one.verdict(other))


def _promising(trials: Sequence[Trial], ranked: Sequence[Trial]) -> list[Trial]:
    """The trials that the search did not find RACE times slower than the best."""
    return [trial for trial in trials if trial.values[0] <= RACE * ranked[0].values[0]]


def _front(best_first: Sequence[Trial]) -> list[Trial]:
    """The non-dominated trials, best first. If there are too many, MOST_TRADED_OFF of them at even intervals."""
    trials = {trial.values: trial for trial in reversed(best_first)}
    front = [trials[values] for values in non_dominated(list(trials))]
    count = min(len(front), MOST_TRADED_OFF)
    return [front[round(i * (len(front) - 1) / max(1, count - 1))] for i in range(count)]


def non_dominated(points: Sequence[tuple[float, ...]]) -> list[tuple[float, ...]]:
    """The distinct points that no other point dominates, in ascending order.

    A point dominates another if it is as small or smaller in every value.
    """
    front: list[tuple[float, ...]] = []
    for point in sorted(set(points)):  # a later point never dominates an earlier one
        if not any(all(a <= b for a, b in zip(other, point, strict=True)) for other in front):
            front.append(point)
    return front


def is_too_slow(time_ms: float, best_ms: float) -> bool:
    """Whether a configuration is so slow that interleaving it would leave too few rounds for the best.

    A time below ROUND_MS is never too slow, however short the best configuration's time was in the search.
    """
    return time_ms > max(SLOW * best_ms, ROUND_MS)


def default_trial(space: Space, scope: Scope, ledger: Ledger) -> Trial | None:
    """The successful trial of the space's default, or of the first valid configuration if the space has no default."""
    key = config_key(declared_or_first(space, scope))
    return next((trial for trial in ledger.best if config_key(trial.config) == key), None)
