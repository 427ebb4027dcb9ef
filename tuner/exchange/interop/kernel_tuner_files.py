"""Kernel Tuner's files: export of its caches, and export and import of the results files of its `store_results`."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tuner.errors import RequestError
from tuner.exchange import recording as recordings
from tuner.exchange.exports.names import beside
from tuner.exchange.exports.request import Export, ExportRequest, write
from tuner.exchange.exports.target import Problem
from tuner.exchange.recording import Entry, Recording, Row, is_value, milliseconds
from tuner.quoting import quoted, shown
from tuner.space.config import Value
from tuner.space.scope import Limits

if TYPE_CHECKING:
    from tuner.exchange.exports.trials import Trials

TOP = 0.03  # Kernel Tuner's results hold the configurations that are less than 3 % slower than the best
RESULTS_VERSION = "1.0"


def export(request: ExportRequest) -> Export:
    """Write a cache, and a results file beside it. Raises RequestError if there are no trials, or none succeeded."""
    from tuner.exchange.exports.trials import gather  # imports Optuna, which is slow and which `tune import` skips

    trials = gather(request.problem, request.device, request.storage)
    path = request.path(".json")
    recordings.write(path, cache(request.problem, trials))
    results_path = write(beside(path, "results"), json.dumps(results(request.problem, trials), indent=1) + "\n")
    return Export.of_trials([path, results_path], trials)


def cache(problem: Problem, trials: Trials) -> Recording:
    """The trials in Kernel Tuner's terms: `kernel` names the kernel functions, `size` is the extent of the result.
    tuner's own names and sizes are additional header members."""
    about = _about(problem, trials)
    return replace(trials.recording, kernel=problem.space.kernels, size=_problem_size(problem), about=about)


def _about(problem: Problem, trials: Trials) -> dict[str, Any]:
    """The header members that `tune import` reads and Kernel Tuner ignores; unknown ones are left out."""
    device = {"kind": trials.kind, "architecture": trials.architecture}
    problem_names: dict[str, Any] = {"kernel": problem.space.name, "sizes": dict(problem.sizes)}
    if problem.types:
        problem_names["types"] = dict(problem.types)
    problem_names |= recordings.about_options(problem.space, problem.options)
    problem_names |= recordings.about_conditions(trials.conditions)
    if trials.recording.is_unverified:
        problem_names["verified"] = "none"
    return problem_names | {name: value for name, value in device.items() if value}


def results(problem: Problem, trials: Trials) -> dict[str, Any]:
    """The best configurations, in the format of `kernel_tuner.integration.store_results`. Raises RequestError if no
    configuration succeeded."""
    recording = trials.recording
    times = [(config, entry.time_ms) for config, entry in recording.configs() if entry.time_ms is not None]
    if not times:
        raise RequestError(f"{recording.kernel}: no configuration succeeded, so there are no results to export")
    size = "x".join(map(str, _problem_size(problem)))
    limit = recording.optimum_ms * (1 + TOP)
    return {
        "version_number": RESULTS_VERSION,
        "kernel_name": problem.space.kernels,
        "objective": "time",
        "objective_higher_is_better": False,
        "tunable_parameters": list(recording.parameters),
        **_about(problem, trials),
        "device": recording.device,
        "data": [
            {
                "device_name": _plain(recording.device),
                "problem_size": size,
                "tunable_parameters": config,
                "time": time_ms,
            }
            for config, time_ms in sorted(times, key=lambda trial: trial[1])
            if time_ms < limit
        ],
    }


def _problem_size(problem: Problem) -> list[int]:
    """The extent of the result; the problem's sizes if the space declares no extent."""
    scope = problem.scope(problem.space.languages[0], Limits())
    extent = [e.integer(scope.names) for e in problem.space.operation.extent]
    while len(extent) > 1 and extent[-1] == 1:
        extent.pop()
    return extent or list(problem.sizes.values())


def read_results(path: Path, data: Mapping[str, Any]) -> list[Recording]:
    """The recordings in a results file, one per device and problem size.

    Kernel Tuner replaces all but letters and digits in a device's name by _. The member `device`, which `tune export`
    adds, has one device's exact name; in all other names, _ becomes a space. The member `sizes`, which `tune export`
    adds too, applies only if the file is of one device and size. Raises RequestError for an objective other than time,
    or if no configuration has a time.
    """
    if data.get("objective", "time") != "time" or data.get("objective_higher_is_better"):
        raise RequestError(
            f"{shown(path)}: the objective is {quoted(data.get('objective'))}; tuner imports only times in ms"
        )
    groups: dict[tuple[str, str], dict[Row, Entry]] = {}
    names: list[str] = []
    for row in data["data"] if isinstance(data["data"], list) else []:
        config = row.get("tunable_parameters") if isinstance(row, dict) else None
        time_ms = milliseconds(row.get("time")) if isinstance(row, dict) else None
        if not isinstance(config, dict) or not all(map(is_value, config.values())):
            continue
        names = names or list(config)
        if config.keys() == set(names) and time_ms is not None:
            device_name, size = row.get("device_name"), row.get("problem_size")
            group = (
                device_name if isinstance(device_name, str) else "",
                size if isinstance(size, str) else quoted(size),
            )
            groups.setdefault(group, {})[tuple(config[name] for name in names)] = Entry(time_ms)
    if not groups:
        raise RequestError(f"{shown(path)}: no configuration with a time")
    parameters: dict[str, tuple[Value, ...]] = {
        name: tuple(dict.fromkeys(key[i] for entries in groups.values() for key in entries))
        for i, name in enumerate(names)
    }
    kernel, device = (text if isinstance(text := data.get(n), str) else "" for n in ("kernel_name", "device"))
    exported_members = ("kernel", "sizes", "types", "options", "kind", "architecture")
    about = {name: data[name] for name in exported_members if name in data}
    if len(groups) > 1:  # Kernel Tuner has added results to the exported ones
        about.pop("sizes", None)
    by_group = []
    for (name, size), entries in groups.items():
        same = device != "" and _plain(device) == name
        group_about = about if same or not device else {"kernel": about.get("kernel")}
        group_device = device if same else name.replace("_", " ")
        extent = [int(number) for number in size.split("x") if number.isdecimal() and len(number) < 20]
        by_group.append(Recording(kernel, group_device, parameters, entries, extent, group_about))
    return by_group


def _plain(device: str) -> str:
    """`device` as Kernel Tuner writes it in results."""
    return re.sub("[^0-9a-zA-Z]+", "_", device.strip())
