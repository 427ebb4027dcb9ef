"""Measurement of configurations that a report lacks: verified, timed and added to the ledger as trials."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING

from tuner.classes import dataclass
from tuner.errors import RequestError
from tuner.measure.process.task import Task
from tuner.report import landscape
from tuner.search.budget import UNLIMITED
from tuner.store.store import Store
from tuner.tuning.crew.crews import Crews
from tuner.tuning.exploration import explored
from tuner.tuning.finals.entrants import is_too_slow
from tuner.tuning.finals.final_round import FinalRound
from tuner.tuning.finals.ties import TieRule
from tuner.tuning.recordings import recording as recordings
from tuner.tuning.request import CheckedRequest, TuningRequest

if TYPE_CHECKING:
    from tuner.devices import DeviceInfo
    from tuner.measure.results import Final
    from tuner.report.subject import Subject
    from tuner.tuning.ledger.trial import Trial
    from tuner.tuning.progress import Progress
    from tuner.tuning.recordings.recording import Row


@dataclass(frozen=True)
class Remeasured:
    """A subject with added trials, and the device that measured them. `finals` has the results of the rows that were
    measured interleaved; `library` the vendor library's, if there is one."""

    subject: Subject
    device: DeviceInfo
    finals: dict[Row, Final] = field(default_factory=dict)
    library: Final | None = None


def neighbours(subject: Subject, storage: str | None, progress: Progress) -> Subject:
    """`subject` with trials of the neighbours of the best that had none. Raises RequestError as `measure` does."""
    missing = [neighbour.row for neighbour in landscape.neighbours(subject) if neighbour.is_missing]
    return measure(subject, missing, storage, progress).subject if missing else subject


def measure(
    subject: Subject,
    rows: Sequence[Row],
    storage: str | None,
    progress: Progress,
    interleaved: bool = False,
) -> Remeasured:
    """`subject` with trials of `rows`, which must be valid: the ledger's, or new ones.

    With `interleaved`, all of them that are not much slower than the best are then measured interleaved, as finalists
    are. Raises RequestError if the kernel is unknown, this machine lacks the device, or the trials were not tuned for
    time with warm caches.
    """
    problem = subject.problem
    if problem is None:
        raise RequestError(f"{subject.kernel}: unknown kernel, so it cannot be measured")
    space = problem.space
    if subject.local_device is None:
        raise RequestError(
            f"{subject.obstacle}, and times of different devices are not comparable; "
            "measure on a machine that has it, or select it with --device"
        )
    if subject.obstacle:
        raise RequestError(
            f"{subject.kernel}: {subject.obstacle}, and times under different conditions are not comparable; set the "
            f"same, or select the trials of this process with --device {subject.local_device.id}"
        )
    if subject.trials.peculiar:
        raise RequestError(
            f"{subject.kernel}: these trials are with {subject.trials.peculiar}, but reports measure only time with "
            "warm caches; tune it for that first"
        )
    name = subject.local_device.id
    request = TuningRequest(space.name, None, name, storage=storage, results=problem.results)
    task = Task(space, dict(problem.sizes), dict(problem.options), types=dict(problem.types))
    checked = CheckedRequest(request, task, [name], UNLIMITED, Store.of(space, problem.results))
    configs = [subject.config(row) for row in rows]
    with Crews(progress.noted) as crews, explored(crews, checked, progress, configs) as search:
        crew, trials = search.crew, search.trials
        more = recordings.of_trials(space, problem.sizes, problem.types, problem.options, crew.device.name, trials)
        known = subject.trials.with_more(space, more, trials)
        remeasured = Remeasured(
            replace(subject, trials=known, scope=crew.scope, local_device=crew.device, pinned=subject.best), crew.device
        )
        final_round = FinalRound(crew.lead, search.ledger, progress.noted)
        return _with_finals(final_round, remeasured, trials, progress) if interleaved else remeasured


def _with_finals(
    final_round: FinalRound, remeasured: Remeasured, trials: Sequence[Trial], progress: Progress
) -> Remeasured:
    """`remeasured` with the finals of the trials that are not much slower than the best: the fastest time of a search
    may be luck."""
    best_ms = remeasured.subject.times[remeasured.subject.best]
    likely = [trial for trial in trials if trial.time_ms is not None and not is_too_slow(trial.time_ms, best_ms)]
    progress.finals(len(likely))
    finals = final_round.measured(likely, TieRule())
    rows = [tuple(trial.config[name] for name in remeasured.subject.parameters) for trial in likely]
    good = {row: final for row, final in zip(rows, finals.candidates, strict=True) if final.failure is None}
    return replace(remeasured, finals=good, library=finals.library)
