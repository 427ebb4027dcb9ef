"""The comparison of an output with its reference on the host, and how far they may lie apart."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tuner.errors import WrongResult
from tuner.space import dtypes

if TYPE_CHECKING:
    from tuner.devices.base import Array
    from tuner.space.dtypes import DType
    from tuner.space.model import Operation, Scope

_CHUNK = 1 << 20  # elements compared at a time; keeps the temporaries in cache


@dataclass(frozen=True)
class Verdict:
    """The largest error over all outputs, and the bound for that output."""

    error: float
    bound: float


def bound(op: Operation, scope: Scope, dtype: DType, answer: Array) -> float:
    """The largest error an output of `dtype` may have, whose reference is `answer`.

    The operation's `tolerance` gives it, with `epsilon` the unit round-off of `dtype`. Without a tolerance it is
    16 epsilon times the largest finite magnitude in `answer` (at least 1), and twice that where the answer was rounded
    too, by a kernel. Integers must be exact.
    """
    if dtype.is_exact:
        return 0.0
    if op.tolerance is not None:
        return float(op.tolerance.evaluate({**scope.names, "epsilon": dtype.epsilon}))
    roundings = 2 if op.reference.kind in ("kernel", "config") else 1
    return 16 * roundings * dtype.epsilon * float(np.max(np.abs(answer), initial=1.0, where=np.isfinite(answer)))


def compare(name: str, output: Array, answer: Array, limit: float) -> float:
    """The largest error of `output` against `answer`, an array of the same shape.

    An element is right within `limit` of its answer, or where it is the same infinity, or where both are NaN. It is
    wrong wherever it still holds the poison that is NaN. Raises WrongResult, which names the first wrong element.
    """
    dtype, actual, expected = dtypes.of(output.dtype), output.reshape(-1), answer.reshape(-1)
    if dtype.kind == "boolean":
        actual = actual.view(dtype.bits)  # any other byte than 0 and 1 is wrong, too
    exact = dtype.is_exact and dtypes.of(answer.dtype).is_exact  # beyond 2**53, a difference in float64 is not
    worst, wrong, first = 0.0, 0, -1
    for start in range(0, actual.size, _CHUNK):
        chunk = slice(start, start + _CHUNK)
        with np.errstate(invalid="ignore", over="ignore"):
            error = _error(actual[chunk].astype(dtype.wide, copy=False), expected[chunk])
        right = actual[chunk] == expected[chunk] if exact else error <= limit
        if not dtype.is_exact:
            right &= ~_is_poison(actual[chunk], dtype)
        if not right.all():
            wrong += int(right.size - np.count_nonzero(right))
            first = start + int(np.argmin(right)) if first < 0 else first
        worst = max(worst, float(np.max(error, initial=0.0, where=right)))
    if wrong:
        index = ", ".join(str(int(i)) for i in np.unravel_index(first, answer.shape))
        raise WrongResult(
            f"{name}[{index}] = {_shown(actual[first])}, {_shown(expected[first])} expected; "
            f"{wrong} of {actual.size} elements are off by more than {limit:.2g}",
            "not a number" if np.isnan(actual[first]) else None,  # or not written: outputs begin as NaN
        )
    return worst


def _shown(element: np.generic) -> str:
    return str(element) if dtypes.of(element.dtype).is_exact else f"{element.item():.7g}"


def _error(actual: Array, expected: Array) -> Array:
    """How far the elements lie apart; those of a complex array by the absolute value of their difference. The same
    infinity, or NaN in both, is no error."""
    if np.iscomplexobj(actual):
        return np.hypot(_error(actual.real, expected.real), _error(actual.imag, expected.imag))
    error = np.asarray(np.abs(np.subtract(actual, expected, dtype=np.float64)))
    if not np.isfinite(error).all():
        error[(actual == expected) | (np.isnan(actual) & np.isnan(expected))] = 0.0
    return error


def _is_poison(elements: Array, dtype: DType) -> Array:
    """Where an element, or a part of it, is the NaN whose bits are all 1."""
    bits = elements.view(dtype.bits).reshape(-1, dtype.parts)
    return np.asarray((bits == np.array(-1).astype(dtype.bits)).any(axis=1))
