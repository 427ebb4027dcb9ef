"""Recordings of spaces, as Kernel Tuner cache files, T4 files and results of KTT: plain or compressed, complete or
truncated.

A cache is a JSON object whose member `cache` has one entry per configuration; a T4 file has a list `results`. Kernel
Tuner appends to a cache while it runs, and closes the braces at the end. So a file may stop anywhere, and the cache of
a resumed run may have a torn entry in the middle. All complete entries are read. Nothing in a file is executed.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tuner import paths
from tuner.classes import dataclass
from tuner.devices.conditions import DEFAULT, Conditions
from tuner.errors import RequestError
from tuner.measure.results import BUILD, MEASURE, VERIFY, Outcome
from tuner.quoting import quoted, shown
from tuner.space.config import Config, Value
from tuner.space.model import Space
from tuner.space.values import bit_classes
from tuner.tuning.recordings import jsonfile, ktt, t4_results, units

if TYPE_CHECKING:
    from tuner.tuning.ledger.trial import Trial

Row = tuple[Value, ...]  # a configuration's values, in the order of a recording's parameters
FORBIDDEN = "InvalidConfig"  # Kernel Tuner's name of a combination of values that is no configuration
_FAILURES = {"compile": "CompilationFailedConfig"}  # Kernel Tuner's names; any other failure is RuntimeFailedConfig
_NAMES = (*_FAILURES.values(), "RuntimeFailedConfig", FORBIDDEN)
_NO_CONFIGURATION = "no configuration"  # the reason of the FORBIDDEN entries that tuner writes
_RESULTS = ("time", "times", "__error__")  # members of an entry, beside its parameters
_HEADER = ("device_name", "kernel_name", "problem_size", "tune_params_keys", "tune_params", "objective")
COSTS = {BUILD: "compile_time", VERIFY: "verification_time", MEASURE: "benchmark_time"}  # stage: Kernel Tuner's name
VARYING = -1  # in place of the number of a class of equal bits: they differ from run to run
ABOUT_COSTS = "in ms; compile_time includes the wait for a compile worker"  # header member `costs`
TIMINGS = {  # Kernel Tuner's names of the phases of a trial: T4's names
    "compile_time": "compilation",
    "verification_time": "validation",
    "benchmark_time": "benchmark",
    "strategy_time": "search_algorithm",
    "framework_time": "framework",
}

# The member with the entries of a file that is no cache: what makes a cache of it.
_FORMS = {ktt.MEMBER: ktt.as_cache, t4_results.MEMBER: t4_results.as_cache}
METADATA = "metadata"  # a recording x.json has its metadata in x-metadata.json


@dataclass(frozen=True)
class Entry:
    """The result of one configuration: its median time and all times in ms, or the reason of its failure. `extra` has
    the entry's other members, under the file's names (compile_time, timestamp)."""

    time_ms: float | None
    times: tuple[float, ...] = ()
    failure: str | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)

    @property
    def has_costs(self) -> bool:
        """Whether the file or ledger says how long building, verifying and measuring it took. Files in which all three
        are 0 do not: they come from where this was unknown."""
        costs = [self.extra.get(name) for name in COSTS.values()]
        return all(isinstance(cost, int | float) for cost in costs) and any(costs)


@dataclass(frozen=True)
class Recording:
    """A space with measurements of all or many of its configurations.

    parameters: the declared values by parameter name.
    entries: the results by configuration, given as a row of values in the order of `parameters`.
    size: Kernel Tuner's problem_size, or the sizes by name.
    about: the other members of the file's header.
    ignored: number of entries in the file that are torn, lack a parameter, or have neither a time nor a failure.
    """

    kernel: str
    device: str
    parameters: Mapping[str, tuple[Value, ...]]
    entries: Mapping[Row, Entry]
    size: Any = None
    about: Mapping[str, Any] = field(default_factory=dict)
    ignored: int = 0

    @property
    def optimum_ms(self) -> float:
        """The fastest time in ms."""
        return min(entry.time_ms for entry in self.entries.values() if entry.time_ms is not None)

    @property
    def is_unverified(self) -> bool:
        """Whether the file says that outputs were not verified."""
        return self.about.get("verified") == "none"

    @property
    def options(self) -> dict[str, Any]:
        """The kernel's options that the file names; all others were at their defaults."""
        options = self.about.get("options")
        return options if isinstance(options, dict) else {}

    def configs(self) -> Iterator[tuple[Config, Entry]]:
        """Each configuration with its entry."""
        for row, entry in self.entries.items():
            yield dict(zip(self.parameters, row, strict=True)), entry


def of_trials(
    space: Space,
    sizes: Mapping[str, int],
    types: Mapping[str, str],
    options: Mapping[str, float],
    device: str,
    trials: Iterable[Trial],
    conditions: Conditions = DEFAULT,
) -> Recording:
    """The recording of `trials`, all of one space, problem and device, and under the same conditions."""
    entries: dict[Row, Entry] = {}
    trials = list(trials)
    classes = _bit_classes(trials)
    for trial, bit_class in zip(trials, classes, strict=True):
        outcome = trial.outcome
        extra = {**outcome.figures.to_json(), "occupancy": outcome.occupancy, "energy_mj": outcome.energy_mj}
        extra["clock_mhz"] = outcome.clock_mhz
        if outcome.failure is None:
            extra |= {"error": outcome.error, "bound": outcome.bound, "bit_class": bit_class}
        extra |= _costs(outcome)
        extra = {name: value for name, value in extra.items() if value is not None}
        row = tuple(trial.config[name] for name in space.parameters)
        entries[row] = Entry(trial.time_ms, outcome.times, outcome.reason, extra)
    about = about_problem(space, types, options, conditions, space.operation.reference.kind == "none")
    if any(entry.has_costs for entry in entries.values()):
        about["costs"] = ABOUT_COSTS
    return Recording(space.name, device, space.parameters, entries, dict(sizes), about)


def _bit_classes(trials: Sequence[Trial]) -> list[int | None]:
    """For each trial the number of its class of equal bits, from 0 for the largest; VARYING if they vary; None if they
    are unknown."""
    bits = {i: trial.outcome.bits for i, trial in enumerate(trials) if trial.outcome.failure is None}
    number_of = {i: number for number, same in enumerate(bit_classes.classes(bits)) for i in same}
    number_of |= {i: VARYING for i, own in bits.items() if bit_classes.do_vary(own)}
    return [number_of.get(i) for i in range(len(trials))]


def _costs(outcome: Outcome) -> dict[str, float]:
    """How long each stage took, in ms, under Kernel Tuner's names; empty if unknown. A stage that was not reached took
    0 ms."""
    if not outcome.seconds:
        return {}
    return {name: round(outcome.seconds.get(stage, 0.0) * 1e3, 3) for stage, name in COSTS.items()}


def forbidden(rows: Iterable[Row]) -> dict[Row, Entry]:
    """Entries that mark these combinations of values as invalid for Kernel Tuner. `read` drops them."""
    return dict.fromkeys(rows, Entry(None, failure=FORBIDDEN, extra={"reason": _NO_CONFIGURATION}))


def about_problem(
    space: Space, types: Mapping[str, str], options: Mapping[str, float], conditions: Conditions, is_unverified: bool
) -> dict[str, Any]:
    """The header members `types`, `options`, `conditions` and `verified`, without those that are as by default."""
    changed = {name: value for name, value in options.items() if value != space.operation.options.get(name)}
    verified = "none" if is_unverified else ""
    about = {"types": dict(types), "options": changed, "conditions": dict(conditions.values), "verified": verified}
    return {name: value for name, value in about.items() if value}


def files(folder: Path, stem: str = "") -> list[Path]:
    """The recordings in a folder whose names begin with `stem`, without their metadata files."""
    paths_of_stem = sorted(folder.glob(f"{stem}*.json*"))
    found = [path for path in paths_of_stem if path.name.endswith((".json", ".json.gz"))]  # others are locks
    return [path for path in found if not path.name.endswith(f"-{METADATA}.json")]


def read(path: Path) -> Recording:
    """The recording in a .json or .json.gz file. Raises RequestError if the file cannot be read, no configuration in it
    succeeded, or a parameter has the name of a result."""
    text = jsonfile.text(path)
    header, member, objects = jsonfile.parts(text)
    form = _FORMS.get(member or "")
    recording = _from_cache(*(header, objects) if form is None else form(shown(path), header, objects))
    _check_names(path, recording.parameters, "rename it in the file")
    if not any(entry.time_ms is not None for entry in recording.entries.values()):
        raise RequestError(f"{shown(path)}: {jsonfile.why_no_time(text, member, objects)}")
    return recording


def write(path: Path, recording: Recording) -> None:
    """Write `recording` as a cache file that Kernel Tuner's simulation mode reads, compressed if `path` ends in .gz.

    Equal recordings give equal bytes. The file is replaced atomically. Raises OSError if it cannot be written, and
    RequestError if a parameter has the name of a result.
    """
    _check_names(path, recording.parameters, "rename it in the kernel")
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
    for config, entry in recording.configs():
        result: dict[str, Any] = {**config, "time": entry.time_ms, "times": list(entry.times)}
        if entry.time_ms is None:
            result = {**config, "time": _FAILURES.get(entry.failure or "", entry.failure or "RuntimeFailedConfig")}
            if result["time"] not in _NAMES:
                result |= {"time": "RuntimeFailedConfig", "reason": entry.failure}
            result["__error__"] = result["time"]
        timings = dict.fromkeys(TIMINGS, 0.0)
        members = {
            **result,
            **timings,
            **entry.extra,
            **config,
        }  # a parameter may have the name of a figure
        lines.append(f"{json.dumps(','.join(map(str, config.values())))}: {json.dumps(members)}")
    text = json.dumps(header, indent=0)[:-2] + ',\n"cache": {\n' + ",\n".join(lines) + "}\n}\n"
    data = text.encode()
    paths.replace(path, gzip.compress(data, mtime=0) if path.suffix == ".gz" else data)


def _check_names(path: Path, parameters: Iterable[str], remedy: str) -> None:
    """Raise RequestError if a cache cannot tell a parameter from a result, because both are members of one object."""
    for name in _RESULTS:
        if name in parameters:
            raise RequestError(
                f"{shown(path)}: the parameter {quoted(name)} has the name under which a cache holds the time of a "
                f"configuration; {remedy}"
            )


def _from_cache(header: Mapping[str, Any], objects: list[Any]) -> Recording:
    parameters = header.get("tune_params")
    parameters = parameters if isinstance(parameters, dict) else {}
    entries: dict[Row, Entry] = {}
    ignored = 0
    for data in objects:
        if isinstance(data, dict) and (data.get("__error__"), data.get("reason")) == (FORBIDDEN, _NO_CONFIGURATION):
            continue
        if parameters and isinstance(data, dict) and _is_whole(data, parameters):
            extra = {k: v for k, v in data.items() if k not in (*parameters, *_RESULTS)}
            time_ms = units.milliseconds(data.get("time")) if "__error__" not in data else None
            failure = None if time_ms is not None else str(data.get("__error__", data.get("time")))
            row = tuple(data[name] for name in parameters)
            entries[row] = Entry(time_ms, units.times(data.get("times")), failure, extra)
        else:
            ignored += 1
    return Recording(
        _name(header.get("kernel_name")),
        _name(header.get("device_name")),
        _values(parameters, entries),
        entries,
        header.get("problem_size"),
        {name: value for name, value in header.items() if name not in _HEADER},
        ignored,
    )


def _is_whole(data: Mapping[str, Any], parameters: Iterable[str]) -> bool:
    """Whether an entry has a value of each parameter, and a time or the name of a failure."""
    has_result = "__error__" in data or units.is_failure(data.get("time")) or units.milliseconds(data.get("time"))
    return bool(has_result) and all(is_value(data.get(name)) for name in parameters)


def _name(value: Any) -> str:
    """`value` if it is a string, else an empty string."""
    return value if isinstance(value, str) else ""


def _values(parameters: Mapping[str, Any], entries: Mapping[Row, Entry]) -> dict[str, tuple[Value, ...]]:
    """The values of each parameter: the declared ones, then any others that occur in the entries, ascending."""
    values: dict[str, tuple[Value, ...]] = {}
    for column, (name, declared) in enumerate(parameters.items()):
        declared = dict.fromkeys(filter(is_value, declared)) if isinstance(declared, list) else {}
        others = {row[column] for row in entries} - set(declared)
        values[name] = (*declared, *sorted(others, key=lambda v: (isinstance(v, str), v)))
    return values


def is_value(value: Any) -> bool:
    """Whether `value` can be the value of a parameter."""
    return isinstance(value, int | float | str)
