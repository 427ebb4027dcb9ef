"""The comparison of an output with its reference on the host, and how far they may lie apart."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tuner.errors import WrongResult

if TYPE_CHECKING:
    from tuner.devices.base import Array
    from tuner.space.model import Operation, Scope

_CHUNK = 1 << 20  # elements compared at a time; keeps the temporaries in cache


@dataclass(frozen=True)
class Verdict:
    """The largest error over all outputs, and the bound for that output."""

    error: float
    bound: float


def bound(op: Operation, scope: Scope, dtype: str, answer: Array) -> float:
    """The largest error an output of `dtype` may have, whose reference is `answer`.

    The operation's `tolerance` gives it, with `epsilon` the unit round-off of `dtype`. Without a tolerance it is
    16 epsilon times the largest finite magnitude in `answer` (at least 1), and twice that where the answer was rounded
    too, by a kernel. Integers must be exact.
    """
    element = np.dtype(dtype)
    if element.kind != "f":
        return 0.0
    epsilon = float(np.finfo(element).eps) / 2
    if op.tolerance is not None:
        return float(op.tolerance.evaluate({**scope.names, "epsilon": epsilon}))
    roundings = 2 if op.reference.kind in ("kernel", "config") else 1
    return 16 * roundings * epsilon * float(np.max(np.abs(answer), initial=1.0, where=np.isfinite(answer)))


def compare(name: str, output: Array, answer: Array, limit: float) -> float:
    """The largest error of `output` against `answer`, an array of the same shape.

    An element is right within `limit` of its answer, or where it is the same infinity, or where both are NaN. It is
    wrong wherever it still holds the poison that is NaN. Raises WrongResult, which names the first wrong element.
    """
    actual, expected = output.reshape(-1), answer.reshape(-1)
    exact = "f" not in (actual.dtype.kind, expected.dtype.kind)  # beyond 2**53, a difference in float64 is not
    worst, wrong, first = 0.0, 0, -1
    for start in range(0, actual.size, _CHUNK):
        chunk = slice(start, start + _CHUNK)
        with np.errstate(invalid="ignore", over="ignore"):
            error = np.abs(np.subtract(actual[chunk], expected[chunk], dtype=np.float64))
        close = actual[chunk] == expected[chunk] if exact else error <= limit
        right = close
        if not close.all():
            same = (actual[chunk] == expected[chunk]) | (np.isnan(actual[chunk]) & np.isnan(expected[chunk]))
            right = (close | same) & ~_is_poison(actual[chunk])
        if not right.all():
            wrong += int(right.size - np.count_nonzero(right))
            first = start + int(np.argmin(right)) if first < 0 else first
        worst = max(worst, float(np.max(error, initial=0.0, where=close)))
    if wrong:
        index = ", ".join(str(int(i)) for i in np.unravel_index(first, answer.shape))
        raise WrongResult(
            f"{name}[{index}] = {_shown(actual[first])}, {_shown(expected[first])} expected; "
            f"{wrong} of {actual.size} elements are off by more than {limit:.2g}",
            "not a number" if np.isnan(actual[first]) else None,  # or not written: outputs begin as NaN
        )
    return worst


def _shown(element: np.generic) -> str:
    return f"{element:.7g}" if element.dtype.kind == "f" else str(element)


def _is_poison(elements: Array) -> Array:
    """Where a floating-point element is the NaN whose bits are all 1."""
    if elements.dtype.kind != "f":
        return np.zeros(elements.shape, dtype=bool)
    bits = elements.view(f"u{elements.dtype.itemsize}")
    return np.asarray(bits == np.iinfo(bits.dtype).max)
