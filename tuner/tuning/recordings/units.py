"""Units of time in files of results, and their values in ms."""

from __future__ import annotations

from typing import Any

from tuner.store.record_rules import SHORTEST_MS

FAILURE = 1e20  # in place of a time, old versions of Kernel Tuner wrote this for a failure
_MS = {"ms": 1.0, "s": 1e3, "us": 1e-3, "ns": 1e-6}  # unit: ms per unit
_NAMES = {"milliseconds": "ms", "seconds": "s", "microseconds": "us", "nanoseconds": "ns"}  # in any case
KNOWN = ", ".join([*_MS, *_NAMES])


def ms_per(unit: Any) -> float | None:
    """How many ms a unit has; None if it is none of KNOWN."""
    return _MS.get(_NAMES.get(unit.lower(), unit)) if isinstance(unit, str) else None


def milliseconds(value: Any, ms_per_unit: float = 1.0) -> float | None:
    """`value`, a time in units of so many ms, in ms; None if it is not a time, such as the name of a failure."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < FAILURE:
        return None
    time_ms = value * ms_per_unit
    return time_ms if time_ms >= SHORTEST_MS else None


def is_failure(value: Any) -> bool:
    """Whether `value`, in place of a time, says that a configuration failed: it is a name, or FAILURE or more."""
    return isinstance(value, str) or (isinstance(value, int | float) and value >= FAILURE)


def times(values: Any, ms_per_unit: float = 1.0) -> tuple[float, ...]:
    """Those of `values` that are times, in ms; empty if it is no list."""
    if not isinstance(values, list):
        return ()
    return tuple(time_ms for value in values if (time_ms := milliseconds(value, ms_per_unit)) is not None)
