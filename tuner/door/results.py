"""The results of a run as Kernel Tuner returns them: a dictionary for each configuration, and the environment."""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Mapping, Sequence
from datetime import UTC
from typing import Any

import numpy as np
from kernel_tuner import util

from tuner.devices import DeviceInfo
from tuner.door.calls.arguments import VERIFIED
from tuner.door.calls.call import Call
from tuner.door.verification import RAISED
from tuner.errors import RequestError
from tuner.measure.results import BUILD, MEASURE, VERIFY, WRONG
from tuner.quoting import shown
from tuner.tuning.ledger.trial import Trial

Row = dict[str, Any]
# Failures before a launch: the source does not compile, or a block needs more than the device has.
_COMPILING = frozenset({"compile", "shared memory", "registers"})
_INVALID = frozenset({"geometry", "threads"})  # of a configuration that Kernel Tuner would not try


# What Kernel Tuner's writer of T4 files asks of each row.
UNTIMED = dict.fromkeys(("compile_time", "verification_time", "benchmark_time", "strategy_time", "framework_time"), 0.0)


class WrongResultConfig(util.RuntimeFailedConfig):  # type: ignore[misc]  # kernel_tuner has no types
    """The error of a configuration whose result is wrong. Kernel Tuner itself ends the run there."""


def row(trial: Trial, call: Call, metrics: Mapping[str, Any] | None) -> Row:
    """The row of a trial, with its times in ms. Raises RequestError if a metric raises anything."""
    outcome = trial.outcome
    found: Row = {name: trial.config[name] for name in call.parameters}
    if outcome.failure is not None:
        found["__error__"] = _error(outcome.reason or outcome.failure, outcome.rejection is not None)
        found["error_message"] = _message(outcome.log)
    else:
        found["time"] = float(np.mean(outcome.times))
        found["times"] = [float(each) for each in outcome.times]
        found |= outcome.observed
        if outcome.energy_mj is not None:
            found["energy"] = outcome.energy_mj / 1e3
        if outcome.figures.registers is not None:
            found["num_regs"] = outcome.figures.registers
    milliseconds = {stage: 1e3 * outcome.seconds.get(stage, 0.0) for stage in (BUILD, VERIFY, MEASURE)}
    found |= {
        **UNTIMED,
        "compile_time": milliseconds[BUILD],
        "verification_time": milliseconds[VERIFY],
        "benchmark_time": milliseconds[MEASURE],
    }
    found = with_metrics(found, call, metrics)
    if trial.finished is not None:
        found["timestamp"] = str(trial.finished.astimezone(UTC))
    return found


def with_metrics(row: Row, call: Call, metrics: Mapping[str, Any] | None) -> Row:
    """The row with these metrics, if it has a time. Raises RequestError if one raises anything."""
    if "__error__" in row:
        return row
    for name, metric in (metrics or {}).items():
        try:
            row = util.process_metrics(row, {name: metric})
        except Exception as error:
            config = {each: row[each] for each in call.parameters}
            raise RequestError(
                f"metrics: {name} raises {type(error).__name__}: {shown(error)} for {config}; correct it, and run the "
                "script again: what was measured is kept"
            ) from None
    return row


def _message(log: str) -> str:
    """The message of a failure, without what a script has not written: a derived value, and a file of ours."""
    if log.startswith(f"{VERIFIED} = "):
        return "verify: the function returned no true value"
    _, found, raised = log.partition(f"RuntimeError: {RAISED}")
    return RAISED + raised if found else log


def _error(reason: str, is_wrong: bool) -> util.ErrorConfig:
    if is_wrong or reason in WRONG:
        return WrongResultConfig()
    if reason in _INVALID:
        return util.InvalidConfig()
    return util.CompilationFailedConfig() if reason in _COMPILING else util.RuntimeFailedConfig()


def environment(device: DeviceInfo, call: Call, objective: str, iterations: int) -> dict[str, Any]:
    """What Kernel Tuner says about the machine and the run, as far as it is known here."""
    return {
        **_versions(device),
        "iterations": iterations,
        "compiler_options": list(call.compiler_options or ()),
        "device_name": device.name,
        "kernel_name": call.kernel_name,
        "compiler": device.toolchain,
        "tuner": device.id,
        "objective": objective,
    }


def _versions(device: DeviceInfo) -> dict[str, Any]:
    """What Kernel Tuner says about the device and its driver, by its names."""
    if device.kind == "opencl":
        from tuner.devices.opencl.platforms import versions

        return versions(int(device.id.partition(":")[2]))
    if device.kind == "cuda":
        driver = re.search(r"CUDA driver ([\d.]+)", device.toolchain)
        return {
            "compute_capability": f"{10 * device.limits.compute_capability:.0f}",
            **({"cuda_version": driver[1]} if driver else {}),
            "pci_bus_id": device.place,
            **_uuid(device),
            "device_properties": _properties(device),
        }
    return {"CC Version": device.toolchain}


def _uuid(device: DeviceInfo) -> dict[str, str]:
    """Empty without NVML."""
    from tuner.devices.cuda.sensors import NvmlSensors

    with contextlib.suppress(OSError):
        uuid = NvmlSensors(device.place).uuid()
        return {} if uuid is None else {"uuid": uuid}
    return {}


def _properties(device: DeviceInfo) -> dict[str, int]:
    """The limits of a GPU, as far as they are known here, by the names that PyCUDA gives them."""
    limits = device.limits
    named = {
        "WARP_SIZE": limits.warp_size,
        "MULTIPROCESSOR_COUNT": device.units,
        "MAX_THREADS_PER_BLOCK": limits.max_threads,
        "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN": limits.max_shared_memory,
        "MAX_REGISTERS_PER_BLOCK": limits.max_registers,
        "MAX_THREADS_PER_MULTIPROCESSOR": limits.multiprocessor_threads,
        "MAX_REGISTERS_PER_MULTIPROCESSOR": limits.multiprocessor_registers,
        "MAX_SHARED_MEMORY_PER_MULTIPROCESSOR": limits.multiprocessor_shared_memory,
        **{f"MAX_BLOCK_DIM_{axis}": most for axis, most in zip("XYZ", limits.max_block, strict=True)},
        **{f"MAX_GRID_DIM_{axis}": most for axis, most in zip("XYZ", limits.max_grid, strict=True)},
    }
    return {name: value for name, value in named.items() if value}


def best(rows: Sequence[Row], objective: str, is_higher_better: bool) -> Row | None:
    """The best row; None if all configurations failed. Unlike Kernel Tuner, it takes numbers of any type.

    Raises RequestError for an objective that is no number.
    """
    values = [
        (_number(each[objective], objective), each) for each in rows if "__error__" not in each and objective in each
    ]
    right = [pair for pair in values if not math.isnan(pair[0])]
    return (max if is_higher_better else min)(right, key=lambda pair: pair[0])[1] if right else None


def _number(value: Any, objective: str) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        raise RequestError(f"objective: {objective} is {value!r} in a row; it must be a number") from None
