"""FAIR T4 files: tuning results and their metadata (https://github.com/odgaard/TuningSchema)."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tuner import paths
from tuner.exchange.exports.names import beside
from tuner.exchange.exports.request import Export, ExportRequest, write
from tuner.exchange.exports.target import Problem
from tuner.measure.results import WRONG
from tuner.space.config import Config
from tuner.tuning.recordings import jsonfile
from tuner.tuning.recordings.recording import METADATA, TIMINGS, Entry, Recording
from tuner.version import VERSION

if TYPE_CHECKING:
    from tuner.exchange.exports.trials import Trials

SCHEMA_VERSION = "1.0.0"
_COMPILE = ("compile", "compile crash", "compile memory", "compile timeout", "CompilationFailedConfig")
_CONSTRAINTS = (
    "geometry", "resources", "threads", "registers", "shared memory", "too many resources", "out of memory",
    "InvalidConfig",
)  # fmt: skip
_INVALIDITY = {
    "timeout": "timeout",
    **dict.fromkeys(_COMPILE, "compile"),
    **dict.fromkeys(_CONSTRAINTS, "constraints"),
    **dict.fromkeys((*WRONG, "changes from run to run", "correctness"), "correctness"),  # of version 0.1.0, and of T4
}  # any other failure is `runtime`
# In place of a time, as in Kernel Tuner's files: some readers want a measurement `time` in every result.
_FAILURES, _FAILURE = {"compile": "CompilationFailedConfig"}, "RuntimeFailedConfig"
_UNITS = {"energy_mj": "mJ", "clock_mhz": "MHz", "spills": "byte", "shared_memory": "byte", "local_memory": "byte"}


def export(request: ExportRequest) -> Export:
    """Write a results file, and its metadata file beside it. Raises RequestError if there are no trials."""
    from tuner.exchange.exports.trials import gather  # imports Optuna, which is slow and which `tune import` skips

    trials = gather(request.problem, request.device, request.storage)
    path = write(request.path("-t4.json"), json.dumps(results(trials), indent=1) + "\n")
    metadata_path = write(beside(path, METADATA), json.dumps(metadata(request.problem, trials), indent=1) + "\n")
    return Export.of_trials([path, metadata_path], trials)


def results(trials: Trials) -> dict[str, Any]:
    """The contents of the results file: every trial, including failed ones. Times are in ms."""
    return {
        "results": [_result(config, entry) for config, entry in trials.recording.configs()],
        "schema_version": SCHEMA_VERSION,
        "metadata": {"timeunit": "milliseconds"},
    }


def _result(config: Config, entry: Entry) -> dict[str, Any]:
    numbers = {name: value for name, value in entry.extra.items() if isinstance(value, int | float)}
    timings = {
        t4_name: numbers.pop(name, 0.0) for name, t4_name in TIMINGS.items() if entry.has_costs or name in numbers
    }
    reason = str(entry.extra.get("reason", entry.failure))
    invalidity = "correct" if entry.failure is None else _INVALIDITY.get(reason, "runtime")
    time: float | str = _FAILURES.get(invalidity, _FAILURE) if entry.time_ms is None else entry.time_ms
    measurements = [
        {"name": "time", "value": time, "unit": "ms"},
        *({"name": name, "value": value, "unit": _UNITS.get(name, "")} for name, value in numbers.items()),
    ]
    result = {
        "configuration": config,
        "objectives": ["time"],
        "times": {**timings, "runtimes": list(entry.times)},
        "invalidity": invalidity,
        "correctness": int(entry.failure is None),
        "measurements": measurements,
    }
    timestamp = entry.extra.get("timestamp")
    return {"timestamp": timestamp, **result} if isinstance(timestamp, str) else result


def metadata(problem: Problem, trials: Trials) -> dict[str, Any]:
    """The contents of the metadata file: the origin of the results, and nothing about the exporting machine."""
    device = {"device": trials.recording.device, "kind": trials.kind, "architecture": trials.architecture}
    query = {"toolchain": trials.toolchain, "kernel": problem.space.name, "size": dict(problem.sizes)}
    query |= trials.about(problem) | {k: v for k, v in trials.recording.about.items() if k == "costs"}
    return _document(device, query)


def _document(device: Mapping[str, str], query: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    environment = {"device_query": query, "requirements": [f"tuner=={VERSION}"]}
    metadata = {"hardware": {"hardware_description": [device]}, "environment": environment, **more}
    return {"metadata": metadata, "schema_version": SCHEMA_VERSION}


def describe(path: Path, recording: Recording, kind: str, architecture: str, toolchain: str) -> Path:
    """Write the metadata file of the recording in `path` beside it, and return its path.

    It names the recording's origin, and under `zenodo` the fields that a data repository asks for. An empty `toolchain`
    is left out. Raises RequestError if the file cannot be written.
    """
    device = {"device": recording.device, "kind": kind, "architecture": architecture}
    query = {"toolchain": toolchain, "kernel": recording.kernel, "size": recording.size, **recording.about}
    failed = sum(entry.time_ms is None for entry in recording.entries.values())
    parameters = ", ".join(recording.parameters)
    zenodo = {
        "upload_type": "dataset",
        "title": f"Times of all configurations of {recording.kernel} on {recording.device}",
        "description": f"{len(recording.entries)} configurations, {failed} of which failed, over the parameters "
        f"{parameters}; in Kernel Tuner's cache format, in the file {path.name}.",
        "keywords": ["auto-tuning", recording.kernel, recording.device],
    }
    known = {key: value for key, value in query.items() if value}
    file = beside(path, METADATA)
    with paths.writing(file, "name another file with --output"):
        return write(file, json.dumps(_document(device, known, zenodo=zenodo), indent=1) + "\n")


def with_metadata(path: Path, recording: Recording) -> Recording:
    """`recording`, read from the results file `path`, with the device, size and kernel of the metadata file beside it.

    A metadata file of a different structure from `tune export`'s is ignored. Raises RequestError if it cannot be read.
    """
    file = beside(path, METADATA)
    if not os.path.exists(file):
        return recording
    try:
        data = json.loads(jsonfile.text(file))["metadata"]
        device, query = data["hardware"]["hardware_description"][0], data["environment"]["device_query"]
        about = {"kernel": query.get("kernel"), "kind": device.get("kind"), "architecture": device.get("architecture")}
        about |= {"types": query.get("types"), "options": query.get("options")}
        name, size = device.get("device"), query.get("size")
    except (ValueError, RecursionError, LookupError, TypeError, AttributeError):
        return recording
    about = {key: value for key, value in about.items() if value}
    return replace(recording, device=name if isinstance(name, str) else "", size=size, about=about)
