"""All trials of a problem, gathered from ledgers, recordings or records."""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tuner import devices, paths, quoting
from tuner.catalog import kernel_names
from tuner.classes import dataclass
from tuner.devices.conditions import DEFAULT, Conditions
from tuner.errors import RequestError
from tuner.exchange.exports.target import Problem, TargetDevice, stored_devices
from tuner.measure.method import peculiarity
from tuner.space import identity
from tuner.space.deployments import of_caches
from tuner.space.model import Space
from tuner.space.sources.rendering import Version
from tuner.store.record import Record
from tuner.store.store import Store
from tuner.tuning.ledger import address, journal, storage
from tuner.tuning.ledger.study import StoredStudy, stored_studies
from tuner.tuning.ledger.trial import Trial
from tuner.tuning.recordings import logs
from tuner.tuning.recordings import recording as recordings
from tuner.tuning.recordings.recording import Entry, Recording, Row


@dataclass(frozen=True)
class Trials:
    """Trials of one problem on one device.

    origin: `ledger`, `recording` or `record`.
    toolchain, kind, architecture: of the device; empty if unknown.
    peculiar: how the method differs from tuning for time with warm caches; empty if it does not.
    protocol: the version of the measurement protocol.
    commands: the `tune` commands that wrote the ledger, the latest last.
    logs: the logs of failed trials.
    given: the end (UTC) of each trial that a report or a list of configurations asked for, not a search.
    conditions: those of all trials; the defaults if unknown.
    """

    recording: Recording
    origin: str
    toolchain: str = ""
    kind: str = ""
    architecture: str = ""
    peculiar: str = ""
    protocol: int = 1
    commands: tuple[str, ...] = ()
    logs: Mapping[Row, str] = field(default_factory=dict)
    given: Mapping[Row, datetime] = field(default_factory=dict)
    conditions: Conditions = DEFAULT

    def about(self, problem: Problem) -> dict[str, Any]:
        """The header members of a file of these trials, which are of `problem`."""
        circumstances = problem.types, problem.options, self.conditions, self.recording.is_unverified
        return recordings.about_problem(problem.space, *circumstances)

    def with_more(self, space: Space, recording: Recording, trials: Sequence[Trial]) -> "Trials":
        """These trials and more of the same problem: `trials` of a ledger, whose results are in `recording`."""
        return replace(
            self,
            recording=replace(self.recording, entries={**self.recording.entries, **recording.entries}),
            logs={**self.logs, **_logs(space, trials)},
            given={**self.given, **_given(space, trials)},
        )


def gather(problem: Problem, device: str | None, url: str | None) -> Trials:
    """The trials in a ledger of this version of the kernel, else in a recording, else in a record; with `url`, only in
    that ledger.

    Among several: those under the conditions of `device`, then those tuned for time with warm caches, then those of the
    latest protocol, then the most trials. `device` is a device of this machine with its conditions, or part of a name,
    with the default conditions. Raises RequestError if there are no trials.
    """
    kind, conditions = "", DEFAULT
    if device is not None and devices.is_name(device):
        local = TargetDevice.local(problem.space, device)
        device, kind, conditions = local.name, local.kind, local.conditions
    origins = (_ledgers(problem, url),) if url else (_ledgers(problem), _recordings(problem), _records(problem))
    for origin in origins:
        matches = [t for t in origin if device is None or device.casefold() in t.recording.device.casefold()]
        candidates = [with_device(problem, trials) for trials in matches]
        candidates = [trials for trials in candidates if not kind or trials.kind in ("", kind)]
        if candidates:
            # reversed: among equals, the latest
            return max(
                reversed(candidates),
                key=lambda t: (t.conditions == conditions, not t.peculiar, t.protocol, len(t.recording.entries)),
            )
    where = f" on {quoting.shown(device)}" if device is not None else ""
    subject = f"{problem.space.name} at {problem.text}{where}"
    if url:
        raise RequestError(
            f"--storage {address.masked(url)}: has no trials of {subject}; name another ledger, or leave it out"
        )
    raise RequestError(f"{subject}: nothing has been measured; tune it first, or name another --device")


def of_recording(recording: Recording) -> Trials:
    """The trials of a recording, whose file says under which conditions they were measured."""
    conditions = recording.about.get("conditions")
    return Trials(
        recording, "recording", conditions=Conditions(conditions) if isinstance(conditions, dict) else DEFAULT
    )


def with_device(problem: Problem, trials: Trials) -> Trials:
    """`trials` with the device's kind and architecture, as far as the toolchain and the store determine them."""
    usable = devices.kinds_of(problem.space)
    matches = [kind for kind in usable if trials.toolchain.startswith(devices.BACKENDS[kind].toolchains)]
    kind = trials.kind or next(iter(matches), usable[0] if len(usable) == 1 else "")
    same = [d for d in stored_devices(problem) if d.name == trials.recording.device and kind in ("", d.kind)]
    kinds = {d.kind for d in same} or {kind}
    if len(kinds) > 1:  # a GPU may have the same name in CUDA and in OpenCL
        return trials
    architecture = trials.architecture or next((d.architecture for d in same), "")
    return replace(trials, kind=kinds.pop(), architecture=architecture)


def _ledgers(problem: Problem, url: str | None = None) -> Iterator[Trials]:
    space = problem.space
    for study in studies(problem, url):
        trials = sorted(study.trials, key=_finished)
        problem_of_study = problem.sizes, study.types, problem.options, study.device
        recording = recordings.of_trials(space, *problem_of_study, trials, study.conditions)
        logs, given = _logs(space, trials), _given(space, trials)
        peculiar, protocol = study.peculiar, study.protocol
        method = peculiar, protocol, study.commands
        yield Trials(recording, "ledger", study.toolchain, "", "", *method, logs, given, study.conditions)


def latest_study(problem: Problem, device: str | None, url: str | None) -> StoredStudy:
    """The study with the latest finished trial, its trials in the order in which they finished.

    `device` is a device of this machine, or part of a name; `url` a shared ledger. Raises RequestError if there is no
    such study.
    """
    if device is not None and devices.is_name(device):
        device = TargetDevice.local(problem.space, device).name
    matches = [s for s in studies(problem, url) if device is None or device.casefold() in s.device.casefold()]
    if not matches:
        where = f" on {quoting.shown(device)}" if device is not None else ""
        subject = f"{problem.space.name} at {problem.text}{where}"
        raise RequestError(
            f"{subject}: no ledger has trials of this version of the kernel; tune it first, or name another size, "
            "--device, --set, --type or --storage"
        )
    ordered = [replace(study, trials=sorted(study.trials, key=_finished)) for study in matches]
    return max(ordered, key=lambda study: _finished(study.trials[-1]))


def _finished(trial: Trial) -> datetime:
    return trial.finished or datetime.min


def studies(problem: Problem, url: str | None = None) -> Iterator[StoredStudy]:
    """The studies of this problem and version of the kernel that have trials: those at `url`, else those of this
    machine, the oldest first. Raises RequestError if a ledger cannot be read."""
    space, signature = problem.space, identity.of(problem.space)
    places: list[str] | list[Path]
    if url:
        _check_exists(url)
        places = [url]
    else:
        folders = [paths.state() / "studies" / name for name in (space.name, *kernel_names.other_names(space))]
        logs = dict.fromkeys(log.resolve() for folder in folders for log in folder.glob("*.log"))
        places = sorted(logs, key=lambda path: path.stat().st_mtime)
    for place in places:
        try:
            ledger = storage.at(place) if isinstance(place, str) else journal.read(place)
            for study in stored_studies(ledger, space, problem.sizes, problem.options):
                if study.signature == signature and study.types == problem.types and study.trials:
                    yield study
        except (LookupError, TypeError, ValueError, AssertionError, AttributeError):
            continue  # damaged; the next tuning repairs it
        except storage.errors() as error:
            shown = address.masked(str(place))
            raise RequestError(f"{shown}: the ledger cannot be read: {storage.reason(error, str(place))}") from None


def _logs(space: Space, trials: Iterable[Trial]) -> dict[Row, str]:
    """The logs of failed trials by configuration."""
    return {tuple(t.config[name] for name in space.parameters): t.outcome.log for t in trials if t.outcome.log}


def _given(space: Space, trials: Iterable[Trial]) -> dict[Row, datetime]:
    """The end (UTC) of each finished trial that no search asked for."""
    return {
        tuple(trial.config[name] for name in space.parameters): trial.finished.astimezone(UTC)
        for trial in trials
        if trial.given and trial.finished is not None
    }


def _check_exists(url: str) -> None:
    """Raise RequestError for a database without studies: Optuna would create their tables in it."""
    if url.partition(":")[0].partition("+")[0] not in address.DATABASES:
        return
    import sqlalchemy

    where = f"--storage {address.masked(url)}"
    try:
        file = sqlalchemy.make_url(url).database if url.startswith("sqlite") else None
        if file and not os.path.exists(file):
            raise RequestError(f"{where}: there is no such file; name one that tuning has written, or leave it out")
        engine = sqlalchemy.create_engine(url)
        try:
            has_studies = sqlalchemy.inspect(engine).has_table("studies")
        finally:
            engine.dispose()
    except (ImportError, ValueError, sqlalchemy.exc.ArgumentError):
        return  # storage.at reports it
    except sqlalchemy.exc.SQLAlchemyError as error:
        raise RequestError(f"{where}: the ledger cannot be read: {storage.reason(error, url)}") from None
    if not has_studies:
        raise RequestError(f"{where}: holds no trials; name a database that tuning has written, or leave it out")


def _recordings(problem: Problem) -> Iterator[Trials]:
    stem, names = problem.space.name.rpartition("/")[2], (problem.space.name, kernel_names.former_name(problem.space))
    roots = dict.fromkeys((problem.results or paths.user_results(), paths.shipped("results")))
    code = Version.of(problem.space).code
    for path in (path for root in roots for path in recordings.files(root / logs.FOLDER, f"{stem}-")):
        if logs.is_of_other_code(path, code):
            continue
        recording = recordings.read(path)
        options = {**problem.space.operation.options, **recording.options}
        about = recording.size, recording.about.get("types", {}), options
        if recording.kernel in names and about == (dict(problem.sizes), problem.types, dict(problem.options)):
            yield of_recording(recording)


def _records(problem: Problem) -> Iterator[Trials]:
    version = Version.of(problem.space)
    for record in Store.of(problem.space, problem.results).records:
        about = record.sizes, record.types, record.options
        is_of = about == (dict(problem.sizes), problem.types, dict(problem.options)) and not record.same_bits_as
        if is_of and record.is_of(version):
            recording = _of_record(problem, record)
            device = record.toolchain, record.kind, record.architecture
            peculiar = peculiarity(of_caches(record.caches), record.objective)
            conditions = Conditions(record.conditions)
            yield Trials(recording, "record", *device, peculiar, record.protocol, conditions=conditions)


def _of_record(problem: Problem, record: Record) -> Recording:
    """The record's best configuration and its runners-up."""
    parameters = problem.space.parameters
    entries: dict[Row, Entry] = {}
    for config, time_ms in record.timed:
        if config.keys() == parameters.keys():
            entries.setdefault(tuple(config[name] for name in parameters), Entry(time_ms))
    circumstances = problem.types, problem.options, Conditions(record.conditions), record.verified == "none"
    about = recordings.about_problem(problem.space, *circumstances)
    return Recording(problem.space.name, record.device, parameters, entries, dict(record.sizes), about)
