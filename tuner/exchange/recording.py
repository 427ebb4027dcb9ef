"""Recorded spaces: Kernel Tuner's cache files and T4 files, plain or compressed, whole or cut short.

A cache is one JSON object whose `cache` member has an entry for each configuration; a T4 file has a list `results`.
Kernel Tuner appends to a cache while it runs and leaves the closing braces for the end, so a file may stop anywhere,
and one that was taken up again may have a torn entry in the middle. Whatever entries are whole are read. Nothing in a
file is executed.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tuner import paths
from tuner.errors import RequestError
from tuner.exchange import jsonfile
from tuner.space.model import Space, Value
from tuner.store.record import SHORTEST_MS

if TYPE_CHECKING:
    from tuner.tuning.trial import Trial

Key = tuple[Value, ...]
_UNITS = {"": 1.0, "ms": 1.0, "s": 1e3, "us": 1e-3, "ns": 1e-6}  # in ms
_CORRECT = ("correct", "valid")  # of a T4 result that is good
_FAILURES = {"compile": "CompilationFailedConfig"}  # Kernel Tuner's names; all others are RuntimeFailedConfig


@dataclass(frozen=True)
class Entry:
    """What came of one configuration: the time in ms and all times behind it, or why it failed. `extra` is any more
    that the file says of it, under its own names (compile_time, timestamp and so on)."""

    time_ms: float | None
    times: tuple[float, ...] = ()
    failure: str | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Recording:
    """A space of which all configurations, or many, have been measured.

    `parameters` are the declared values by name; an entry's key is its values in that order. `size` is Kernel Tuner's
    problem_size, or sizes by name. `about` is any more that the file's header says. `ignored` counts what its file has
    besides: entries that are torn, or lack a parameter.
    """

    kernel: str
    device: str
    parameters: Mapping[str, tuple[Value, ...]]
    entries: Mapping[Key, Entry]
    size: Any = None
    about: Mapping[str, Any] = field(default_factory=dict)
    ignored: int = 0

    @property
    def optimum_ms(self) -> float:
        """The least time."""
        return min(entry.time_ms for entry in self.entries.values() if entry.time_ms is not None)


def of_trials(space: Space, sizes: Mapping[str, int], device: str, trials: Iterable[Trial]) -> Recording:
    """The recording of what tuning has measured."""
    entries: dict[Key, Entry] = {}
    for trial in trials:
        outcome = trial.outcome
        known = {**outcome.figures.to_json(), "occupancy": outcome.occupancy, "energy_mj": outcome.energy_mj}
        if outcome.failure is None:
            known |= {"error": outcome.error, "bound": outcome.bound}
        extra = {name: value for name, value in known.items() if value is not None}
        key = tuple(trial.config[name] for name in space.parameters)
        entries[key] = Entry(trial.time_ms, outcome.times, outcome.failure, extra)
    return Recording(space.name, device, space.parameters, entries, dict(sizes))


def read(path: Path) -> Recording:
    """The recording in a .json or .json.gz file. Raises RequestError where no configuration in it succeeded."""
    content = jsonfile.text(path)
    header, member, entries = jsonfile.parts(content)
    found = _from_t4(path, entries) if member == "results" else _from_cache(header, entries)
    if not any(entry.time_ms is not None for entry in found.entries.values()):
        raise RequestError(f"{paths.shown(path)}: {jsonfile.nothing_in(content, member, entries)}")
    return found


def write(path: Path, recording: Recording) -> None:
    """Write `recording` as a cache file that Kernel Tuner's simulation mode reads; compressed where `path` ends in .gz.

    The same recording gives the same bytes. A crash leaves the old file or the new one. Raises RequestError where the
    file cannot be written.
    """
    header = {
        "device_name": recording.device,
        "kernel_name": recording.kernel,
        "problem_size": recording.size,
        "tune_params_keys": list(recording.parameters),
        "tune_params": {name: list(values) for name, values in recording.parameters.items()},
        "objective": "time",
        **recording.about,
    }
    lines = []
    for key, entry in recording.entries.items():
        config = dict(zip(recording.parameters, key, strict=True))
        result: dict[str, Any] = {**config, "time": entry.time_ms, "times": list(entry.times)}
        if entry.time_ms is None:
            result = {**config, "time": _FAILURES.get(entry.failure or "", entry.failure or "RuntimeFailedConfig")}
            if not str(result["time"]).endswith("FailedConfig"):
                result |= {"time": "RuntimeFailedConfig", "reason": entry.failure}
            result["__error__"] = result["time"]
        timings = dict.fromkeys(_TIMINGS, 0.0)
        lines.append(f"{json.dumps(','.join(map(str, key)))}: {json.dumps({**result, **timings, **entry.extra})}")
    written = json.dumps(header, indent=0)[:-2] + ',\n"cache": {\n' + ",\n".join(lines) + "}\n}\n"
    data = written.encode()
    try:
        paths.replace(path, gzip.compress(data, mtime=0) if path.suffix == ".gz" else data)
    except OSError as error:
        raise RequestError(
            f"{paths.shown(path)}: cannot be written: {error.strerror}; name another place by --output"
        ) from None


_HEADER = ("device_name", "kernel_name", "problem_size", "tune_params_keys", "tune_params", "objective")
_TIMINGS = ("compile_time", "verification_time", "benchmark_time", "strategy_time", "framework_time")


def _from_cache(header: Mapping[str, Any], entries: list[Any]) -> Recording:
    declared = header.get("tune_params")
    names = list(declared) if isinstance(declared, dict) else []
    found: dict[Key, Entry] = {}
    ignored = 0
    for entry in entries:
        if names and isinstance(entry, dict) and all(is_value(entry.get(name)) for name in names):
            extra = {k: v for k, v in entry.items() if k not in (*names, "time", "times", "__error__")}
            time_ms = milliseconds(entry.get("time")) if "__error__" not in entry else None
            failure = None if time_ms is not None else str(entry.get("__error__", entry.get("time")))
            found[tuple(entry[name] for name in names)] = Entry(time_ms, _times(entry.get("times")), failure, extra)
        else:
            ignored += 1
    return Recording(
        _name(header.get("kernel_name")),
        _name(header.get("device_name")),
        _values(names, found, declared if isinstance(declared, dict) else {}),
        found,
        header.get("problem_size"),
        {name: value for name, value in header.items() if name not in _HEADER},
        ignored,
    )


def _name(value: Any) -> str:
    """A name; empty for what is no text."""
    return value if isinstance(value, str) else ""


def _from_t4(path: Path, entries: list[Any]) -> Recording:
    """Raises RequestError for a time in a unit that is not known."""
    names: list[str] = []
    found: dict[Key, Entry] = {}
    ignored = 0
    for entry in entries:
        given = entry.get("configuration") if isinstance(entry, dict) else None
        config = given if isinstance(given, dict) and all(map(is_value, given.values())) else {}
        names = names or list(config)
        if not config or set(config) != set(names):
            ignored += 1
            continue
        time_ms = _t4_time(path, entry)
        invalidity = str(entry.get("invalidity", _CORRECT[0]))
        good = invalidity in _CORRECT and time_ms is not None
        measured = entry.get("times")
        times = _times(measured.get("runtimes")) if isinstance(measured, dict) else ()
        key = tuple(config[name] for name in names)
        found[key] = Entry(time_ms if good else None, times, None if good else invalidity)
    return Recording("", "", _values(names, found, {}), found, ignored=ignored)


def _t4_time(path: Path, entry: Mapping[str, Any]) -> float | None:
    """What was measured of the first objective, else as `time`, in ms."""
    objectives, measurements = entry.get("objectives"), entry.get("measurements")
    wanted = [*(objectives[:1] if isinstance(objectives, list) else []), "time"]
    for one in measurements if isinstance(measurements, list) else []:
        if isinstance(one, dict) and one.get("name") in wanted:
            unit = one.get("unit", "")
            if not isinstance(unit, str) or unit not in _UNITS:
                known = ", ".join(filter(None, _UNITS))
                raise RequestError(f"{paths.shown(path)}: a time's unit is {str(unit)[:40]!r}; known are {known}")
            return milliseconds(one.get("value"), unit)
    return None


def _values(names: list[str], found: Mapping[Key, Entry], declared: Mapping[str, Any]) -> dict[str, tuple[Value, ...]]:
    """The values of each parameter: as declared, and any others that occur, in order."""
    values: dict[str, tuple[Value, ...]] = {}
    for column, name in enumerate(names):
        given = declared.get(name)
        known = dict.fromkeys(v for v in given if is_value(v)) if isinstance(given, list) else {}
        others = {key[column] for key in found} - set(known)
        values[name] = (*known, *sorted(others, key=lambda v: (isinstance(v, str), v)))
    return values


def is_value(value: Any) -> bool:
    """Whether it can be a parameter's value."""
    return isinstance(value, int | float | str)


def milliseconds(value: Any, unit: str = "") -> float | None:
    """A time in ms; None for what is none, such as the name of a failure."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e20:
        return None  # old versions wrote a failure as 1e20
    time_ms = value * _UNITS[unit]
    return time_ms if time_ms >= SHORTEST_MS else None


def _times(values: Any) -> tuple[float, ...]:
    return tuple(t for v in values if (t := milliseconds(v)) is not None) if isinstance(values, list) else ()
