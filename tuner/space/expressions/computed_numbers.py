"""Numbers that a program computes for each configuration, such as the blocks of a grid.

Only its own process has the functions. It sends the values with each configuration to other processes.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tuner.errors import ExpressionError
from tuner.space.expressions import Expression
from tuner.space.expressions.evaluator import PythonCall


@dataclass(frozen=True)
class ComputedNumber(Expression):
    """A whole number that a function computes from a configuration. `text` is its name.

    reads: the parameters of the configuration.
    function: takes a dictionary of them, and raises ExpressionError if there is no number; None in other processes.
    made_of: whatever decides what the function returns.
    """

    reads: tuple[str, ...]
    function: Callable[[Mapping[str, Any]], int] | None = field(default=None, compare=False)
    made_of: Any = field(default=None, compare=False)

    @property
    def tree(self) -> ast.expr:
        """One call, whose arguments are the parameters."""
        parts: dict[str, Any] = {"call": self._of_values, "args": [ast.Name(name) for name in self.reads]}
        return PythonCall(**parts)

    @property
    def is_python(self) -> bool:
        """Whether it is a Python function, whose text only names it."""
        return True

    @property
    def names(self) -> frozenset[str]:
        """The parameters."""
        return frozenset(self.reads)

    def evaluate(self, scope: Mapping[str, Any]) -> int:
        """The number. Raises ExpressionError if there is none, or if another process has the function."""
        return self._of_values([scope[name] for name in self.reads])

    def _of_values(self, values: Sequence[Any]) -> int:
        if self.function is None:
            raise ExpressionError(f"{self.text}: only the process that has its function can compute it")
        return self.function(dict(zip(self.reads, values, strict=True)))
