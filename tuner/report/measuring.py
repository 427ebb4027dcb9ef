"""What a report lacks, measured on the device of its trials: verified, timed and written into the ledger."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from tuner import devices
from tuner.errors import RequestError, TrialError, WorkerDied
from tuner.exchange import recording as recordings
from tuner.measure.process.supervisor import Task
from tuner.report import landscape
from tuner.search.pool import Pool
from tuner.search.strategies import Search
from tuner.space import identity
from tuner.tuning.crew import Crew
from tuner.tuning.ledger import Ledger
from tuner.tuning.selection import SLOWEST_DEFAULT
from tuner.tuning.study import StudyKey

if TYPE_CHECKING:
    from tuner.devices import DeviceInfo
    from tuner.exchange.recording import Row
    from tuner.measure.results import Final
    from tuner.report.subject import Subject
    from tuner.tuning.driver import Progress


@dataclass(frozen=True)
class Remeasured:
    """A subject with more trials, the device that measured them, and the Finals of rows that were timed in turns, by
    row; the library's, where there is one."""

    subject: Subject
    device: DeviceInfo
    finals: dict[Row, Final] = field(default_factory=dict)
    library: Final | None = None


def neighbours(subject: Subject, device: str | None, storage: str | None, progress: Progress) -> Subject:
    """`subject` with the neighbours of the best that had no time. Raises RequestError as `measure` does."""
    missing = [neighbour.row for neighbour in landscape.neighbours(subject) if neighbour.is_missing]
    return measure(subject, missing, device, storage, progress).subject if missing else subject


def measure(
    subject: Subject,
    rows: Sequence[Row],
    device: str | None,
    storage: str | None,
    progress: Progress,
    in_turns: bool = False,
) -> Remeasured:
    """`subject` with trials of these valid rows: those of the ledger, or new ones. `in_turns`: then all of them that
    are not much slower than the fastest are timed in turns, as finalists are.

    Raises RequestError for a recording of an unknown kernel, and where the device of the trials is not the one here.
    """
    problem = subject.problem
    if problem is None:
        raise RequestError(f"{subject.kernel}: is not known here, so nothing can be measured")
    space = problem.space
    task = Task(space, dict(problem.sizes), dict(problem.options), types=dict(problem.types))
    name = devices.for_space(space, device if device and devices.is_name(device) else subject.trials.kind or None)
    progress.begun(f"opening {name}")
    with Crew(task, [name], progress.noted) as crew:
        if crew.device.name != subject.recording.device:
            raise RequestError(
                f"{name} is {crew.device.name}, and the trials are of {subject.recording.device}: times of different "
                "devices cannot be put together; measure there"
            )
        key = StudyKey(
            task.sizes, task.options, crew.device.name, identity.of(space), crew.device.toolchain, task.method,
            types=task.types,
        )  # fmt: skip
        pool = Pool(space.parameters, rows)
        with Ledger(space, key, url=storage, say=progress.noted) as ledger, Search("brute_force", pool) as search:
            progress.started(space, crew.device, crew.scope, len(pool), 0, subject.ceilings)
            crew.run(search, ledger, progress)
            trials = [trial for trial in ledger.trials if pool.find(trial.config) is not None]
        more = recordings.of_trials(space, problem.sizes, problem.types, crew.device.name, trials)
        logs = {tuple(t.config[n] for n in space.parameters): t.outcome.log for t in trials if t.outcome.log}
        whole = replace(subject.recording, entries={**subject.recording.entries, **more.entries})
        known = replace(subject.trials, recording=whole, logs={**subject.trials.logs, **logs})
        found = Remeasured(
            replace(subject, trials=known, scope=crew.scope, here=crew.device, pinned=subject.best), crew.device
        )
        return _in_turns(crew, found, list(more.entries), progress) if in_turns else found


def _in_turns(crew: Crew, found: Remeasured, rows: Sequence[Row], progress: Progress) -> Remeasured:
    """`found` with the finals of those rows that are not much slower than the fastest."""
    times = {row: time_ms for row in rows if (time_ms := found.subject.times.get(row)) is not None}
    likely = [row for row, time_ms in times.items() if time_ms <= SLOWEST_DEFAULT * min(times.values())]
    progress.finals(len(likely))
    try:
        finals = crew.lead.finals([found.subject.config(row) for row in likely])
    except (TrialError, WorkerDied) as error:
        progress.noted(f"no times in turns: {error}")
        return found
    good = {row: final for row, final in zip(likely, finals.candidates, strict=True) if final.failure is None}
    return replace(found, finals=good, library=finals.library)
