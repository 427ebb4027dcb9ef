"""Expressions of a space file as frozen values.

`evaluator` checks and evaluates their text.
"""

import ast
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from tuner.classes import dataclass
from tuner.errors import ExpressionError
from tuner.quoting import quoted, shown
from tuner.space.expressions.evaluator import (
    Evaluator,
    PythonCall,
    check_tree,
    checked,
    evaluator_of,
    names_in,
    text_of,
    value_of,
)


@dataclass(frozen=True)
class Expression:
    """A checked expression. Expressions with equal texts are equal."""

    text: str

    @property
    def tree(self) -> ast.expr:
        """The checked syntax tree."""
        return _parse(self.text)

    @property
    def names(self) -> frozenset[str]:
        """The names that the expression reads."""
        return _names(self)

    @property
    def is_python(self) -> bool:
        """Whether it is a Python function, whose text only names it."""
        return False

    @property
    def is_name(self) -> bool:
        """Whether the expression is a single name."""
        return isinstance(self.tree, ast.Name)

    def evaluate(self, scope: Mapping[str, Any]) -> Any:
        """The value of the expression. `scope` maps names to values.

        Only names on the evaluated path are looked up: `x if c else y` never evaluates the other branch. Raises
        ExpressionError, naming the expression, for an unknown name, a division by zero, a number beyond 2**64, or
        operands of incompatible types.
        """
        return value_of(_parsed_evaluator(self.text), scope, self.text)

    def integer(self, scope: Mapping[str, Any]) -> int:
        """The value of the expression as an integer. Raises ExpressionError if it is not a whole number."""
        value = scope.get(self.text)  # fast path: most expressions are a single name
        if type(value) is int:
            return value
        value = self.evaluate(scope)
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if not isinstance(value, int):
            raise ExpressionError(f"`{shown(self.text)}` is {quoted(value)}; a whole number is needed")
        return int(value)


@dataclass(frozen=True)
class ArrayExpression(Expression):
    """A checked expression over arrays.

    It imports NumPy only when it is used, because a launch never evaluates one.
    """

    @property
    def tree(self) -> ast.expr:
        """The checked syntax tree."""
        from tuner.space.expressions import array_expressions

        return array_expressions.tree_of(self.text)

    def evaluate(self, scope: Mapping[str, Any]) -> Any:
        """The value of the expression: an array or a number. Raises ExpressionError, whose message begins with the
        expression."""
        from tuner.space.expressions import array_expressions

        return array_expressions.value_of(self.tree, scope, self.text)


@dataclass(frozen=True)
class CallExpression(Expression):
    """One call of a function, which `text` names. `reads` are the names whose values it gets."""

    reads: tuple[str, ...]

    @property
    def tree(self) -> ast.expr:
        """One call, whose arguments are the names that the function reads."""
        parts: dict[str, Any] = {"call": self._of_values, "args": [ast.Name(name) for name in self.reads]}
        return PythonCall(**parts)

    @property
    def is_python(self) -> bool:
        """Whether it is a Python function, whose text only names it."""
        return True

    @property
    def names(self) -> frozenset[str]:
        """The names that the function reads."""
        return frozenset(self.reads)

    @abstractmethod
    def _of_values(self, values: Sequence[Any]) -> Any:
        """The value, given those of `reads`. Raises ExpressionError if there is none."""


def parse(text: object) -> Expression:
    """The checked Expression of `text`, which may also be a number. Raises ExpressionError if it is not allowed."""
    expression = Expression(text_of(text))
    _parse(expression.text)
    return expression


def parse_value(value: object) -> Expression:
    """As `parse`, but it raises ValueError: pydantic takes no other error for a fault of a value."""
    try:
        return parse(value)
    except ExpressionError as error:
        raise ValueError(str(error)) from None


def parse_array(text: object) -> ArrayExpression:
    """The checked ArrayExpression of `text`, which may also be a number. Raises ExpressionError if it is not
    allowed."""
    expression = ArrayExpression(text_of(text))
    _ = expression.tree
    return expression


def check_constants(expression: Expression) -> None:
    """Raise ExpressionError if a part without names has no value, such as 9**9**9 or 1 // 0."""
    for node in ast.walk(expression.tree):
        if isinstance(node, ast.BinOp | ast.UnaryOp | ast.Compare | ast.Call) and not names_in(node):
            value_of(evaluator_of(node), {}, ast.unparse(node))


def multiplies_matrices(expression: Expression) -> bool:
    """Whether the expression contains the operator @."""
    return any(isinstance(node, ast.MatMult) for node in ast.walk(expression.tree))


@lru_cache(maxsize=4096)
def _names(expression: Expression) -> frozenset[str]:
    return names_in(expression.tree)


@lru_cache(maxsize=4096)
def _parse(text: str) -> ast.expr:
    return checked(text, check_tree)


@lru_cache(maxsize=4096)
def _parsed_evaluator(text: str) -> Evaluator:
    return evaluator_of(_parse(text))
