"""The final round: measure or verify trials once more, and revise those that fail.

Trials are measured together. If that fails, for example because one kills the worker, each is measured alone. A trial
that runs out of memory beside the scratch memory of others is measured alone, too. Alone means in the same way, but
without the vendor library.
"""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from tuner.devices.environment import PERHAPS_ITS_OWN
from tuner.errors import EnvironmentTrouble, TrialError, WorkerDied
from tuner.measure.process.attempts import own_failure, with_retries
from tuner.measure.results import FINALS, Final, Finals, FoundWrong, Outcome, Repeated, Verified, lacked_room
from tuner.measure.timing.clock import FINAL_SECONDS, MAX_ROUNDS, MIN_ROUNDS, QUICK_SECONDS
from tuner.space.config import Config, ConfigKey, config_key
from tuner.space.values import bit_classes
from tuner.store import verdicts
from tuner.store.verdicts import FEWEST_PROCESSES, MOST_PROCESSES
from tuner.tuning.finals.processes import Processes
from tuner.tuning.ledger.trial import Trial

if TYPE_CHECKING:
    from tuner.measure.process.supervisor import Supervisor
    from tuner.space.values.bit_classes import Bits
    from tuner.tuning.finals.ties import TieRule
    from tuner.tuning.ledger.ledger import Ledger

T = TypeVar("T")
MORE_SECONDS = 4.0  # no more than FEWEST_PROCESSES begin after these
SHARE = 0.5  # of the time that is left, for the rounds, and then for the runs that are compared
LEAST_SECONDS = 0.1  # of rounds; the fewest rounds may take longer
FIRST, LATER = 0.5, 0.25  # the shares of the rounds that the first process has, and each later one
OPEN = 0.1  # relative difference in one process that may be a tie in another one


class FinalRound:
    """Measures and verifies trials of a ledger once more.

    The ledger's trial becomes a failed one if it fails. A wrong result is written at once, so that an interrupt does
    not lose it. `bits` has the digests of the outputs that were right in this round, by configuration.
    """

    def __init__(
        self,
        worker: Supervisor,
        ledger: Ledger,
        noted: Callable[[str], None],
        sustained: float | None = None,
        quick: bool = False,
        until: float = math.inf,
    ) -> None:
        """`sustained` and `quick` are those of `Bench.finals`; `noted` is called with messages for the user. `until` is
        the time, by `time.monotonic`, at which the round should be over: it then does no more than it must."""
        self._worker, self._ledger, self._noted, self._until = worker, ledger, noted, until
        self._seconds = QUICK_SECONDS if quick else FINAL_SECONDS
        # On a processor, times depend on where a process has its memory and its code.
        may_differ = worker.device.on_processor and worker.task.method.objectives == ("time",)
        self._sittings = MOST_PROCESSES if may_differ and sustained is None and not quick else 1
        self._finals = functools.partial(worker.finals, sustained=sustained, quick=quick)
        self._failures: dict[ConfigKey, str] = {}
        self.bits: dict[ConfigKey, Bits] = {}

    @property
    def is_late(self) -> bool:
        """Whether the round should be over."""
        return time.monotonic() >= self._until

    def parts(self, trials: Sequence[Trial]) -> list[Sequence[Trial]]:
        """The trials in parts that are verified together: all, or one by one where the round has to be over in time."""
        return [trials] if math.isinf(self._until) else [[trial] for trial in trials]

    def _share(self) -> float:
        """The seconds that one part of the round may take."""
        return max(SHARE * (self._until - time.monotonic()), 0.0)

    def measured(self, trials: Sequence[Trial], rule: TieRule) -> Finals:
        """The Finals of the trials. Raises EnvironmentTrouble if only the machine can have caused a failure.

        On a processor, trials take part in rounds of further processes, whose arrays and code lie elsewhere in memory,
        until it is certain which of the trials that are tied with the fastest `rule` prefers. Only those that may be
        tied do, and the default and the record, whose times are compared with the best's.
        """
        if self._sittings == 1:
            return self._measured(trials, 1)
        finals = self._measured(trials, FIRST)
        began, contenders = time.monotonic(), _contenders(finals.candidates)
        if len(contenders) < 2 or finals.rounds <= MIN_ROUNDS:
            return finals  # where runs are long, a few rounds take as much time as there is
        compared = [config_key(config) for config in (rule.default, rule.record) if config is not None]
        right = [place for place, final in enumerate(finals.candidates) if final.failure is None]
        lasting = [place for place in right if place in contenders or config_key(trials[place].config) in compared]
        for number in range(1, self._sittings):
            some = [trials[place] for place in lasting]
            is_over = number >= FEWEST_PROCESSES and time.monotonic() - began > MORE_SECONDS
            if is_over or _is_settled(some, [finals.candidates[place] for place in lasting], rule):
                return finals
            self._worker.close()
            finals = finals.and_later(self._measured(some, LATER), lasting)
            if any(finals.candidates[place].failure is not None for place in lasting):
                return self._without_failed(trials, finals, rule)
        return finals

    def _without_failed(self, trials: Sequence[Trial], finals: Finals, rule: TieRule) -> Finals:
        """Finals in which those that have not failed are measured anew: what failed may have kept others out of later
        processes."""
        right = [place for place, final in enumerate(finals.candidates) if final.failure is None]
        if not right:
            return finals
        anew = self.measured([trials[place] for place in right], rule)
        candidates = dict(enumerate(finals.candidates)) | dict(zip(right, anew.candidates, strict=True))
        return replace(anew, candidates=[*candidates.values()])

    def _measured(self, trials: Sequence[Trial], share: float) -> Finals:
        """The Finals of the trials in one process, in this share of the rounds."""
        most_rounds = int(MAX_ROUNDS * share)

        def measure(configs: Sequence[Config], **how: Any) -> Finals:
            self._worker.renew()  # before what is left of the time is shared out
            seconds = max(min(self._seconds * share, self._share()), LEAST_SECONDS)
            return self._finals(configs, seconds=seconds, most_rounds=most_rounds, **how)

        try:
            finals = self._of(trials, measure)
        except (WorkerDied, TrialError, EnvironmentTrouble):  # measuring each alone shows which one was the cause
            finals = Finals.joined([self._measured_alone(trial, measure) for trial in trials])
        if len(trials) > 1:
            parts = [
                self._measured_alone(trial, measure)
                if lacked_room(final.failure)
                else replace(finals, candidates=[final])
                for trial, final in zip(trials, finals.candidates, strict=True)
            ]
            finals = Finals.joined(parts)
        judged = [
            replace(final, failure=self._judged(trial, final.failure))
            for trial, final in zip(trials, finals.candidates, strict=True)
        ]
        for trial, final in zip(trials, judged, strict=True):
            self._note_bits(trial, final.bits)
        return replace(finals, candidates=judged)

    def verified(self, trials: Sequence[Trial]) -> list[str | None]:
        """Verify trials without timing them, and return why each failed; None if it is right.

        Raises as `measured` does.
        """
        try:
            found = self._of(trials, self._worker.verify)
        except (WorkerDied, TrialError, EnvironmentTrouble):
            alone = [self._alone(trial, self._worker.verify) for trial in trials]
            found = [Verified(failure) if isinstance(failure, str) else failure[0] for failure in alone]
        for trial, verified in zip(trials, found, strict=True):
            self._note_bits(trial, verified.bits)
        return [self._judged(trial, verified.failure) for trial, verified in zip(trials, found, strict=True)]

    def repeated(self, trial: Trial, runs: int, seconds: float | None) -> int | None:
        """How many runs of a trial were compared; None if it failed. `runs` and `seconds` are those of `Bench.repeat`;
        there are fewer runs where too little time is left, unless `seconds` is None.

        Raises as `measured` does.
        """

        def repeat(configs: Sequence[Config], found_wrong: FoundWrong) -> Repeated:
            return self._worker.repeat(configs[0], runs, None if seconds is None else min(seconds, self._share()))

        repeated = self._alone(trial, repeat)
        failure = repeated if isinstance(repeated, str) else repeated.failure
        if self._judged(trial, failure) is not None or isinstance(repeated, str):
            return None
        self._note_bits(trial, repeated.bits)
        return repeated.runs

    def searched_again(self, trials: Sequence[Trial]) -> list[Trial]:
        """New trials of these configurations, which replace those in the ledger.

        They are measured one by one, as a search does it, but with the inputs of the finals, which the worker has.
        Raises as `measured` does.
        """
        return [self._searched_again(trial) for trial in trials]

    def look_again(self, trials: Sequence[Trial]) -> None:
        """Measure trials again in the same way. In the ledger, a new one replaces the old one unless it is slower.

        Raises as `measured` does.
        """
        for trial in trials:
            self._searched_again(trial, unless_slower=True)

    def _searched_again(self, trial: Trial, unless_slower: bool = False) -> Trial:
        task = self._worker.task
        best_ms = math.inf if task.method.races else None
        measure = functools.partial(self._worker.measure, trial.config, best_ms)
        try:
            outcome = with_retries(measure, self._noted)
        except (WorkerDied, TrialError, EnvironmentTrouble) as error:
            own_failure(error)  # raises trouble of the machine
            outcome = Outcome(failure=error.reason, log=str(error))
        outcome = replace(outcome, bits=bit_classes.joined([trial.outcome.bits, outcome.bits]))
        again = Trial.of(trial.config, outcome, task.method, task.timeout, trial.given)
        if unless_slower and outcome.failure is None and again.values >= trial.values:
            return trial
        (self._ledger.set_aside if outcome.failure in PERHAPS_ITS_OWN else self._ledger.revise)(again)
        return again

    def bits_of(self, trial: Trial) -> dict[str, str]:
        """The digests of a trial's outputs in its search and in this round."""
        return bit_classes.joined([trial.outcome.bits, self.bits.get(config_key(trial.config), {})])

    def _note_bits(self, trial: Trial, bits: Bits) -> None:
        """Note the bits of a trial that was right; the ledger learns that they vary, which a search may miss."""
        key = config_key(trial.config)
        if not bits or key in self._failures:
            return
        did_vary = bit_classes.do_vary(self.bits_of(trial))
        self.bits[key] = bit_classes.joined([self.bits.get(key, {}), bits])
        if not did_vary and bit_classes.do_vary(found := self.bits_of(trial)):
            self._ledger.revise(replace(trial, outcome=replace(trial.outcome, bits=found)))

    def _of(self, trials: Sequence[Trial], measure: Callable[..., T]) -> T:
        """Call `measure` with the configurations of the trials, with retries."""

        def found_wrong(position: int, failure: str) -> None:
            self._judged(trials[position], failure)

        configs = [trial.config for trial in trials]
        return with_retries(functools.partial(measure, configs, found_wrong=found_wrong), self._noted)

    def _measured_alone(self, trial: Trial, measure: Callable[..., Finals]) -> Finals:
        finals = self._alone(trial, functools.partial(measure, with_library=False))
        return Finals([Final(failure=finals)]) if isinstance(finals, str) else finals

    def _alone(self, trial: Trial, measure: Callable[..., T]) -> T | str:
        """Call `measure` with one trial. Returns why it failed, if the configuration may be the cause."""
        try:
            return self._of([trial], measure)
        except (WorkerDied, TrialError, EnvironmentTrouble) as error:
            return own_failure(error)

    def _judged(self, trial: Trial, failure: str | None) -> str | None:
        """Why a trial failed, now or earlier in this round; None if it did not.

        The ledger's trial becomes a failed one, but only in this process if the machine may be the cause.
        """
        key = config_key(trial.config)
        if failure is not None and key not in self._failures:
            self._failures[key] = failure
            failed = replace(trial, values=(), outcome=Outcome(failure=FINALS, log=failure))
            is_doubtful = failure.partition(":")[0] in PERHAPS_ITS_OWN
            (self._ledger.set_aside if is_doubtful else self._ledger.revise)(failed)
        return self._failures.get(key)


def _contenders(candidates: Sequence[Final]) -> set[int]:
    """The places of those that may be tied with the fastest in a process other than this one. It is among them."""
    right = {place: final for place, final in enumerate(candidates) if final.failure is None}
    if not right:
        return set()
    fastest = min(right.values(), key=lambda final: final.time_ms)
    ratios = {place: verdicts.ratio(fastest.times, final.times) for place, final in right.items()}
    return {
        place for place, ratio in ratios.items() if ratio.low <= 1 + OPEN or verdicts.is_tied(ratio, fastest.time_ms)
    }


def _is_settled(trials: Sequence[Trial], finals: Sequence[Final], rule: TieRule) -> bool:
    """Whether it is certain which of the trials that are tied with the fastest the rule prefers."""
    ranked = sorted((rule.rank(trial), place) for place, trial in enumerate(trials))
    by_preference = [finals[place] for _, place in ranked]
    if len(by_preference) < 2:
        return True
    processes = Processes.of(by_preference)
    of_record = next((final for trial, final in zip(trials, finals, strict=True) if rule.is_of_record(trial)), None)
    return processes.count >= FEWEST_PROCESSES and processes.is_settled(by_preference, of_record)
