"""How far an output may lie from its answer: the tolerance of an operation as numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tuner.errors import ExpressionError, SpaceError
from tuner.space.dtypes import DType
from tuner.space.values.tolerance import EPSILON, Tolerance

if TYPE_CHECKING:
    from tuner.devices.base import Array
    from tuner.space.model import Operation
    from tuner.space.scope import Scope
    from tuner.space.values.elements import Elements


@dataclass(frozen=True)
class Bound:
    """How far elements of an output of `dtype` may lie from their answers: within atol + rtol |answer|, or within
    `ulp` units in the last place of the answer, whichever is more. The fraction `wrong` of them may be further off."""

    dtype: DType
    atol: float = 0.0
    rtol: float = 0.0
    ulp: float = 0.0
    wrong: float = 0.0

    @property
    def is_uniform(self) -> bool:
        """Whether it is the same for every element."""
        return self.rtol == self.ulp == 0

    @property
    def is_exact(self) -> bool:
        """Whether every element must equal its answer."""
        return self.atol == self.rtol == self.ulp == self.wrong == 0

    @property
    def precision(self) -> tuple[int, int]:
        """The bits of a fraction, and the least exponent, of a type that is not exact."""
        return self.dtype.digits, self.dtype.least_exponent

    def most_wrong(self, count: int) -> int:
        """How many of `count` elements may be further off."""
        return int(self.wrong * count)

    def limits(self, answers: Array) -> Array | float:
        """The largest error of each element that has one of these answers."""
        if self.is_uniform:
            return self.atol
        sizes = np.abs(answers.astype(np.float64, copy=False) if self.dtype.is_exact else answers)
        if np.iscomplexobj(answers):  # or beside an infinite part, the other may be anything
            sizes = np.where(np.isfinite(sizes), sizes, 0.0)
        limits = self.atol + self.rtol * sizes
        return np.asarray(np.maximum(limits, self.ulp * self._units(sizes)) if self.ulp else limits)

    def _units(self, sizes: Array) -> Array | float:
        """The unit in the last place at numbers of these sizes, in float64."""
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
    """How far the elements of `name`, of this type, may lie from `answer`.

    The operation's `tolerance` says it, with `epsilon` the unit round-off of `dtype`. Where it gives no distance, that
    is 16 epsilon times the largest finite magnitude in `answer` (at least 1), twice that where the answer was rounded
    too, by a kernel, and 0 for integers. Raises SpaceError for a tolerance without a value.
    """
    try:
        terms = op.tolerance.get(name, Tolerance()).values({**scope.names, EPSILON: dtype.epsilon})
    except ExpressionError as error:
        raise SpaceError(f"operation.tolerance: {name}: {error}") from None
    if terms.keys() <= {"wrong"} and not dtype.is_exact:
        roundings = 2 if op.reference.kind in ("kernel", "config") else 1
        terms["atol"] = 16 * roundings * dtype.epsilon * max(1.0, answer.largest)
    return Bound(dtype, **terms)
