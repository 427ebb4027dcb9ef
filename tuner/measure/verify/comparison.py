"""The comparison of an output with its answer, on the host.

`bench_kernels.cu` applies the same rule on the device, with bitwise equal results.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tuner.classes import dataclass
from tuner.errors import WrongResult
from tuner.measure.bound import Bound
from tuner.space import dtypes
from tuner.space.dtypes import DType

if TYPE_CHECKING:
    from tuner.devices.base import Array
    from tuner.space.values.elements import Elements

_NONE = np.zeros((), bool)
UNWRITTEN = "is not written, or NaN"  # of an element that holds the poison still
CHUNK = 1 << 20  # elements compared at a time; keeps the temporaries in cache


@dataclass(frozen=True)
class Verdict:
    """The largest error among the right elements of an output, its bound, and the number of wrong elements.

    If elements have different bounds, `error` is relative to the bound of its element, and `bound` is 1.
    """

    error: float
    bound: float
    wrong: int = 0

    @property
    def share(self) -> float:
        """The error as a fraction of its bound, 0 to 1."""
        return self.error / self.bound if self.bound else 0.0

    @staticmethod
    def of(worst: float, wrong: int, bound: Bound) -> Verdict:
        """The verdict on an output; `worst` is the largest error of a right element.

        If `bound` is not uniform, `worst` is relative to the bound of that element.
        """
        return Verdict(worst, bound.atol if bound.is_uniform else 1.0, wrong)


class Tally:
    """Counts the wrong elements of one output, chunk by chunk.

    wrong: elements whose error exceeds their bound, or that are unwritten. unwritten: elements that still hold the
    poison. worst: as in `Verdict.of`. first: the index of the first wrong element, or -1. most: the largest error of a
    wrong element, in multiples of its bound if bounds differ between elements; not finite if an error is.
    """

    def __init__(self, bound: Bound, count: int) -> None:
        self._bound, self._most = bound, bound.most_wrong(count)
        self.wrong = self.unwritten = 0
        self.worst, self.most, self.first = 0.0, 0.0, -1

    @property
    def is_right(self) -> bool:
        return self.wrong <= self._most and not self.unwritten

    def add(self, start: int, actual: Array, expected: Array, poison: Array | None = None) -> None:
        """Count a chunk that begins at element `start`. `poison` is its content before the run, for integers."""
        dtype = dtypes.of(actual.dtype)
        if dtype.kind == "boolean":
            actual = actual.view(dtype.bits)  # any byte other than 0 and 1 is wrong
        error = error_of(actual.astype(dtype.wide, copy=False) if dtype.foreign else actual, expected)
        limits = self._bound.limits(expected)
        right = (error == 0) | ((error <= limits) & np.isfinite(error))
        if dtype.is_exact:
            unwritten = ~right & (actual == poison.view(actual.dtype)) if poison is not None else _NONE
        else:
            unwritten = _is_poison(actual, dtype)
            right &= ~unwritten
        if not right.all():
            self.first = start + int(np.argmin(right)) if self.first < 0 else self.first
            self.wrong += int(right.size - np.count_nonzero(right))
            self.unwritten += int(np.count_nonzero(unwritten))
        if not self._bound.is_uniform:
            with np.errstate(divide="ignore"):  # no error is allowed beside an answer of 0
                error = np.divide(error, limits, out=np.zeros_like(error), where=error != 0)
        self.worst = max(self.worst, float(np.max(error, initial=0.0, where=right)))
        if self.wrong:
            self.most = float(np.max(error, initial=self.most, where=~right))  # NaN if one is

    def include(self, other: Tally) -> None:
        """Add what another tally of the same output has counted, in elements that come later."""
        self.wrong, self.unwritten = self.wrong + other.wrong, self.unwritten + other.unwritten
        self.worst, self.most = max(self.worst, other.worst), float(np.maximum(self.most, other.most))
        self.first = other.first if self.first < 0 else self.first


def compare(name: str, output: Elements, answer: Elements, bound: Bound, poison: Array | None = None) -> Verdict:
    """The verdict on `output`, given its `answer` of the same shape.

    An element is right if it is within its bound, if both are the same infinity, or if both are NaN. It is wrong if it
    still holds the poison, which is the NaN whose bits are all 1 or, for integers, the element of the array `poison`.
    Raises WrongResult, which names the first wrong element, if more elements are wrong than `bound` allows.
    """
    tally = Tally(bound, output.size)
    with np.errstate(all="ignore"):
        for start, actual in output.parts(CHUNK):
            chunk = slice(start, start + actual.size)
            expected = answer.part(chunk.start, chunk.stop)
            tally.add(start, actual, expected, None if poison is None else poison.reshape(-1)[chunk])
    if not tally.is_right:
        raise wrong_result(tally, name, output, answer, bound)
    return Verdict.of(tally.worst, tally.wrong, bound)


def wrong_result(tally: Tally, name: str, output: Elements, answer: Elements, bound: Bound) -> WrongResult:
    """The error of an output that is wrong by its tally."""
    first = tally.first
    actual_first, right = output.part(first, first + 1), answer.part(first, first + 1)
    what = _difference(element_name(name, first, answer.shape), actual_first, right[0])
    return WrongResult(
        f"{what}; {tally.wrong} of {output.size} elements are off by more than {bound}"
        f"{_most(tally, bound)}{_excess(tally, bound, output.size)}",
        "not a number" if np.isnan(actual_first[0]) else None,  # possibly not written: outputs begin as NaN
    )


def element_name(name: str, number: int, shape: tuple[int, ...]) -> str:
    """`y[3, 0]`: the name of the element with this number in row-major order."""
    index = ", ".join(str(int(i)) for i in np.unravel_index(number, shape))
    return f"{name}[{index}]" if index else name


def _most(tally: Tally, bound: Bound) -> str:
    """How far the wrong elements are off, from which a reader tells errors of rounding from wrong numbers."""
    if not np.isfinite(tally.most):
        return ""
    return f", by up to {tally.most:.3g}{'' if bound.is_uniform else ' times that'}"


def _excess(tally: Tally, bound: Bound, count: int) -> str:
    if not bound.wrong:
        return ""
    unwritten = f", and {tally.unwritten} were not written" if tally.unwritten else ""
    return f"; {bound.most_wrong(count)} may be{unwritten}"


def error_of(actual: Array, expected: Array) -> Array:
    """The absolute differences of elements; for complex ones, the magnitudes of the differences.

    The same infinity, or NaN in both, is no error. Differences of integers are exact before they are rounded to
    float64.
    """
    if np.iscomplexobj(actual):
        return np.hypot(error_of(actual.real, expected.real), error_of(actual.imag, expected.imag))
    if all(dtypes.of(side.dtype).is_exact for side in (actual, expected)):
        a, b = actual.astype(np.uint64), expected.astype(np.uint64)  # modulo 2**64, so that no difference overflows
        return np.where(actual > expected, a - b, b - a).astype(np.float64)
    error = np.asarray(np.abs(np.subtract(actual, expected, dtype=np.float64)))
    if not np.isfinite(error).all():
        error[(actual == expected) | (np.isnan(actual) & np.isnan(expected))] = 0.0
    return error


def _difference(element: str, actual: Array, expected: np.generic) -> str:
    """The written and the expected value of an element, with enough digits to distinguish them."""
    dtype = dtypes.of(actual.dtype)
    if not dtype.is_exact and _is_poison(actual, dtype).any():
        return f"{element} {UNWRITTEN}; {_shown(expected, 7)} expected"
    texts = [[_shown(value, digits) for value in (actual[0], expected)] for digits in (7, 17)]
    written, right = texts[0] if texts[0][0] != texts[0][1] else texts[1]
    return f"{element} = {written}, {right} expected"


def _shown(element: np.generic, digits: int) -> str:
    return str(element) if dtypes.of(element.dtype).is_exact else f"{element.item():.{digits}g}"


def _is_poison(elements: Array, dtype: DType) -> Array:
    """Whether an element, or a part of a complex one, is the NaN whose bits are all 1."""
    bits = elements.view(dtype.bits).reshape(-1, dtype.parts)
    return np.asarray((bits == np.array(-1).astype(dtype.bits)).any(axis=1))
