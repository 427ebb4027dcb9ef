"""Kernel Tuner's files: export of its caches, and export and import of the results files of its `store_results`."""

from __future__ import annotations

import itertools
import json
import math
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tuner import devices
from tuner.errors import NoConfiguration, RequestError
from tuner.exchange.exports.names import beside
from tuner.exchange.exports.request import Export, ExportRequest, write
from tuner.exchange.exports.target import Problem, TargetDevice
from tuner.exchange.interop.truths import names_of_truths, truths_differ
from tuner.quoting import quoted, shown
from tuner.search.enumeration import enumerated
from tuner.space.config import Value
from tuner.space.scope import Limits, Scope
from tuner.space.sources.rendering import Version
from tuner.store.store import Store
from tuner.tuning.recordings import recording as recordings
from tuner.tuning.recordings.recording import Entry, Recording, Row, is_value
from tuner.tuning.recordings.units import milliseconds

if TYPE_CHECKING:
    from tuner.exchange.exports.trials import Trials

MOST_COMBINATIONS = 100_000  # of the values of all parameters, for which the cache says of each whether it is valid
TOP = 0.03  # Kernel Tuner's results hold the configurations that are less than 3 % slower than the best
RESULTS_VERSION = "1.0"


def export(request: ExportRequest) -> Export:
    """Write a cache, and a results file beside it. Raises RequestError if there are no trials, or none succeeded."""
    from tuner.exchange.exports.trials import gather  # imports Optuna, which is slow and which `tune import` skips

    trials = gather(request.problem, request.device, request.storage)
    path = request.path(".json")
    simulated, notes = cache(request.problem, trials)
    recordings.write(path, simulated)
    results_path = write(beside(path, "results"), json.dumps(results(request.problem, trials), indent=1) + "\n")
    notes += cost_notes(trials.recording)
    return Export.of_trials([path, results_path], trials, notes)


def cache(problem: Problem, trials: Trials) -> tuple[Recording, list[str]]:
    """The trials in Kernel Tuner's terms, and what its users must know. `kernel` names the kernel functions, `size` is
    the extent of the result. tuner's own names and sizes are additional header members.

    Combinations that are no configurations on the device have entries that say so, so that a simulation needs no
    restrictions, in which limits of the device may stand.
    """
    recording, space = trials.recording, problem.space
    about = _about(problem, trials) | {k: v for k, v in recording.about.items() if k == "costs"}
    others, notes = _others(problem, trials)
    if truths := names_of_truths(space.parameters):
        notes.append(f"{space.name}: {truths_differ(truths)}")
    entries = {**recording.entries, **others}
    return replace(recording, kernel=space.kernels, size=_problem_size(problem), about=about, entries=entries), notes


def _others(problem: Problem, trials: Trials) -> tuple[dict[Row, Entry], list[str]]:
    """The entries of combinations that are no configurations, and notes about a cache with which a simulation fails."""
    space, measured = problem.space, trials.recording.entries
    combinations = math.prod(map(len, space.parameters.values()))
    if combinations > MOST_COMBINATIONS:
        return {}, [
            f"{space.name}: of its {combinations:,} combinations of values the cache holds only the {len(measured):,} "
            "with a trial; give Kernel Tuner `restrictions` that allow no others, or its simulation fails"
        ]
    try:
        valid = {tuple(config.values()) for config in enumerated(space, _scope(problem, trials)).configs()}
    except NoConfiguration:
        valid = set()
    unmeasured = set() if _is_complete(problem, trials) else valid - measured.keys()
    notes = []
    if unmeasured:
        notes.append(
            f"{space.name}: {len(unmeasured):,} of {len(valid):,} configurations have no trial; Kernel Tuner's "
            "simulation fails when it asks for one. `tune record` measures all"
        )
    every = itertools.product(*space.parameters.values())
    return recordings.forbidden(row for row in every if row not in measured and row not in unmeasured), notes


def _is_complete(problem: Problem, trials: Trials) -> bool:
    """Whether all configurations that are valid on the device are known to have a trial."""
    device, count, version = trials.recording.device, len(trials.recording.entries), Version.of(problem.space)
    about = dict(problem.sizes), dict(problem.types), dict(problem.options)
    return trials.origin == "recording" or any(
        record.device == device and record.configurations == count and record.is_of(version)
        for record in Store.of(problem.space, problem.results).records
        if (record.sizes, record.types, record.options) == about
    )


def _scope(problem: Problem, trials: Trials) -> Scope:
    """The problem on the device of the trials: with its limits if it is of this machine, else with the widest of its
    architecture."""
    kind = trials.kind or devices.kinds_of(problem.space)[0]
    limits = devices.BACKENDS[kind].widest(trials.architecture)
    for number in range(devices.count(kind)):
        local = TargetDevice.local(problem.space, f"{kind}:{number}")
        if local.name == trials.recording.device:
            limits = local.limits
    return problem.scope(devices.BACKENDS[kind].language, limits)


def cost_notes(recording: Recording) -> list[str]:
    """A note if the costs of some trials are unknown."""
    unknown = sum(not entry.has_costs for entry in recording.entries.values())
    if not unknown:
        return []
    return [
        f"{recording.kernel}: how long it took to build, verify and measure is unknown of {unknown} of "
        f"{len(recording.entries)} trials and is written as 0, so a time limit of a simulation does not count it"
    ]


def _about(problem: Problem, trials: Trials) -> dict[str, Any]:
    """The header members that `tune import` reads and Kernel Tuner ignores; unknown ones are left out."""
    device = {"kind": trials.kind, "architecture": trials.architecture}
    names = {"kernel": problem.space.name, "sizes": dict(problem.sizes), **trials.about(problem)}
    return names | {name: value for name, value in device.items() if value}


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
    """The recordings in a results file, one per device and problem size; some may have no configuration.

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
    names: dict[tuple[str, str], list[str]] = {}
    ignored: Counter[tuple[str, str]] = Counter()
    for row in data["data"] if isinstance(data["data"], list) else []:
        if not isinstance(row, dict):
            continue
        device_name, size, config = row.get("device_name"), row.get("problem_size"), row.get("tunable_parameters")
        group = device_name if isinstance(device_name, str) else "", size if isinstance(size, str) else quoted(size)
        entries = groups.setdefault(group, {})
        time_ms = milliseconds(row.get("time"))
        if time_ms is None or not isinstance(config, dict) or not all(map(is_value, config.values())):
            ignored[group] += 1
        elif config.keys() == set(names.setdefault(group, list(config))):
            entries[tuple(config[name] for name in names[group])] = Entry(time_ms)
        else:
            ignored[group] += 1
    if not any(groups.values()):
        raise RequestError(f"{shown(path)}: no configuration with a time")
    # over all groups: one value in the best of one size does not make a parameter a constant
    occurring: dict[str, dict[Value, None]] = {}
    for group, entries in groups.items():
        for column, name in enumerate(names.get(group, [])):
            occurring.setdefault(name, {}).update(dict.fromkeys(row[column] for row in entries))
    kernel, device = (text if isinstance(text := data.get(n), str) else "" for n in ("kernel_name", "device"))
    exported_members = ("kernel", "sizes", "types", "options", "kind", "architecture")
    about = {name: data[name] for name in exported_members if name in data}
    if len(groups) > 1:  # Kernel Tuner has added results to the exported ones
        about.pop("sizes", None)
    by_group = []
    for group, entries in groups.items():
        name, size = group
        same = device != "" and _plain(device) == name
        group_about = about if same or not device else {"kernel": about.get("kernel")}
        group_device = device if same else name.replace("_", " ")
        extent = [int(number) for number in size.split("x") if number.isdecimal() and len(number) < 20]
        parameters = {name: tuple(occurring[name]) for name in names.get(group, [])}
        by_group.append(Recording(kernel, group_device, parameters, entries, extent, group_about, ignored[group]))
    return by_group


def _plain(device: str) -> str:
    """`device` as Kernel Tuner writes it in results."""
    return re.sub("[^0-9a-zA-Z]+", "_", device.strip())
