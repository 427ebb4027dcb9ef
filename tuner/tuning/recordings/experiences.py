"""What other searches of a kernel have measured, on other devices or at other sizes: experiences of a new search."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from tuner import paths
from tuner.catalog import kernel_names
from tuner.classes import dataclass
from tuner.errors import RequestError
from tuner.search.experience import Experience
from tuner.space.config import Config, ConfigKey, config_key
from tuner.store.lookup import Query, size_distance
from tuner.store.record import Record
from tuner.tuning.recordings import jsonfile, logs
from tuner.tuning.recordings import recording as recordings
from tuner.tuning.recordings.logs import FOLDER, MOST, LoggedProblem

MOST_FILES = 64  # whose headers a search reads


@dataclass(frozen=True)
class LoggedTime:
    """What is known of a configuration: its time in ms, or None if it failed, and its occupancy, or None."""

    config: Config
    time_ms: float | None
    occupancy: float | None = None


Times = dict[ConfigKey, LoggedTime]


def of_similar(query: Query, records: Sequence[Record], results: Path | None, most: int) -> list[Experience]:
    """What is known of at most `most` similar problems, the most similar first.

    First come the `records`, each with the log of its problem; then the logs and recordings of other problems. Times of
    another size on this device are converted: they are those that are likely at this size."""
    space, found = query.space, _found(query, results)
    known: list[Experience] = []
    for record in records[:most]:
        problem = LoggedProblem.of(space.name, record)
        times: Times = {}
        for path, other in [*found.items()]:
            if _is_of(other, problem):
                times |= _times(path)
                del found[path]
        for config, time_ms in record.timed:
            old = times.get(config_key(config))
            times[config_key(config)] = LoggedTime(config, time_ms, None if old is None else old.occupancy)
        if (best := times[config_key(record.config)]).occupancy is None:
            times[config_key(record.config)] = replace(best, occupancy=record.occupancy)
        known.append(_valid(times, query, record.device, record.sizes))
    for path in list(found)[: most - len(known)]:
        known.append(_valid(_times(path), query, found[path].device, found[path].sizes))
    return [each for each in known if each.trials]


def _found(query: Query, results: Path | None) -> dict[Path, LoggedProblem]:
    """The files of this kernel's logs and recordings, the most similar problem first."""
    space = query.space
    names = {space.name, *kernel_names.other_names(space)}
    stems = {name.rpartition("/")[2] for name in names}
    roots = dict.fromkeys(root.resolve() for root in (results or paths.user_results(), paths.shipped("results")))
    files = [path for root in roots for stem in sorted(stems) for path in recordings.files(root / FOLDER, f"{stem}-")]
    found: dict[Path, LoggedProblem] = {}
    for path in _nearest(files, query.scope.sizes)[:MOST_FILES]:
        header = jsonfile.header(path) or {}
        problem = logs.problem_of(
            header.get("kernel_name"), header.get("device_name"), header.get("problem_size"), header
        )
        scope = query.scope
        if problem is None or problem.kernel not in names or problem.sizes.keys() != scope.sizes.keys():
            continue
        if dict(problem.types) == dict(scope.types):
            found[path] = problem

    def order(path: Path) -> tuple[bool, bool, bool, float]:
        problem = found[path]
        is_old = problem.code not in ("", query.version.code)
        is_alike = problem.architecture == query.architecture and problem.kind == query.kind
        return is_old, problem.device != query.device, not is_alike, size_distance(problem.sizes, query.scope.sizes)

    return {path: found[path] for path in sorted(found, key=order)}


def _nearest(files: Sequence[Path], sizes: Mapping[str, int]) -> list[Path]:
    """The files whose names have numbers nearest to the first of the sizes come first."""
    first = next(iter(sizes.values()), 1)

    def distance(path: Path) -> float:
        numbers = [int(text) for text in re.findall(r"(?<=-)[1-9][0-9]{0,17}(?=[-x.])", path.name)]
        return min((abs(math.log(number / first)) for number in numbers), default=math.inf)

    return sorted(files, key=distance)


def _is_of(log: LoggedProblem, record: LoggedProblem) -> bool:
    """Whether a log or recording is of a record's problem and device. A missing kind or code is no contradiction."""
    options = all(record.options.get(name) == value for name, value in log.options.items())
    about = log.device, log.sizes, log.types, log.conditions
    is_code = log.code == record.code or "" in (log.code, record.code)
    asked = record.device, record.sizes, record.types, record.conditions
    return options and about == asked and log.kind in ("", record.kind) and is_code


def _times(path: Path) -> Times:
    """The results of a file; none if it cannot be read."""
    try:
        recording = recordings.read(path)
    except RequestError:
        return {}
    return {
        config_key(config): LoggedTime(config, entry.time_ms, logs.occupancy_of(entry))
        for config, entry in recording.configs()
    }


def _valid(times: Times, query: Query, device: str, sizes: Mapping[str, int]) -> Experience:
    """The results of valid configurations; at most MOST are checked, the fastest first."""
    ranked = sorted(times.values(), key=lambda each: (each.time_ms is None, each.time_ms or 0.0))
    if len(ranked) > MOST:
        ranked = [*ranked[: MOST // 2], *ranked[MOST // 2 :: 1 + 2 * len(ranked) // MOST]]
    space, scope, is_here = query.space, query.scope, device == query.device
    valid = [each for each in ranked if space.valid(each.config, scope)]
    trials = [(each.config, each.time_ms) for each in valid]
    if is_here and query.units and sizes.keys() == scope.sizes.keys() and dict(sizes) != dict(scope.sizes):
        from tuner.tuning.recordings.waves import Conversion

        here = Conversion(space, scope.at(sizes), scope, query.units).time_ms
        trials = [(each.config, each.time_ms and here(each.config, each.time_ms, each.occupancy)) for each in valid]
    return Experience(trials, is_here)
