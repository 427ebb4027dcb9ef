"""Results of KTT, the Kernel Tuning Toolkit, in the form of a Kernel Tuner cache.

KTT's JSON output has `Metadata`, with the device and the unit of all times, and `Results`, one for each configuration,
with `Configuration`, a list of `Name` and `Value`, `Status`, and `TotalDuration`, the time of all its kernels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tuner.errors import RequestError
from tuner.quoting import quoted, shown
from tuner.tuning.recordings import units

MEMBER = "Results"  # of the file, with the configurations
_RIGHT = "Ok"  # the status of a configuration that ran and gave right results
_FAILURES = {"CompilationFailed": "CompilationFailedConfig"}  # KTT's statuses: Kernel Tuner's names of failures


def as_cache(
    where: str, header: Mapping[str, Any], results: Sequence[Any]
) -> tuple[dict[str, Any], list[dict[str, Any] | None]]:
    """The header and the entries of a Kernel Tuner cache, with times in ms. An entry is None where a result has no
    configuration. `where` names the file in messages.

    If a configuration occurs several times, the last one that is right counts. Raises RequestError for an unknown unit.
    """
    metadata = header.get("Metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    unit = metadata.get("TimeUnit")
    ms_per_unit = units.ms_per(unit)
    if ms_per_unit is None:
        raise RequestError(f"{where}: Metadata: TimeUnit is {quoted(unit)}; known units: {units.KNOWN}")
    entries: dict[tuple[Any, ...], dict[str, Any]] = {}
    torn: list[None] = []
    values: dict[str, dict[Any, None]] = {}
    kernel = ""
    for result in results:
        config = _config(result)
        if not config:
            torn.append(None)
            continue
        kernel = kernel or _text(result.get("KernelName"))
        for name, value in config.items():
            values.setdefault(name, {})[value] = None
        time = _time(result, ms_per_unit)
        failure = {"__error__": time} if isinstance(time, str) else {}
        key = tuple(sorted(config.items()))
        if isinstance(time, float) or key not in entries or entries[key]["time"] is None:
            entries[key] = {**config, "time": time, **failure}
    parameters = {name: sorted(of, key=lambda v: (isinstance(v, str), v)) for name, of in values.items()}
    about = {"device_name": _text(metadata.get("Device")), "kernel_name": kernel, "tune_params": parameters}
    return about, [*entries.values(), *torn]


def _config(result: Any) -> dict[str, Any]:
    """The values by parameter; empty if the result has none."""
    pairs = result.get("Configuration") if isinstance(result, dict) else None
    config: dict[str, Any] = {}
    for pair in pairs if isinstance(pairs, list) else []:
        name, value = (pair.get("Name"), pair.get("Value")) if isinstance(pair, dict) else (None, None)
        if not isinstance(name, str) or not isinstance(value, bool | int | float | str):
            return {}
        config[name] = int(value) if isinstance(value, bool) else value
    return config


def _time(result: Mapping[str, Any], ms_per_unit: float) -> float | str | None:
    """The time in ms, or the name of the failure; None if there is neither."""
    status, duration = result.get("Status"), result.get("TotalDuration")
    if status != _RIGHT:
        return _FAILURES.get(str(status), shown(str(status))[:100])
    return units.milliseconds(duration, ms_per_unit)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
