"""Results in the T4 format of FAIR TuningSchema, in the form of a Kernel Tuner cache.

A T4 file has a list `results`, one for each configuration, with `configuration`, `invalidity` and `measurements`, each
with `name`, `value` and `unit`. KTT writes a member `metadata` beside it, with the device and the unit of all times.
It writes all values of parameters as strings.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tuner.errors import RequestError
from tuner.quoting import shown
from tuner.tuning.recordings import units

MEMBER = "results"  # of the file, with the configurations
_CORRECT = ("correct", "valid")  # `invalidity` of a valid result
_OF_STRINGS = "KTT"  # the `autotuner` that writes numbers as strings


def as_cache(
    where: str, header: Mapping[str, Any], results: Sequence[Any]
) -> tuple[dict[str, Any], list[dict[str, Any] | None]]:
    """The header and the entries of a Kernel Tuner cache, with times in ms. An entry is None where a result has no
    configuration, or other parameters than the first one. `where` names the file in messages.

    Raises RequestError for a time in an unknown unit.
    """
    metadata = header.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    configs = [_config(result) for result in results]
    names = list(next(filter(None, configs), {}))
    numeric = _numeric(configs) if metadata.get("autotuner") == _OF_STRINGS else {}
    entries: list[dict[str, Any] | None] = []
    for result, config in zip(results, configs, strict=True):
        if not config or set(config) != set(names):
            entries.append(None)
            continue
        time_ms, ms_per_unit = _time(where, result, metadata.get("timeunit", ""))
        invalidity = str(result.get("invalidity", _CORRECT[0]))
        runs = result.get("times")
        entry = {name: numeric.get((name, config[name]), config[name]) for name in names}
        entry["times"] = [*units.times(runs.get("runtimes"), ms_per_unit)] if isinstance(runs, dict) else []
        if invalidity in _CORRECT:
            entries.append({**entry, "time": time_ms})
        else:
            entries.append({**entry, "time": invalidity, "__error__": invalidity})
    about = {"device_name": metadata.get("device"), "tune_params": dict.fromkeys(names, ())}
    return about, entries


def _config(result: Any) -> dict[str, Any]:
    """The values by parameter; empty if the result has none."""
    config = result.get("configuration") if isinstance(result, dict) else None
    if not isinstance(config, dict) or not all(isinstance(value, int | float | str) for value in config.values()):
        return {}
    return config


def _numeric(configs: Sequence[Mapping[str, Any]]) -> dict[tuple[str, Any], float]:
    """The numbers that strings stand for, by parameter and string; of parameters all of whose values are numbers."""
    numbers: dict[tuple[str, Any], float] = {}
    for name in {name for config in configs for name in config}:
        texts = {config[name] for config in configs if isinstance(config.get(name), str)}
        try:
            numbers |= {(name, text): int(text) if text.lstrip("-").isdigit() else float(text) for text in texts}
        except ValueError:  # not all are numbers
            continue
    return numbers


def _time(where: str, result: Mapping[str, Any], unit_of_all: Any) -> tuple[float | None, float]:
    """The measurement `time` in ms; without one, the first objective if its unit is one of time. Then, how many ms the
    unit of the result's run times has.

    Kernel Tuner writes its observers' measurements, such as energies, without a unit, and often before `time`. So an
    empty unit means that of the whole file, or ms, for `time` alone. Its run times are in ms, whatever unit `time` has.
    """
    measurements, objectives = result.get("measurements"), result.get("objectives")
    by_name: dict[Any, Mapping[str, Any]] = {}
    for measurement in measurements if isinstance(measurements, list) else []:
        if isinstance(measurement, dict) and isinstance(measurement.get("name"), str):
            by_name.setdefault(measurement["name"], measurement)
    if "time" in by_name:
        unit = by_name["time"].get("unit", "")
        of_all = units.ms_per(unit_of_all or "ms")
        ms_per_unit = of_all if unit == "" else units.ms_per(unit)
        if ms_per_unit is None or of_all is None:
            wrong = unit_of_all if of_all is None else unit
            raise RequestError(f"{where}: unknown time unit {shown(str(wrong)[:40])!r}; known units: {units.KNOWN}")
        return units.milliseconds(by_name["time"].get("value"), ms_per_unit), of_all
    first = objectives[0] if isinstance(objectives, list) and objectives else None
    objective = by_name.get(first, {}) if isinstance(first, str) else {}
    ms_per_unit = units.ms_per(objective.get("unit"))
    if ms_per_unit is None:
        return None, 1.0
    return units.milliseconds(objective.get("value"), ms_per_unit), ms_per_unit
