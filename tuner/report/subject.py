"""The subject of a report: the trials of a problem on a device, with its record, device and ceilings."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from tuner import devices
from tuner.catalog import catalog
from tuner.classes import dataclass
from tuner.devices import DeviceInfo
from tuner.devices.ceilings import Ceilings
from tuner.devices.conditions import Conditions
from tuner.errors import ExpressionError, GeometryError, NoConfiguration, RequestError, SpaceError
from tuner.exchange.exports import trials as gathering
from tuner.exchange.exports.target import Problem
from tuner.exchange.exports.trials import Trials
from tuner.measure.method import peculiarity
from tuner.quoting import shown
from tuner.search import listing
from tuner.space.config import Config, Value
from tuner.space.default import declared_or_first
from tuner.space.deployments import of_caches
from tuner.space.instance import Instance
from tuner.space.model import Space
from tuner.space.parsing import problem_words
from tuner.space.scope import Scope
from tuner.space.sources import same_code
from tuner.space.sources.rendering import Version
from tuner.store.ceilings_file import StoredCeilings
from tuner.store.record import Record
from tuner.store.store import Store
from tuner.store.verdicts import Timing, of_median, of_times
from tuner.tuning.recordings import recording as recordings
from tuner.tuning.recordings.recording import Entry, Recording, Row


@dataclass(frozen=True)
class FinalTime:
    """What the finals say of a configuration: its time in ms, its spread, and whether it is tied with the best."""

    time_ms: float
    spread: float
    tied: bool


@dataclass(frozen=True)
class Subject:
    """The trials and their problem; `problem` and `scope` are None for a recording of a kernel that is unknown here.

    local_device: the device of the trials, if this machine has it.
    record: the store's record of this problem, device and version of the kernel, if there is one.
    ceilings: the device's ceilings, if they were measured.
    pinned: fixes the best, so that measurements for the report do not change it.
    """

    trials: Trials
    problem: Problem | None = None
    scope: Scope | None = None
    local_device: DeviceInfo | None = None
    record: Record | None = None
    ceilings: Ceilings | None = None
    pinned: Row | None = None

    @property
    def recording(self) -> Recording:
        return self.trials.recording

    @property
    def source(self) -> str:
        """The source of the trials' times: `search`, `recording` or `record`."""
        return "search" if self.trials.origin == "ledger" else self.trials.origin

    @property
    def parameters(self) -> Mapping[str, tuple[Value, ...]]:
        """The declared or measured values of each parameter."""
        return self.recording.parameters

    @property
    def space(self) -> Space | None:
        return self.problem.space if self.problem else None

    @property
    def obstacle(self) -> str:
        """Why this process cannot measure more of these trials; empty if it can."""
        if self.local_device is None:
            return f"this machine has no {self.recording.device}"
        difference = self.trials.conditions.instead_of(self.local_device.conditions)
        return difference and f"the trials were measured with {difference}"

    @functools.cached_property
    def times(self) -> dict[Row, float]:
        """The times in ms of the successful trials, in the order of the trials."""
        return {row: entry.time_ms for row, entry in self.recording.entries.items() if entry.time_ms is not None}

    @functools.cached_property
    def timings(self) -> dict[Row, Timing]:
        """The Timings of the successful trials."""
        return _timings(self.recording.entries)

    @functools.cached_property
    def best(self) -> Row:
        """The winner of the finals, if it is among the trials, else the fastest trial."""
        stored = self.pinned or (self.row(self.record.config) if self.record else None)
        return stored if stored in self.times and stored is not None else min(self.times, key=self.times.__getitem__)

    @functools.cached_property
    def default(self) -> Row | None:
        """The default configuration, to which gains are relative; None if the kernel has none, or is unknown."""
        if self.space is None or self.scope is None:
            return None
        try:
            return self.row(declared_or_first(self.space, self.scope))
        except NoConfiguration:
            return None

    @property
    def finals(self) -> Record | None:
        """The record, if its configuration is the best one."""
        return self.record if self.record and self.row(self.record.config) == self.best else None

    @functools.cached_property
    def finalists(self) -> dict[Row, FinalTime]:
        """The configurations of the finals, best first; empty if the finals chose another best, or if the record is of
        a version that stored only the best. Without a ledger, not all of them are among the trials."""
        stored = self.finals.finalists if self.finals else []
        found = {self.row(each["config"]): FinalTime(each["time_ms"], each["spread"], each["tied"]) for each in stored}
        known = {row: finalist for row, finalist in found.items() if row is not None}
        return known if self.best in known else {}  # a file that was edited may lack it

    @functools.cached_property
    def besides(self) -> frozenset[Row]:
        """The trials that a report or a list of configurations asked for, not a search; empty if all trials are."""
        given = frozenset(self.trials.given)
        return given if given != self.recording.entries.keys() else frozenset()

    def is_after_finals(self, row: Row) -> bool:
        """Whether a trial was measured for a report or a list of configurations, after the finals chose the best."""
        measured = self.trials.given.get(row)
        return measured is not None and self.finals is not None and measured > _time(self.finals.date)

    @property
    def counted(self) -> int | None:
        """The number of valid configurations, if they were listed on this machine."""
        return listing.counted(self.space, self.scope) if self.space and self.scope else None

    def is_same_code(self, one: Row, other: Row) -> bool:
        """Whether two configurations certainly have the same code and launch."""
        first, second = self.instance(one), self.instance(other)
        if first is None or second is None:
            return False
        try:
            return same_code.is_same_code(first, second)
        except (SpaceError, ExpressionError, GeometryError):
            return False

    def config(self, row: Row) -> Config:
        return dict(zip(self.parameters, row, strict=True))

    def instance(self, row: Row) -> Instance | None:
        """The instance of a row; None if the kernel is unknown here."""
        if self.space is None or self.scope is None:
            return None
        return Instance(self.space, self.config(row), self.scope)

    def row(self, config: Config) -> Row | None:
        """A configuration as a row of the recording; None if it has other parameters."""
        is_same = config.keys() == self.parameters.keys()
        return tuple(config[name] for name in self.parameters) if is_same else None

    def entry(self, row: Row) -> Entry | None:
        return self.recording.entries.get(row)

    @property
    def kernel(self) -> str:
        return self.space.name if self.space else self.recording.kernel or "a kernel without a name"

    @property
    def problem_text(self) -> str:
        """Sizes, chosen types, and options that are not at their defaults, such as `M=4096, N=4096`."""
        if self.problem is not None:
            return self.problem.text
        size = self.recording.size
        if isinstance(size, dict):
            return ", ".join(f"{name}={value}" for name, value in size.items())
        return " x ".join(map(str, size)) if isinstance(size, list | tuple) else str(size or "an unknown size")


def of_problem(problem: Problem, device: str | None, url: str | None) -> Subject:
    """The trials of a problem, from the largest ledger, or else a recording, or else a record.

    `device` is a device of this machine, or part of a device's name; `url` is the storage of a shared ledger. Raises
    RequestError if nothing was measured.
    """
    return _known(problem, gathering.gather(problem, device, url), device)


def of_recording(path: Path, results: Path | None = None) -> Subject:
    """The trials in a recording file, whose kernel is found by its name.

    Raises RequestError if the file cannot be read, or if no configuration succeeded.
    """
    recording = recordings.read(path)
    trials = gathering.of_recording(recording)
    try:
        space = catalog.load(recording.kernel)
        sizes = recording.size if isinstance(recording.size, dict) else {}
        size = ",".join(f"{name}={value}" for name, value in sizes.items())
        problem = Problem.parse(space, size, recording.options, recording.about.get("types", {}), results)
    except (RequestError, TypeError, AttributeError):
        return Subject(trials)
    if recording.parameters.keys() != space.parameters.keys():
        return Subject(trials)
    return _known(problem, gathering.with_device(problem, trials), None)


def _known(problem: Problem, trials: Trials, device: str | None) -> Subject:
    space = problem.space
    if not any(entry.time_ms is not None for entry in trials.recording.entries.values()):
        words = problem_words(space.operation, problem.sizes, problem.types, problem.options)
        raise RequestError(
            f"{space.name} at {problem.text}: all {len(trials.recording.entries)} measured configurations failed; "
            f"`tune failures {shown(space.name)} {words}` says why"
        )
    kind = trials.kind or devices.kinds_of(space)[0]
    local_device = _local_device(kind, trials, device)
    limits = local_device.limits if local_device else devices.BACKENDS[kind].limits_of(trials.architecture)
    scope = problem.scope(devices.BACKENDS[kind].language, limits)
    ceilings = StoredCeilings(problem.results).of_name(
        kind, trials.recording.device, trials.toolchain, trials.conditions
    )
    record = _record(problem, trials, kind)
    if not trials.toolchain and record is not None:
        trials = replace(trials, architecture=record.architecture)
    return Subject(trials, problem, scope, local_device, record, ceilings)


def _record(problem: Problem, trials: Trials, kind: str) -> Record | None:
    """The store's latest record of the problem on the device of the trials, with the same objective and caches."""
    version, records = Version.of(problem.space), list[Record]()
    for record in Store.of(problem.space, problem.results).records:
        about = record.kind, record.device, record.sizes, record.types, record.options, Conditions(record.conditions)
        of_problem = dict(problem.sizes), problem.types, dict(problem.options)
        asked = kind, trials.recording.device, *of_problem, trials.conditions
        is_alike = peculiarity(of_caches(record.caches), record.objective) == trials.peculiar
        if about == asked and is_alike and not record.same_bits_as and record.is_of(version):
            records.append(record)
    return max(records, key=lambda record: record.date, default=None)


def _local_device(kind: str, trials: Trials, device: str | None) -> DeviceInfo | None:
    """The device of the trials, of this kind, if it is `device`, or the first of its kind in this machine."""
    if not devices.count(kind):
        return None
    asked = device if device is not None and devices.is_name(device) else f"{kind}:0"
    with contextlib.closing(devices.open_device(asked)) as opened:
        return opened.info if opened.name == trials.recording.device else None


def _time(date: str) -> datetime:
    """A record's date; the earliest time if it is invalid."""
    try:
        parsed = datetime.fromisoformat(date)
    except ValueError:
        return datetime.min.replace(tzinfo=UTC)
    return parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)


def _timings(entries: Mapping[Row, Entry]) -> dict[Row, Timing]:
    """The Timings of all successful trials."""
    timed = ((row, entry.time_ms, entry.times) for row, entry in entries.items() if entry.time_ms is not None)
    return {row: of_times(times, time_ms) if times else of_median(time_ms, None) for row, time_ms, times in timed}
