"""Select the finalists of a search, and the runners-up of its record."""

from __future__ import annotations

import functools
import logging
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any

from tuner.classes import dataclass
from tuner.measure.method import COMPARED_RUNS, COMPARED_SECONDS
from tuner.measure.results import Finals
from tuner.measure.timing.clock import QUICK_SECONDS
from tuner.space.config import ConfigKey, config_key
from tuner.space.texts import config_text
from tuner.store.record import RUNNERS_UP
from tuner.tuning.finals.code import Code
from tuner.tuning.finals.entrants import Entrants
from tuner.tuning.finals.final_round import FinalRound
from tuner.tuning.finals.finalist import Finalist
from tuner.tuning.finals.preference import NO_PREFERENCE, Preference
from tuner.tuning.finals.runners_up import GIVEN_RUNNERS_UP, among_finalists, next_best
from tuner.tuning.finals.ties import TIME, Settlement, settle
from tuner.tuning.ledger.trial import Trial

if TYPE_CHECKING:
    from tuner.measure.process.supervisor import Supervisor
    from tuner.search.pool import Pool
    from tuner.space.values.bit_classes import Bits
    from tuner.tuning.finals.ties import Tie
    from tuner.tuning.ledger.ledger import Ledger

logger = logging.getLogger(__name__)
MISLED = 0.1  # a search time that was this much too short may have kept better configurations out of the finals
MOST_ROUNDS = 3  # of finals after a search that was misled


@dataclass(frozen=True)
class Selection:
    """The finalists, the winner first, the Finals of their round, and the runners-up as a record stores them.

    `compared` is the number of runs of the best whose outputs were compared one after the other. `ties` are the
    finalists that noise does not separate from the fastest, and the finalists with the same code as one of these;
    `decided_by` says what decided between them, and is empty where no rule applies. `bits` has the digests of outputs
    in this round and in the search, by configuration.
    """

    finalists: list[Finalist]
    finals: Finals
    next_best: list[dict[str, Any]] = field(default_factory=list)
    compared: int = 0
    ties: list[Tie] = field(default_factory=list)
    decided_by: str = TIME
    bits: Mapping[ConfigKey, Bits] = field(default_factory=dict)


@dataclass(frozen=True)
class FinalsPlan:
    """How the finals are held.

    If `among` is given, only its configurations can be finalists. If not, `quick` finals leave out what was RACE times
    slower than the best in the search, take the runners-up from the finalists, and do not measure finalists again as in
    the search. If `others` is given, its configurations can be runners-up. `sustained` and `quick` are those of
    `Bench.finals`, and `until` is that of `FinalRound`. `runs` is how many runs of the winner are compared, if that is
    given. `preference` has the configuration of the existing record, and the one whose bits the user asks for.
    """

    among: Pool | None = None
    others: Pool | None = None
    sustained: float | None = None
    quick: bool = False
    runs: int | None = None
    preference: Preference = NO_PREFERENCE
    until: float = math.inf

    @property
    def is_short(self) -> bool:
        """Whether only rivals of the best take part, once each."""
        return self.quick and self.among is None


def select(
    worker: Supervisor, ledger: Ledger, announce: Callable[[int], None], noted: Callable[[str], None], plan: FinalsPlan
) -> Selection:
    """Measure the best trials again, interleaved with the space's default and the vendor library, and choose the best.

    With several objectives, the non-dominated trials are measured. A trial that fails, or kills the worker, becomes a
    failed trial. If all trials fail, the next best ones are measured. With several objectives, any failure repeats the
    finals, because the failed trial may have dominated others. The finals are also repeated, with other trials, if the
    search was misled (see `_Selecting._again`).

    Of the finalists that noise does not separate from the fastest, one is chosen by rule (see `TieRule`), and many runs
    of it are compared (see `_Selecting._repeated`).

    `announce` is called with the number of trials about to be measured, `noted` with messages for the user. Raises
    EnvironmentTrouble if the machine stays in trouble, and RequestError if nothing has the bits asked for.
    """
    selecting = _Selecting(worker, ledger, noted, plan)
    selecting.entrants.look_again()
    while ranked := selecting.entrants.ranked():
        announce(len(ranked))
        if (selection := selecting.round(ranked)) is not None:
            return selection
    return Selection([], Finals())


class _Selecting:
    """The rounds of the finals, until one of them ends with a winner."""

    def __init__(self, worker: Supervisor, ledger: Ledger, noted: Callable[[str], None], plan: FinalsPlan) -> None:
        self._worker, self._noted, self._plan = worker, noted, plan
        self._objectives = worker.task.method.objectives
        self._final_round = FinalRound(worker, ledger, noted, plan.sustained, plan.quick, plan.until)
        self.entrants = Entrants(worker, ledger, self._final_round, plan.among, plan.preference, plan.is_short)
        self._code, self._rounds = Code(worker), 0
        self._earlier: dict[ConfigKey, Trial] = {}  # the original search trials of finalists that were measured again

    def round(self, ranked: list[Trial]) -> Selection | None:
        """The selection after a round of these trials; None if another round has to follow."""
        if self._plan.sustained is not None:
            self._noted("then running the best, and the vendor library if there is one, back to back for some seconds")
        trials = ranked + self.entrants.beside(ranked)
        finals = self._final_round.measured(trials, self.entrants.rule)
        self.entrants.prepare(trials)
        self._rounds += 1
        finalists = _finalists(trials, finals)
        if not self._plan.is_short and not self._final_round.is_late:
            known = set(self._earlier)
            finalists = self._again(finalists)
            if self._was_misled([each for each in finalists if config_key(each.trial.config) not in known], finalists):
                self._noted("the search's times were wrong; comparing the best again")
                return None
        admitted = [each for each in finalists if each.final.failure is None and self.entrants.admits(each.trial)]
        survivors = sum(finalist in admitted for finalist in finalists[: len(ranked)])
        is_single, is_led = len(self._objectives) == 1, not _has_lost_contenders(finalists, admitted)
        if survivors < len(ranked) and not (survivors and is_single and is_led):
            return None
        best_first = sorted(admitted, key=lambda each: (-len(each.final.by_process), each.values(self._objectives)))
        may_follow = is_single and self._plan.sustained is None and is_led
        settled, compared = self._repeated(best_first, may_follow)
        if compared is None or not self.entrants.admits(settled.order[0].trial):
            return None  # many runs may show that its bits vary
        return self._selection(settled, finals, compared)

    def _selection(self, settled: Settlement, finals: Finals, compared: int) -> Selection:
        """The selection, with the runners-up that are still to be verified."""
        plan, task = self._plan, self._worker.task
        if plan.is_short:
            runners = among_finalists(settled.order)
        else:
            best = functools.partial(self.entrants.best, plan.others or plan.among)
            most = RUNNERS_UP if plan.others is None else GIVEN_RUNNERS_UP
            runners = next_best(self._final_round, task.space, self._worker.scope, settled.order, best, most)
        trials = [*(finalist.trial for finalist in settled.order), *self.entrants.best()]
        bits = {config_key(trial.config): self._final_round.bits_of(trial) for trial in trials}
        return Selection(settled.order, finals, runners, compared, settled.ties, settled.decided_by, bits)

    def _again(self, finalists: Sequence[Finalist]) -> list[Finalist]:
        """The finalists, after measuring again those whose time has changed by more than its spread.

        They are measured as in the search, and only once each; the new trials replace the old ones in the ledger. A
        finalist that fails when it is measured again has failed.
        """
        earlier, keys = self._earlier, [config_key(finalist.trial.config) for finalist in finalists]
        changed = [
            finalist
            for key, finalist in zip(keys, finalists, strict=True)
            if key not in earlier and finalist.final.failure is None and finalist.has_changed and not finalist.is_spread
        ]
        if changed:
            self._noted(
                f"measuring {len(changed)} of the best once more as in the search, because their times there differed"
            )
        later = self._final_round.searched_again([finalist.trial for finalist in changed])
        earlier.update({config_key(finalist.trial.config): finalist.trial for finalist in changed})
        trials = {config_key(trial.config): trial for trial in later}
        again = [
            replace(finalist, trial=trials.get(key, finalist.trial), earlier=earlier.get(key))
            for key, finalist in zip(keys, finalists, strict=True)
        ]
        return [
            replace(each, final=replace(each.final, failure=failure))
            if each.final.failure is None and (failure := each.trial.outcome.failure) is not None
            else each
            for each in again
        ]

    def _was_misled(self, new: Sequence[Finalist], finalists: Sequence[Finalist]) -> bool:
        """Whether the search's times of `new` finalists were far too good, and kept a better trial out of the finals.
        False after MOST_ROUNDS."""
        if self._rounds >= MOST_ROUNDS or self._final_round.is_late:
            return False
        return any(map(_was_too_good, new)) and _has_better(finalists, self.entrants.ranked())

    def _repeated(self, best_first: list[Finalist], may_follow: bool) -> tuple[Settlement, int | None]:
        """Settle the finals by the rule, and compare many runs of the winner: COMPARED_RUNS, or those of
        COMPARED_SECONDS; if a number of runs is given, that many, however long they take.

        Returns the settlement and the number of compared runs, which is 0 without a reference. If `may_follow`, another
        finalist takes the place of a winner that fails. The number is None if the finals must be repeated: no finalist
        is left, or the winner failed and no other may follow.
        """
        plan = self._plan
        rule = self.entrants.rule if plan.sustained is None else None  # only the fastest has run back to back
        seconds = None if plan.runs is not None else QUICK_SECONDS if plan.quick else COMPARED_SECONDS
        while best_first:
            settled = settle(best_first, rule, self._objectives, self._code.is_same)
            if self._worker.task.space.operation.reference.kind == "none":
                return settled, 0
            winner = settled.order[0]
            compared = self._final_round.repeated(winner.trial, plan.runs or COMPARED_RUNS, seconds)
            if compared is not None:
                return settled, compared
            best_first = [finalist for finalist in best_first if finalist is not winner]
            if not may_follow:
                break
        return Settlement(best_first), None


def _finalists(trials: Sequence[Trial], finals: Finals) -> list[Finalist]:
    """The trials with their results, which are logged."""
    finalists = [Finalist(trial, final) for trial, final in zip(trials, finals.candidates, strict=True)]
    for finalist in finalists:
        result = finalist.final.failure or f"{finalist.final.time_ms:.4g} ms in {len(finalist.final.times)} rounds"
        logger.debug("finals: %s: %s", result, config_text(finalist.trial.config))
    return finalists


def _has_lost_contenders(finalists: Sequence[Finalist], admitted: Sequence[Finalist]) -> bool:
    """Whether one that took part in all processes is not admitted, but others that did not, because of it, are."""
    counts = [len(each.final.by_process) for each in admitted]
    lasting = [each for each in finalists if len(each.final.by_process) == max(counts, default=0)]
    return len({*counts}) > 1 and any(each not in admitted for each in lasting)


def _was_too_good(finalist: Finalist) -> bool:
    """Whether the search's time of a finalist was far better than its time when it was measured again."""
    again = finalist.trial.time_ms
    if finalist.earlier is None or again is None:
        return False
    return again > (1 + MISLED) * (finalist.earlier.time_ms or 0.0)


def _has_better(finalists: Sequence[Finalist], ranked: Sequence[Trial]) -> bool:
    """Whether a trial that was not in the finals is better than the best finalist."""
    present = {config_key(finalist.trial.config) for finalist in finalists}
    best = min((f.final.time_ms for f in finalists if f.final.failure is None), default=math.inf)
    return any(config_key(trial.config) not in present and (trial.time_ms or 0.0) < best for trial in ranked)
