"""Tolerances as a space file declares them: how far an output may differ from its answer."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tuner.classes import dataclass
from tuner.errors import ExpressionError
from tuner.quoting import quoted, shown

if TYPE_CHECKING:
    from tuner.space.expressions import Expression

# Absolute error; error relative to the answer; units in the last place; fraction of elements that may differ by more.
TERMS = ("atol", "rtol", "ulp", "wrong")
EPSILON = "epsilon"  # name for the unit round-off of the output's type; 0 for integers


@dataclass(frozen=True)
class Tolerance:
    """The tolerance of one output: an expression for each declared term."""

    atol: Expression | None = None
    rtol: Expression | None = None
    ulp: Expression | None = None
    wrong: Expression | None = None

    @property
    def terms(self) -> dict[str, Expression]:
        """The declared terms and their expressions."""
        return {term: value for term in TERMS if (value := getattr(self, term)) is not None}

    def values(self, names: Mapping[str, Any]) -> dict[str, float]:
        """The values of the declared terms. Raises ExpressionError if a value is out of range."""
        return {term: value_of(term, expression, names) for term, expression in self.terms.items()}


def value_of(term: str, expression: Expression, names: Mapping[str, Any]) -> float:
    """The value of one term. Raises ExpressionError if it is negative or not a finite number, or if `wrong` is 1 or
    more."""
    value = expression.evaluate(names)
    if isinstance(value, int | float) and 0 <= value < (1 if term == "wrong" else math.inf):
        return float(value)
    allowed = "a fraction of the elements, >= 0 and < 1" if term == "wrong" else "a number >= 0"
    raise ExpressionError(f"{term} `{shown(expression.text)}` is {quoted(value)}; it must be {allowed}")
