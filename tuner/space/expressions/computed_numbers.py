"""Numbers that a program computes for each configuration, such as the blocks of a grid.

Only its own process has the functions. It sends the values with each configuration to other processes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any

from tuner.classes import dataclass
from tuner.errors import ExpressionError
from tuner.space.expressions import CallExpression


@dataclass(frozen=True)
class ComputedNumber(CallExpression):
    """A whole number that a function computes from a configuration. `text` is its name.

    reads: the parameters of the configuration.
    function: takes a dictionary of them, and raises ExpressionError if there is no number; None in other processes.
    made_of: whatever decides what the function returns.
    """

    function: Callable[[Mapping[str, Any]], int] | None = field(default=None, compare=False)
    made_of: Any = field(default=None, compare=False)

    def evaluate(self, scope: Mapping[str, Any]) -> int:
        """The number. Raises ExpressionError if there is none, or if another process has the function."""
        return self._of_values([scope[name] for name in self.reads])

    def _of_values(self, values: Sequence[Any]) -> int:
        if self.function is None:
            raise ExpressionError(f"{self.text}: only the process that has its function can compute it")
        return self.function(dict(zip(self.reads, values, strict=True)))
