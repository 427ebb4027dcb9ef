"""Derived values that a Python function computes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tuner.classes import dataclass
from tuner.errors import ExpressionError
from tuner.space.expressions import Expression
from tuner.space.values.python_function import PythonFunction


@dataclass(frozen=True)
class PythonDerivation(Expression):
    """A function of a Python file that computes a derived value. `text` is `check.py:is_right`.

    arrays: the names of the arrays that it may ask for.
    """

    function: PythonFunction
    arrays: frozenset[str]

    @property
    def names(self) -> frozenset[str]:
        """The arrays that it may read."""
        return self.arrays

    def evaluate(self, scope: Mapping[str, Any]) -> Any:
        """Not possible here: only verification runs Python functions. Raises ExpressionError."""
        raise ExpressionError(f"`{self.text}` is a Python function, which only verification runs")
