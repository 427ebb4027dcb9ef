"""Kernel Tuner's files: its caches, which `recording` writes and reads, and those of its `store_results`."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from tuner import paths
from tuner.errors import RequestError
from tuner.exchange import recording
from tuner.exchange.formats import Export, ExportRequest, write
from tuner.exchange.names import beside
from tuner.exchange.recording import Entry, Key, Recording, is_value, milliseconds
from tuner.exchange.target import Problem
from tuner.exchange.trials import Trials, gather
from tuner.space.model import Limits, Scope, Value

TOP = 0.03  # Kernel Tuner stores what is at most so much slower than the best
RESULTS_VERSION = "1.0"


def export(request: ExportRequest) -> Export:
    """Write a cache, and results beside it. Raises RequestError."""
    trials = gather(request.problem, request.device, request.storage)
    path = request.path(".json")
    recording.write(path, cache(request.problem, trials))
    best = write(beside(path, "results"), json.dumps(results(request.problem, trials), indent=1) + "\n")
    return Export.of_trials([path, best], trials)


def cache(problem: Problem, trials: Trials) -> Recording:
    """The trials under Kernel Tuner's names: entry point, and problem_size, the grid's extent. Ours stand beside."""
    about = _about(problem, trials)
    return replace(trials.recording, kernel=problem.space.kernel, size=_problem_size(problem), about=about)


def _about(problem: Problem, trials: Trials) -> dict[str, Any]:
    """What our import reads and Kernel Tuner ignores, as far as it is known."""
    about = {"kernel": problem.space.name, "sizes": dict(problem.sizes)}
    known = {"kind": trials.kind, "architecture": trials.architecture}
    return about | {name: value for name, value in known.items() if value}


def results(problem: Problem, trials: Trials) -> dict[str, Any]:
    """The best configurations as `kernel_tuner.integration.store_results` writes them. Raises RequestError where none
    succeeded."""
    measured = trials.recording
    times = {key: entry.time_ms for key, entry in measured.entries.items() if entry.time_ms is not None}
    if not times:
        raise RequestError(f"{measured.kernel}: no configuration succeeded; there are no results to export")
    size = "x".join(map(str, _problem_size(problem)))
    best = min(times.values())
    return {
        "version_number": RESULTS_VERSION,
        "kernel_name": problem.space.kernel,
        "objective": "time",
        "objective_higher_is_better": False,
        "tunable_parameters": list(measured.parameters),
        **_about(problem, trials),
        "device": measured.device,
        "data": [
            {
                "device_name": _plain(measured.device),
                "problem_size": size,
                "tunable_parameters": dict(zip(measured.parameters, key, strict=True)),
                "time": time_ms,
            }
            for key, time_ms in sorted(times.items(), key=lambda entry: entry[1])
            if time_ms < best * (1 + TOP)
        ],
    }


def _problem_size(problem: Problem) -> list[int]:
    scope = Scope(problem.sizes, problem.options, problem.space.languages[0], Limits())
    extent = [e.integer(scope.names) for e in problem.space.operation.extent]
    while len(extent) > 1 and extent[-1] == 1:
        extent.pop()
    return extent


def read_results(path: Path, data: Mapping[str, Any]) -> list[Recording]:
    """The recordings in a results file, one for each device and problem size. Kernel Tuner writes _ for whatever is no
    letter or digit in a device's name; they are read as spaces, where it is not the device of our own export. What
    that says of a size holds for a file of one size. Raises RequestError for other contents."""
    if data.get("objective", "time") != "time" or data.get("objective_higher_is_better"):
        raise RequestError(
            f"{paths.shown(path)}: its objective is {str(data.get('objective'))[:40]!r}; only times in ms are read"
        )
    grouped: dict[tuple[str, str], dict[Key, Entry]] = {}
    names: list[str] = []
    for row in data["data"] if isinstance(data["data"], list) else []:
        config = row.get("tunable_parameters") if isinstance(row, dict) else None
        time_ms = milliseconds(row.get("time")) if isinstance(row, dict) else None
        if not isinstance(config, dict) or not all(map(is_value, config.values())):
            continue
        names = names or list(config)
        if config.keys() == set(names) and time_ms is not None:
            name, size = row.get("device_name"), row.get("problem_size")
            where = (name if isinstance(name, str) else "", str(size or ""))
            key: Key = tuple(config[name] for name in names)
            grouped.setdefault(where, {})[key] = Entry(time_ms)
    if not grouped:
        raise RequestError(f"{paths.shown(path)}: no configuration with a time in it")
    declared: dict[str, tuple[Value, ...]] = {
        name: tuple(dict.fromkeys(key[i] for entries in grouped.values() for key in entries))
        for i, name in enumerate(names)
    }
    kernel, device = (text if isinstance(text := data.get(n), str) else "" for n in ("kernel_name", "device"))
    about = {name: data[name] for name in ("kernel", "sizes", "kind", "architecture") if name in data}
    if len(grouped) > 1:  # Kernel Tuner has added to what was ours
        about.pop("sizes", None)
    made = []
    for (name, size), entries in grouped.items():
        same = device != "" and _plain(device) == name
        known = about if same or not device else {"kernel": about.get("kernel")}
        whole = [int(n) for n in size.split("x") if n.isdecimal()]
        made.append(Recording(kernel, device if same else name.replace("_", " "), declared, entries, whole, known))
    return made


def _plain(device: str) -> str:
    """A device's name as Kernel Tuner writes it in results."""
    return re.sub("[^0-9a-zA-Z]+", "_", device.strip())
