"""The results of a run as Kernel Tuner returns them: a dictionary for each configuration, and the environment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC
from typing import Any

import numpy as np
from kernel_tuner import util

from tuner.devices import DeviceInfo
from tuner.door.call import Call
from tuner.measure.results import BUILD, MEASURE, VERIFY, WRONG
from tuner.tuning.ledger.trial import Trial

Row = dict[str, Any]
# Reasons of failures that Kernel Tuner calls a failed compilation: the configuration needs more than the device has.
_RESOURCES = frozenset({"shared memory", "registers", "local memory", "resources"})


class WrongResultConfig(util.RuntimeFailedConfig):  # type: ignore[misc]  # kernel_tuner has no types
    """The error of a configuration whose result is wrong. Kernel Tuner itself ends the run there."""


def row(trial: Trial, call: Call, metrics: Mapping[str, Any] | None) -> Row:
    """The row of a trial, with its times in ms."""
    outcome = trial.outcome
    found: Row = {name: trial.config[name] for name in call.parameters}
    if outcome.failure is not None:
        found["__error__"] = _error(outcome.reason or outcome.failure, outcome.rejection is not None)
        found["error_message"] = outcome.log
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
        "compile_time": milliseconds[BUILD],
        "verification_time": milliseconds[VERIFY],
        "benchmark_time": milliseconds[MEASURE],
        "strategy_time": 0.0,
        "framework_time": 0.0,
    }
    if metrics and "__error__" not in found:
        found = util.process_metrics(found, metrics)
    if trial.finished is not None:
        found["timestamp"] = str(trial.finished.astimezone(UTC))
    return found


def _error(reason: str, is_wrong: bool) -> util.ErrorConfig:
    if is_wrong or reason in WRONG:
        return WrongResultConfig()
    if reason in ("build", "compile") or reason.startswith("build"):
        return util.CompilationFailedConfig()
    return util.RuntimeFailedConfig()


def environment(device: DeviceInfo, call: Call, objective: str) -> dict[str, Any]:
    """What Kernel Tuner says about the machine and the run, as far as it is known here."""
    return {
        "device_name": device.name,
        "kernel_name": call.kernel_name,
        "compiler": device.toolchain,
        "iterations": None,
        "tuner": device.id,
        "objective": objective,
    }


def best(rows: Sequence[Row], objective: str, is_higher_better: bool) -> Row | None:
    """The best row; None if all configurations failed. Unlike Kernel Tuner, it takes numbers of any type."""
    right = [each for each in rows if "__error__" not in each and objective in each]
    if not right:
        return None
    return (max if is_higher_better else min)(right, key=lambda each: float(each[objective]))
