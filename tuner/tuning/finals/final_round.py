"""The final round: trials measured or verified once more, and what becomes of those that fail.

They are measured together. Where one takes the worker down, or finds no room beside the scratch of others, each is
measured alone, in the same way, but without the vendor's library.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from tuner.devices.environment import PERHAPS_ITS_OWN
from tuner.errors import EnvironmentTrouble, TrialError, WorkerDied
from tuner.measure.process.attempts import with_retries
from tuner.measure.results import FINALS, Final, Finals, Outcome
from tuner.space.config import ConfigKey, config_key
from tuner.tuning.ledger.trial import Trial

if TYPE_CHECKING:
    from tuner.measure.process.supervisor import Supervisor
    from tuner.tuning.ledger.ledger import Ledger

T = TypeVar("T")
NO_ROOM = "out of memory"  # the reason of a failure


class FinalRound:
    """Measures and verifies trials of a ledger once more. A trial that fails becomes a failed one there; one whose
    result is wrong does so at once, so that an interrupt does not lose it."""

    def __init__(
        self,
        worker: Supervisor,
        ledger: Ledger,
        noted: Callable[[str], None],
        sustained: float | None = None,
        quick: bool = False,
    ) -> None:
        """`sustained` and `quick` are as `Bench.finals` says; `noted` is called with messages for the user."""
        self._worker, self._ledger, self._noted = worker, ledger, noted
        self._finals = functools.partial(worker.finals, sustained=sustained, quick=quick)
        self._failures: dict[ConfigKey, str] = {}

    def measured(self, trials: Sequence[Trial]) -> Finals:
        """The Finals of the trials. Raises EnvironmentTrouble where only the machine can be to blame for a failure."""
        try:
            finals = self._of(trials, self._finals)
        except (WorkerDied, TrialError, EnvironmentTrouble):  # measured one by one, each shows whether it was the cause
            finals = Finals.joined([self._measured_alone(trial) for trial in trials])
        if len(trials) > 1:
            parts = [
                self._measured_alone(trial) if _lacked_room(final) else replace(finals, candidates=[final])
                for trial, final in zip(trials, finals.candidates, strict=True)
            ]
            finals = Finals.joined(parts)
        judged = [
            replace(final, failure=self._judged(trial, final.failure))
            for trial, final in zip(trials, finals.candidates, strict=True)
        ]
        return replace(finals, candidates=judged)

    def verified(self, trials: Sequence[Trial]) -> list[str | None]:
        """Of each trial why it failed when it was verified, and not timed; None where it is right. Raises as `measured`
        does."""
        try:
            found = self._of(trials, self._worker.verify)
        except (WorkerDied, TrialError, EnvironmentTrouble):
            alone = [self._alone(trial, self._worker.verify) for trial in trials]
            found = [failure if isinstance(failure, str) else failure[0] for failure in alone]
        return [self._judged(trial, failure) for trial, failure in zip(trials, found, strict=True)]

    def _of(self, trials: Sequence[Trial], measure: Callable[..., T]) -> T:
        """What `measure` gives for the configurations of the trials."""

        def found_wrong(position: int, failure: str) -> None:
            self._judged(trials[position], failure)

        configs = [trial.config for trial in trials]
        return with_retries(functools.partial(measure, configs, found_wrong=found_wrong), self._noted, time.sleep)

    def _measured_alone(self, trial: Trial) -> Finals:
        finals = self._alone(trial, functools.partial(self._finals, with_library=False))
        return Finals([Final(failure=finals)]) if isinstance(finals, str) else finals

    def _alone(self, trial: Trial, measure: Callable[..., T]) -> T | str:
        """What `measure` gives for one trial; why it failed, where that may be the configuration's fault."""
        try:
            return self._of([trial], measure)
        except (WorkerDied, TrialError, EnvironmentTrouble) as error:
            if isinstance(error, EnvironmentTrouble) and error.reason not in PERHAPS_ITS_OWN:
                raise
            return f"{error.reason}: {error}"

    def _judged(self, trial: Trial, failure: str | None) -> str | None:
        """Why a trial has failed, now or earlier in this round. It becomes a failed one, for this process alone where
        that may be the machine's fault."""
        key = config_key(trial.config)
        if failure is not None and key not in self._failures:
            self._failures[key] = failure
            failed = replace(trial, values=(), outcome=Outcome(failure=FINALS, log=failure))
            is_doubtful = failure.partition(":")[0] in PERHAPS_ITS_OWN
            (self._ledger.set_aside if is_doubtful else self._ledger.revise)(failed)
        return self._failures.get(key)


def _lacked_room(final: Final) -> bool:
    """Whether it failed beside the scratch of others, and may not alone."""
    return final.failure is not None and final.failure.partition(":")[0] == NO_ROOM
