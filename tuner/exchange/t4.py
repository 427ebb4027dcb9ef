"""FAIR T4 files, https://github.com/odgaard/TuningSchema: results of tuning, and metadata about them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from tuner.exchange import jsonfile
from tuner.exchange.formats import Export, ExportRequest, write
from tuner.exchange.names import beside
from tuner.exchange.recording import Entry, Recording
from tuner.exchange.target import Problem
from tuner.exchange.trials import Trials, gather
from tuner.version import VERSION

SCHEMA_VERSION = "1.0.0"
_INVALIDITY = {
    "timeout": "timeout",
    "compile": "compile",
    "CompilationFailedConfig": "compile",
    "InvalidConfig": "constraints",
    **dict.fromkeys(("geometry", "resources", "threads", "registers", "shared memory"), "constraints"),
    **dict.fromkeys(
        ("wrong result", "changes from run to run", "writes to an input", "writes outside", "correctness"),
        "correctness",
    ),
}  # all other failures are `runtime`
_UNITS = {"energy_mj": "mJ", "spills": "byte", "shared_memory": "byte"}
_TIMINGS = {
    "compile_time": "compilation",
    "benchmark_time": "benchmark",
    "framework_time": "framework",
    "strategy_time": "search_algorithm",
    "verification_time": "validation",
}  # Kernel Tuner's names, and T4's


def export(request: ExportRequest) -> Export:
    """Write results, and metadata beside them. Raises RequestError."""
    trials = gather(request.problem, request.device, request.storage)
    path = write(request.path("-t4.json"), json.dumps(results(trials), indent=1) + "\n")
    about = write(beside(path, "metadata"), json.dumps(metadata(request.problem, trials), indent=1) + "\n")
    return Export.of_trials([path, about], trials)


def results(trials: Trials) -> dict[str, Any]:
    """The results file: every trial, failed ones too. Times are in ms."""
    recording = trials.recording
    return {
        "results": [
            _result(dict(zip(recording.parameters, key, strict=True)), entry)
            for key, entry in recording.entries.items()
        ],
        "schema_version": SCHEMA_VERSION,
        "metadata": {"timeunit": "milliseconds"},
    }


def _result(config: dict[str, Any], entry: Entry) -> dict[str, Any]:
    known = entry.extra
    measured = {name: value for name, value in known.items() if isinstance(value, int | float) and name not in _TIMINGS}
    measurements = [{"name": name, "value": value, "unit": _UNITS.get(name, "")} for name, value in measured.items()]
    if entry.time_ms is not None:
        measurements.insert(0, {"name": "time", "value": entry.time_ms, "unit": "ms"})
    reason = str(known.get("reason", entry.failure))
    result = {
        "configuration": config,
        "objectives": ["time"],
        "times": {
            **{name: known[ours] for ours, name in _TIMINGS.items() if isinstance(known.get(ours), int | float)},
            "runtimes": list(entry.times),
        },
        "invalidity": "correct" if entry.failure is None else _INVALIDITY.get(reason, "runtime"),
        "correctness": int(entry.failure is None),
        "measurements": measurements,
    }
    return {"timestamp": known["timestamp"], **result} if isinstance(known.get("timestamp"), str) else result


def metadata(problem: Problem, trials: Trials) -> dict[str, Any]:
    """The metadata file: what is known of where the results come from, and nothing of the machine that exports."""
    device = {"device": trials.recording.device, "kind": trials.kind, "architecture": trials.architecture}
    about = {"toolchain": trials.toolchain, "kernel": problem.space.name, "size": dict(problem.sizes)}
    return {
        "metadata": {
            "hardware": {"hardware_description": [device]},
            "environment": {"device_query": about, "requirements": [f"tuner=={VERSION}"]},
        },
        "schema_version": SCHEMA_VERSION,
    }


def with_metadata(path: Path, found: Recording) -> Recording:
    """`found`, which is what the results file `path` holds, with what a metadata file beside it says, if there is one
    such as ours. Raises RequestError where it cannot be read."""
    file = beside(path, "metadata")
    if not file.exists():
        return found
    try:
        data = json.loads(jsonfile.text(file))["metadata"]
        device, about = data["hardware"]["hardware_description"][0], data["environment"]["device_query"]
        known = {"kernel": about.get("kernel"), "kind": device.get("kind"), "architecture": device.get("architecture")}
        name, size = device.get("device"), about.get("size")
    except (ValueError, RecursionError, LookupError, TypeError, AttributeError):
        return found  # of another shape
    known = {key: value for key, value in known.items() if value}
    return replace(found, device=name if isinstance(name, str) else "", size=size, about=known)
