"""Error bounds: the tolerance of an operation as numbers for one output."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from tuner.classes import dataclass
from tuner.errors import ExpressionError, SpaceError
from tuner.space.dtypes import DType
from tuner.space.values.tolerance import EPSILON, Tolerance

if TYPE_CHECKING:
    from tuner.devices.base import Array
    from tuner.space.computation import Operation
    from tuner.space.scope import Scope
    from tuner.space.values.elements import Elements


@dataclass(frozen=True)
class Bound:
    """The largest error that elements of an output of type `dtype` may have.

    An element is within its bound if its error is at most atol + rtol |answer|, or at most `ulp` units in the last
    place of the answer, whichever is larger. A fraction `wrong` of the elements, 0 to 1, may exceed their bound.
    """

    dtype: DType
    atol: float = 0.0
    rtol: float = 0.0
    ulp: float = 0.0
    wrong: float = 0.0

    @property
    def is_uniform(self) -> bool:
        """Whether the bound is the same for every element."""
        return self.rtol == self.ulp == 0

    @property
    def is_exact(self) -> bool:
        """Whether every element must equal its answer."""
        return self.atol == self.rtol == self.ulp == self.wrong == 0

    @property
    def precision(self) -> tuple[int, int]:
        """The fraction bits and the least exponent of a floating-point type."""
        return self.dtype.digits, self.dtype.least_exponent

    def most_wrong(self, count: int) -> int:
        """How many of `count` elements may exceed their bound."""
        return int(self.wrong * count)

    def scaled(self, factor: float) -> Bound:
        """The bound of errors that are so many times as large."""
        return replace(self, atol=factor * self.atol, rtol=factor * self.rtol, ulp=factor * self.ulp)

    def widened(self, other: Bound) -> Bound:
        """The bound that allows at least what each of the two does."""
        terms = {name: max(getattr(self, name), getattr(other, name)) for name in ("atol", "rtol", "ulp", "wrong")}
        return replace(self, **terms)

    def limits(self, answers: Array) -> Array | float:
        """The largest allowed error of each element, given its answer."""
        if self.is_uniform:
            return self.atol
        sizes = np.abs(answers.astype(np.float64, copy=False) if self.dtype.is_exact else answers)
        if np.iscomplexobj(answers):  # otherwise an infinite real part would accept any imaginary part
            sizes = np.where(np.isfinite(sizes), sizes, 0.0)
        limits = self.atol + self.rtol * sizes
        return np.asarray(np.maximum(limits, self.ulp * self._units(sizes)) if self.ulp else limits)

    def _units(self, sizes: Array) -> Array | float:
        """One unit in the last place at numbers of these magnitudes, as float64."""
        if self.dtype.is_exact:
            return 1.0
        bits, least = self.precision
        exponents = (sizes.view(np.int64) >> 52 & 2047) - 1023
        return np.asarray(np.ldexp(1.0, np.maximum(exponents, least) - bits))

    def __str__(self) -> str:
        if self.is_uniform:
            return f"{self.atol:.2g}"
        terms = [f"{self.atol:.2g}"] if self.atol else []
        terms += [f"{self.rtol:.2g} |answer|"] if self.rtol else []
        text = " + ".join(terms)
        return f"{text or '0'} or {self.ulp:g} ulp" if self.ulp else text


def bound(op: Operation, scope: Scope, name: str, dtype: DType, answer: Elements) -> Bound:
    """The bound of the output `name`, of type `dtype`, whose expected content is `answer`.

    The operation's `tolerance` declares it, in terms of `epsilon`, the unit round-off of `dtype`. Without a declared
    distance, floating-point outputs get 16 epsilon times the largest finite magnitude in `answer` (at least 1), doubled
    if a kernel computed the answer, which is then rounded too; integers get 0. Raises SpaceError if the tolerance
    cannot be evaluated.
    """
    try:
        terms = op.tolerance.get(name, Tolerance()).values({**scope.names, EPSILON: dtype.epsilon})
    except ExpressionError as error:
        raise SpaceError(f"operation.tolerance: {name}: {error}") from None
    if terms.keys() <= {"wrong"} and not dtype.is_exact:
        roundings = 2 if op.reference.kind in ("kernel", "config") else 1
        terms["atol"] = 16 * roundings * dtype.epsilon * max(1.0, answer.largest)
    return Bound(dtype, **terms)
