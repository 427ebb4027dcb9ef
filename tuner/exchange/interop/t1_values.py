"""Parser of the value lists that T1 files write as Python expressions, which are never executed."""

import ast
from collections.abc import Mapping, Sequence
from typing import Any

from tuner.errors import ExpressionError
from tuner.space import expressions
from tuner.space.config import MAX_VALUES

_ALLOWED = "write [1, 2, 4], range(1, 9) or [16 * i for i in range(1, 9)]"


def values(text: Any) -> list[Any]:
    """The values of a list such as `[1, 2]`, `list(range(1, 9))` or `[16 * i for i in range(1, 9)]`. Raises
    ExpressionError for anything else."""
    if isinstance(text, list):
        return text
    try:
        return list(_sequence(ast.parse(str(text)[: 1 << 16].strip(), mode="eval").body))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise ExpressionError(f"`{str(text)[:60]}` is not a list of values; {_ALLOWED}") from None


def _sequence(node: ast.expr) -> Sequence[Any]:
    match node:
        case ast.List(elts=elements) | ast.Tuple(elts=elements):
            return [_value(element, {}) for element in elements]
        case ast.Call(func=ast.Name(id="list" | "tuple"), args=[inner], keywords=[]):
            return _sequence(inner)
        case ast.Call(func=ast.Name(id="range"), args=arguments, keywords=[]) if 1 <= len(arguments) <= 3:
            return _range([_value(argument, {}) for argument in arguments])
        case ast.ListComp(elt=element, generators=[ast.comprehension(target=ast.Name(id=name), iter=inner, ifs=[])]):
            return [_value(element, {name: value}) for value in _sequence(inner)]
    raise ValueError


def _range(bounds: Sequence[Any]) -> Sequence[Any]:
    numbers = range(*bounds) if all(isinstance(bound, int) for bound in bounds) else range(0)
    if not 0 < len(numbers) <= MAX_VALUES:
        raise ExpressionError(f"range{tuple(bounds)} must have 1 to {MAX_VALUES} values")
    return numbers


def _value(node: ast.expr, names: Mapping[str, Any]) -> Any:
    return expressions.parse(ast.unparse(node)).evaluate(names)
