"""Logs: the results of searches, kept as recordings beside the records of a store for later searches.

A log is a file `results/recordings/STAGE-SIZE-KEY.json.gz`, the cache of a Kernel Tuner run with one short entry for
each configuration. There is one for each kernel, problem, device and conditions.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tuner import paths
from tuner.classes import dataclass
from tuner.devices.conditions import Conditions
from tuner.errors import RequestError
from tuner.space.config import Config
from tuner.store import locks
from tuner.store.record import Record
from tuner.tuning.recordings import jsonfile
from tuner.tuning.recordings import recording as recordings
from tuner.tuning.recordings.recording import Entry, Recording, Row

if TYPE_CHECKING:
    from tuner.space.model import Space

FOLDER = "recordings"  # in a folder of results
MOST = 1000  # configurations of a log
DIGITS = 5  # significant digits of a time
LONGEST_REASON = 40  # characters of the reason of a failure
LOG = "log"  # the header member with a log's problem
OCCUPANCY = "occupancy"  # the member of an entry that a log keeps beside the time


@dataclass(frozen=True)
class LoggedProblem:
    """The problem and device of a log.

    code: identifies the code of the kernel; empty if unknown.
    is_unverified: whether no output was compared with a reference.
    """

    kernel: str
    kind: str
    device: str
    architecture: str
    sizes: Mapping[str, int]
    options: Mapping[str, float]
    types: Mapping[str, str]
    conditions: Conditions
    code: str
    is_unverified: bool = False

    @staticmethod
    def of(kernel: str, record: Record) -> LoggedProblem:
        """The problem of a record."""
        return LoggedProblem(
            kernel, record.kind, record.device, record.architecture, record.sizes, record.options, record.types,
            Conditions(record.conditions), record.code or "", record.verified == "none",
        )  # fmt: skip

    @property
    def key(self) -> str:
        """Identifies the log among those of all kernels; all versions of a kernel share it."""
        about = [self.kernel, self.kind, self.device, sorted(self.sizes.items()), sorted(self.types.items())]
        options = sorted((name, float(value)) for name, value in self.options.items())
        return paths.digest(repr([*about, options, sorted(self.conditions.values.items())]))[:12]

    @property
    def file(self) -> str:
        """The name of the log's file, for people who look for it."""
        size = "x".join(str(value) for value in dict.fromkeys(self.sizes.values()))[:40]
        return f"{self.kernel.rpartition('/')[2]}-{size}-{self.key}.json.gz"


def keep(problem: LoggedProblem, space: Space, measured: Iterable[tuple[Config, Entry]], results: Path | None) -> Path:
    """Write results into the log of a problem, and return the log's file. Its other configurations stay.

    Each entry keeps only its time and occupancy, or the reason of its failure. A log of another version of the kernel
    is replaced. A verified log replaces an unverified one, but never the other way round. If there are more than MOST
    configurations, the fastest MOST / 2 stay, and as many of the others, evenly spaced in the order of their times.
    Raises RequestError if the file cannot be written.
    """
    path = (results or paths.user_results()) / FOLDER / problem.file
    _write(path, _log(problem, space, measured))
    return path


def supply(
    problem: LoggedProblem, space: Space, measured: Iterable[tuple[Config, Entry]], results: Path | None
) -> bool:
    """As `keep`, with results that somebody else measured: they are unverified, and replace none that the log has.

    Returns whether any result is new.
    """
    log = _log(replace(problem, is_unverified=True), space, measured)
    return _write((results or paths.user_results()) / FOLDER / problem.file, log, yields=True)


def _log(problem: LoggedProblem, space: Space, measured: Iterable[tuple[Config, Entry]]) -> Recording:
    rows = {tuple(config[name] for name in space.parameters): _short(entry) for config, entry in measured}
    circumstances = problem.types, problem.options, problem.conditions, problem.is_unverified
    own = {"kind": problem.kind, "architecture": problem.architecture, "code": problem.code}
    about = recordings.about_problem(space, *circumstances) | {LOG: {**own, "options": dict(problem.options)}}
    return Recording(problem.kernel, problem.device, space.parameters, rows, dict(problem.sizes), about)


def _write(path: Path, log: Recording, yields: bool = False) -> bool:
    """Write a log, with the other configurations that its file has, and return whether any result is new.

    If the log `yields`, results in the file stay, and so does a log of another version of the kernel.
    """
    with locks.updating(path):
        try:
            old = recordings.read(path) if path.is_file() else None
        except RequestError:
            old = None  # damaged: it is replaced
        if old is not None and _is_same(old, log) and log.is_unverified and not old.is_unverified:
            return False
        if old is not None and yields and not _is_same(old, log):
            return False
        if old is not None and _is_same(old, log) and log.is_unverified == old.is_unverified:
            if all(row in old.entries for row in log.entries):
                return False
            both = (log, old) if yields else (old, log)
            log = replace(log, entries={**both[0].entries, **both[1].entries})
        recordings.write(path, replace(log, entries=_bounded(log.entries)))
    return True


def _is_same(old: Recording, new: Recording) -> bool:
    """Whether both are of the same version of a kernel, with the same parameters."""
    codes = [each.about.get(LOG, {}).get("code") for each in (old, new) if isinstance(each.about.get(LOG, {}), dict)]
    return len(codes) == 2 and codes[0] == codes[1] and list(old.parameters) == list(new.parameters)


def _short(entry: Entry) -> Entry:
    if entry.time_ms is None:
        return Entry(None, failure=(entry.failure or "")[:LONGEST_REASON])
    occupancy = occupancy_of(entry)
    about = {} if occupancy is None else {OCCUPANCY: float(f"{occupancy:.{DIGITS}g}")}
    return Entry(float(f"{entry.time_ms:.{DIGITS}g}"), extra=about)


def occupancy_of(entry: Entry) -> float | None:
    """The share of a multiprocessor's threads that a configuration can fill; None if it is unknown."""
    value = entry.extra.get(OCCUPANCY)
    return float(value) if isinstance(value, int | float) and 0 < value <= 1 else None


def _bounded(entries: Mapping[Row, Entry]) -> dict[Row, Entry]:
    """At most MOST of the entries: the fastest, and others evenly spaced by time; failures count as the slowest."""
    rows = sorted(entries, key=lambda row: (entries[row].time_ms is None, entries[row].time_ms or 0.0))
    if len(rows) > MOST:
        rest = rows[MOST // 2 :]
        rows = [*rows[: MOST // 2], *(rest[place * len(rest) // (MOST // 2)] for place in range(MOST // 2))]
    return {row: entries[row] for row in rows}


def merge(sources: Iterable[Path], results: Path | None = None) -> tuple[int, list[str]]:
    """Merge the logs in and below these folders of results into the store. Return the number of logs with new results,
    and messages about those that cannot be read. Recordings that are no logs are ignored."""
    count, problems = 0, list[str]()
    for source in filter(Path.is_dir, sources):
        for folder in sorted(Path(at) for at, _, _ in os.walk(source) if Path(at).name == FOLDER):
            for path in recordings.files(folder):
                if (header := jsonfile.header(path)) is None:
                    problems.append(f"{path}: is damaged, or no recording; the file is passed over")
                if LOG not in (header or {}):
                    continue
                try:
                    problem, log = read(path)
                except RequestError as error:
                    problems.append(f"{error}; the log is passed over")
                    continue
                if problem.file != path.name:
                    problems.append(f"{path}: its name is not that of its problem; the log is passed over")
                    continue
                count += add(problem, log, results)
    return count, problems


def read(path: Path) -> tuple[LoggedProblem, Recording]:
    """A log and its problem. Raises RequestError if the file cannot be read, or is no log."""
    log = recordings.read(path)
    problem = problem_of(log.kernel, log.device, log.size, log.about) if LOG in log.about else None
    if problem is None:
        raise RequestError(f"{path}: is no log of a search: its header does not describe a problem")
    return problem, log


def add(problem: LoggedProblem, log: Recording, results: Path | None = None) -> bool:
    """Add a log to the store, and return whether any result is new. Raises as `keep` does."""
    return _write((results or paths.user_results()) / FOLDER / problem.file, log)


def is_of_other_code(path: Path, code: str) -> bool:
    """Whether a file is the log of another version of a kernel than the one with this code."""
    log = (jsonfile.header(path) or {}).get(LOG)
    return isinstance(log, dict) and log.get("code") not in ("", code)


def problem_of(kernel: object, device: object, size: object, about: Mapping[str, Any]) -> LoggedProblem | None:
    """The problem that a recording's header describes; None if the description is incomplete."""
    log = about.get(LOG)
    log = log if isinstance(log, dict) else {}
    options = log.get("options", about.get("options", {}))
    types, conditions = about.get("types", {}), about.get("conditions", {})
    is_size = isinstance(size, dict) and all(type(value) is int and value > 0 for value in size.values())
    are_options = isinstance(options, dict) and all(isinstance(value, int | float) for value in options.values())
    if not (is_size and are_options and isinstance(types, dict) and isinstance(conditions, dict)):
        return None
    texts = [kernel, log.get("kind", ""), device, log.get("architecture", ""), log.get("code", "")]
    if not all(isinstance(text, str) for text in texts):
        return None
    kernel, kind, device, architecture, code = map(str, texts)
    assert isinstance(size, dict)
    return LoggedProblem(kernel, kind, device, architecture, size, options, types, Conditions(conditions), code)
