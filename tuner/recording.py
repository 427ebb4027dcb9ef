"""Recorded spaces: Kernel Tuner's cache files and T4 files, plain or compressed, whole or cut short.

A cache is one JSON object whose `cache` member has an entry for each configuration; a T4 file has a list `results`.
Kernel Tuner appends to a cache while it runs and leaves the closing braces for the end, so a file may stop anywhere,
and one that was taken up again may have a torn entry in the middle. Whatever entries are whole are read. Nothing in a
file is executed.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tuner import paths
from tuner.errors import RequestError
from tuner.space import Space, Value

if TYPE_CHECKING:
    from tuner.trial import Trial

Key = tuple[Value, ...]
MOST_BYTES = 1 << 29  # of a file, decompressed
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
    problem_size, or sizes by name. `about` is any more that the file's header says.
    """

    kernel: str
    device: str
    parameters: Mapping[str, tuple[Value, ...]]
    entries: Mapping[Key, Entry]
    size: Any = None
    about: Mapping[str, Any] = field(default_factory=dict)

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
    header, member, entries = _parts(text(path))
    found = _from_t4(entries) if member == "results" else _from_cache(header, entries)
    if member is None or not any(entry.time_ms is not None for entry in found.entries.values()):
        wanted = "give a Kernel Tuner cache (.json, .json.gz) or a T4 file"
        raise RequestError(f"{paths.shown(path)}: no configuration with a time in it; {wanted}")
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


def text(path: Path) -> str:
    """The text of a .json or .json.gz file, as far as it goes. Raises RequestError for what is no file, or too long."""
    where = paths.shown(path)
    try:
        if path.exists() and not path.is_file():
            raise RequestError(f"{where}: not a file; give a recording, .json or .json.gz")
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise RequestError(f"{where}: cannot be read: {error.strerror}; give a recording, .json or .json.gz") from None
    if data[:2] == b"\x1f\x8b":
        try:
            # Unlike gzip, this gives what there is of a file that was cut.
            data = zlib.decompressobj(wbits=31).decompress(data, MOST_BYTES + 1)
        except zlib.error as error:
            raise RequestError(f"{where}: cannot be decompressed: {error}; record it again") from None
    if len(data) > MOST_BYTES:
        raise RequestError(f"{where}: longer than {MOST_BYTES} bytes, the most that is read")
    return data.decode(errors="replace")


def _parts(text: str) -> tuple[dict[str, Any], str | None, list[Any]]:
    """The members before the entries, which kind of file it is, and the entries, whole or not."""
    try:
        data = json.loads(text)
        for member in ("cache", "results"):
            if isinstance(data, dict) and isinstance(data.get(member), dict | list):
                inner = data.pop(member)
                return data, member, list(inner.values() if isinstance(inner, dict) else inner)
        return {}, None, []
    except (ValueError, RecursionError):
        pass
    for member in ("cache", "results"):
        before, quoted, after = text.partition(f'"{member}"')
        if quoted:
            try:
                header = json.loads(before.rstrip().rstrip(",") + "}")
            except (ValueError, RecursionError):
                header = {}
            return header, member, list(_whole(after))
    return {}, None, []


def _whole(text: str) -> Iterator[Any]:
    """The objects in `text` that are whole, of those that are not within another."""
    decoder = json.JSONDecoder()
    position = text.find("{") + 1 if text.lstrip(": \n\t").startswith("{") else 0
    while (position := text.find("{", position)) >= 0:
        try:
            value, position = decoder.raw_decode(text, position)
            yield value
        except (ValueError, RecursionError):
            position += 1


def _from_cache(header: Mapping[str, Any], entries: list[Any]) -> Recording:
    declared = header.get("tune_params")
    names = list(declared) if isinstance(declared, dict) else []
    found: dict[Key, Entry] = {}
    for entry in entries:
        if names and isinstance(entry, dict) and all(is_value(entry.get(name)) for name in names):
            extra = {k: v for k, v in entry.items() if k not in (*names, "time", "times", "__error__")}
            time_ms = milliseconds(entry.get("time")) if "__error__" not in entry else None
            failure = None if time_ms is not None else str(entry.get("__error__", entry.get("time")))
            found[tuple(entry[name] for name in names)] = Entry(time_ms, _times(entry.get("times")), failure, extra)
    return Recording(
        str(header.get("kernel_name", "")),
        str(header.get("device_name", "")),
        _values(names, found, declared if isinstance(declared, dict) else {}),
        found,
        header.get("problem_size"),
        {name: value for name, value in header.items() if name not in _HEADER},
    )


def _from_t4(entries: list[Any]) -> Recording:
    names: list[str] = []
    found: dict[Key, Entry] = {}
    for entry in entries:
        config = entry.get("configuration") if isinstance(entry, dict) else None
        if not isinstance(config, dict) or not all(is_value(value) for value in config.values()):
            continue
        names = names or list(config)
        if set(config) != set(names):
            continue
        wanted = (entry.get("objectives") or ["time"])[0]
        measured = [
            m for m in entry.get("measurements", []) if isinstance(m, dict) and m.get("name") in (wanted, "time")
        ]
        time_ms = milliseconds(measured[0].get("value"), measured[0].get("unit", "")) if measured else None
        invalidity = str(entry.get("invalidity", _CORRECT[0]))
        good = invalidity in _CORRECT and time_ms is not None
        times = _times((entry.get("times") or {}).get("runtimes"))
        key = tuple(config[name] for name in names)
        found[key] = Entry(time_ms if good else None, times, None if good else invalidity)
    return Recording("", "", _values(names, found, {}), found)


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


def milliseconds(value: Any, unit: Any = "") -> float | None:
    """A time in ms; None for what is none, such as the name of a failure."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    # Old versions wrote a failure as 1e20.
    return float(value) * _UNITS.get(str(unit), 1.0) if 0 < value < 1e20 else None


def _times(values: Any) -> tuple[float, ...]:
    return tuple(t for v in values if (t := milliseconds(v)) is not None) if isinstance(values, list) else ()
