"""How far an output may lie from its reference, as a space file says it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tuner.errors import ExpressionError
from tuner.quoting import quoted, shown

if TYPE_CHECKING:
    from tuner.space.expressions import Expression

# What a tolerance may say: an absolute error; one relative to the answer; units in the last place; the fraction of
# elements that may be further off.
TERMS = ("atol", "rtol", "ulp", "wrong")
EPSILON = "epsilon"  # the unit round-off of the output's type; 0 for integers


@dataclass(frozen=True)
class Tolerance:
    """The terms of one output, each an expression; None where the file does not say it."""

    atol: Expression | None = None
    rtol: Expression | None = None
    ulp: Expression | None = None
    wrong: Expression | None = None

    @property
    def terms(self) -> dict[str, Expression]:
        """The expressions that the file says, by term."""
        return {term: value for term in TERMS if (value := getattr(self, term)) is not None}

    def values(self, names: Mapping[str, Any]) -> dict[str, float]:
        """The values of those terms. Raises ExpressionError for one that the term may not have."""
        return {term: value_of(term, expression, names) for term, expression in self.terms.items()}


def value_of(term: str, expression: Expression, names: Mapping[str, Any]) -> float:
    """The value of one term. Raises ExpressionError where it is negative or no number, and for a `wrong` of 1 or
    more."""
    value = expression.evaluate(names)
    if isinstance(value, int | float) and 0 <= value < (1 if term == "wrong" else math.inf):
        return float(value)
    allowed = "a fraction of the elements, from 0 on and below 1," if term == "wrong" else "a number from 0 on"
    raise ExpressionError(f"{term} `{shown(expression.text)}` is {quoted(value)}; {allowed} is needed")
