"""Conversion between a Trial and its form in an Optuna study."""

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from optuna.trial import FrozenTrial, TrialState

from tuner.devices import environment
from tuner.devices.builds.figures import FIGURE_NAMES, Figures
from tuner.measure.results import STAGES, Outcome
from tuner.space.config import Value
from tuner.space.values import bit_classes
from tuner.tuning.ledger.trial import Trial

UNREADABLE = "unreadable"  # attribute of the trials that replace corrupt rows of a database


def state_of(trial: Trial) -> TrialState:
    """The Optuna state of a trial."""
    return TrialState.COMPLETE if trial.outcome.failure is None else TrialState.FAIL


def values_of(trial: Trial) -> list[float] | None:
    """The Optuna values of a trial; None if it failed."""
    return list(trial.values) or None


def attribute(trial: Trial) -> dict[str, Any]:
    """Everything else that a study stores of a trial, as one attribute, so that it is written atomically."""
    outcome = trial.outcome
    fields = {
        "config": trial.config,  # a damaged journal may have lost Optuna's parameters
        "times_ms": list(outcome.times),
        "error": outcome.error,
        "bound": outcome.bound,
        "wrong": outcome.wrong or None,
        "energy_mj": outcome.energy_mj,
        "failure": outcome.failure,
        "log": outcome.log[-4000:] or None,
        **outcome.figures.to_json(),
        "occupancy": outcome.occupancy,
        "doubtful": outcome.doubtful or None,
        "observed": dict(outcome.observed) or None,
        "clock_mhz": outcome.clock_mhz,
        "bits": dict(outcome.bits) or None,
        "given": trial.given or None,
        "seconds": dict(outcome.seconds) or None,
        "timeout_s": trial.timeout,
        "values": list(trial.values),
    }
    return {name: value for name, value in fields.items() if value is not None}


def from_optuna(trial: FrozenTrial, parameters: Mapping[str, Sequence[Value]], objectives: int | None) -> Trial | None:
    """The Trial in an Optuna trial; None if it was not measured, or if the machine may have caused its failure.

    Raises ValueError if it is corrupt: if its configuration is not of `parameters`, if its number of values is not
    `objectives` (None: any number), or if a field has a wrong type or range.
    """
    if UNREADABLE in trial.user_attrs:
        raise ValueError("cannot be read")
    fields = trial.user_attrs.get("measured")
    if fields is None:
        return None
    try:
        if environment.is_doubtful(fields.get("failure"), fields.get("log", "")):
            return None
        outcome = Outcome(
            times=tuple(_numbers(fields["times_ms"], least=sys.float_info.min)),
            error=_number(fields["error"]),
            bound=_number(fields["bound"]),
            wrong=_count(fields.get("wrong", 0)),
            energy_mj=_optional(_number, fields.get("energy_mj")),
            failure=_optional(_text, fields.get("failure")),
            log=_text(fields.get("log", "")),
            figures=Figures(*(_optional(_count, fields.get(name)) for name in FIGURE_NAMES)),
            occupancy=_optional(_number, fields.get("occupancy")),
            doubtful=fields.get("doubtful") is True,
            observed=dict(fields.get("observed", {})),
            bits=_bits(fields.get("bits")),
            seconds=_seconds(fields.get("seconds")),
            clock_mhz=_optional(_number, fields.get("clock_mhz")),
        )
        values, timeout = tuple(_numbers(fields["values"], most=math.inf)), _number(fields["timeout_s"])
        is_given = fields.get("given") is True
        result = Trial(fields["config"], outcome, values, timeout, trial.datetime_complete, is_given)
        is_known = is_config(result.config, parameters)
    except (LookupError, TypeError, AttributeError) as error:
        raise ValueError(f"not a trial: {error}") from None
    due = 0 if outcome.failure is not None else len(result.values) if objectives is None else objectives
    if not is_known or len(result.values) != due or (outcome.failure is None and not (outcome.times and due)):
        raise ValueError("not a trial of this study")
    return result


def is_config(config: Mapping[str, Value], parameters: Mapping[str, Sequence[Value]]) -> bool:
    """Whether `config` has a declared value for each of `parameters`. True is not 1."""
    return config.keys() == parameters.keys() and all(
        any(type(value) is type(other) and value == other for other in parameters[name])
        for name, value in config.items()
    )


def is_number(value: object) -> bool:
    """Whether `value` is a number that a float can hold."""
    try:
        return isinstance(value, int | float) and not isinstance(value, bool) and not math.isnan(float(value))
    except OverflowError:
        return False


def _number(value: Any, least: float = 0.0, most: float = sys.float_info.max) -> Any:
    if not is_number(value) or not least <= value <= most:
        raise ValueError(f"{str(value)[:20]} is not a number from {least} to {most}")
    return value


def _numbers(values: Any, least: float = 0.0, most: float = sys.float_info.max) -> list[float]:
    if not isinstance(values, list):
        raise ValueError("not a list")
    return [_number(value, least, most) for value in values]


def _seconds(value: Any) -> dict[str, float]:
    """The seconds of each stage, without invalid ones: they are only for display, and an earlier version had none."""
    known = value if isinstance(value, dict) else {}
    return {stage: known[stage] for stage in STAGES if is_number(known.get(stage)) and 0 <= known[stage] < math.inf}


def _bits(value: Any) -> dict[str, str]:
    """The digests of outputs; none if they are invalid, or of an earlier version, which had none."""
    return dict(value) if bit_classes.is_valid(value) else {}


def _count(value: Any) -> int:
    if not isinstance(value, int):
        raise ValueError("not a whole number")
    return int(_number(value))


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError("not a string")
    return value


def _optional(read: Callable[[Any], Any], value: Any) -> Any:
    return None if value is None else read(value)
