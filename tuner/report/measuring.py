"""What a report lacks, measured on the device of its trials: verified, timed and written into the ledger."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from tuner.errors import RequestError
from tuner.exchange import recording as recordings
from tuner.measure.process.supervisor import Task
from tuner.report import landscape
from tuner.search.budget import UNLIMITED
from tuner.store.store import Store
from tuner.tuning.crew.crew import Crews
from tuner.tuning.exploration import explored
from tuner.tuning.finals.final_round import FinalRound
from tuner.tuning.finals.selection import is_too_slow
from tuner.tuning.request import CheckedRequest, TuningRequest

if TYPE_CHECKING:
    from tuner.devices import DeviceInfo
    from tuner.exchange.recording import Row
    from tuner.measure.results import Final
    from tuner.report.subject import Subject
    from tuner.tuning.exploration import Progress
    from tuner.tuning.ledger.trial import Trial


@dataclass(frozen=True)
class Remeasured:
    """A subject with more trials, the device that measured them, and the Finals of rows that were timed in turns, by
    row; the library's, where there is one."""

    subject: Subject
    device: DeviceInfo
    finals: dict[Row, Final] = field(default_factory=dict)
    library: Final | None = None


def neighbours(subject: Subject, storage: str | None, progress: Progress) -> Subject:
    """`subject` with the neighbours of the best that had no time. Raises RequestError as `measure` does."""
    missing = [neighbour.row for neighbour in landscape.neighbours(subject) if neighbour.is_missing]
    return measure(subject, missing, storage, progress).subject if missing else subject


def measure(
    subject: Subject,
    rows: Sequence[Row],
    storage: str | None,
    progress: Progress,
    in_turns: bool = False,
) -> Remeasured:
    """`subject` with trials of these valid rows: those of the ledger, or new ones. `in_turns`: then all of them that
    are not much slower than the best are timed in turns, as finalists are.

    Raises RequestError for a recording of an unknown kernel, where the device of the trials is not here, and where they
    are not of times with warm caches.
    """
    problem = subject.problem
    if problem is None:
        raise RequestError(f"{subject.kernel}: is not known here, so nothing can be measured")
    space = problem.space
    if subject.here is None:
        raise RequestError(
            f"{subject.recording.device} is not here, and times of different devices cannot be put together; "
            "measure where it is, or name it by --device"
        )
    if subject.trials.peculiar:
        raise RequestError(
            f"{subject.kernel}: these trials are with {subject.trials.peculiar}, and nothing is measured so for a "
            "report; tune it for time with warm caches first"
        )
    name = subject.here.id
    request = TuningRequest(space.name, None, name, storage=storage, results=problem.results)
    task = Task(space, dict(problem.sizes), dict(problem.options), types=dict(problem.types))
    checked = CheckedRequest(request, task, [name], UNLIMITED, Store.of(space, problem.results))
    configs = [subject.config(row) for row in rows]
    with Crews(progress.noted) as crews, explored(crews, checked, progress, configs) as search:
        crew, trials = search.crew, search.trials
        more = recordings.of_trials(space, problem.sizes, problem.types, problem.options, crew.device.name, trials)
        known = subject.trials.and_also(space, more, trials)
        found = Remeasured(
            replace(subject, trials=known, scope=crew.scope, here=crew.device, pinned=subject.best), crew.device
        )
        final_round = FinalRound(crew.lead, search.ledger, progress.noted)
        return _in_turns(final_round, found, trials, progress) if in_turns else found


def _in_turns(final_round: FinalRound, found: Remeasured, trials: Sequence[Trial], progress: Progress) -> Remeasured:
    """`found` with the finals of those trials that are not too slow beside the best: the least time of a search may be
    luck."""
    best_ms = found.subject.times[found.subject.best]
    likely = [trial for trial in trials if trial.time_ms is not None and not is_too_slow(trial.time_ms, best_ms)]
    progress.finals(len(likely))
    finals = final_round.measured(likely)
    rows = [tuple(trial.config[name] for name in found.subject.parameters) for trial in likely]
    good = {row: final for row, final in zip(rows, finals.candidates, strict=True) if final.failure is None}
    return replace(found, finals=good, library=finals.library)
