"""Restrictions that are Python functions: expressions whose tree is one call, which only this process evaluates."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from tuner.classes import dataclass
from tuner.errors import ExpressionError
from tuner.quoting import described, quoted
from tuner.space.expressions import CallExpression
from tuner.space.expressions.evaluator import unknown_name, value_of
from tuner.space.expressions.function_names import origin

_BY_NAME = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.POSITIONAL_ONLY)


@dataclass(frozen=True)
class FunctionExpression(CallExpression):
    """A function that decides about a configuration. `text` names it; `reads` are the names whose values it gets.

    takes_all: it takes the configuration as one dictionary, in place of a parameter for each name.
    by_position: the names of parameters that have no keyword.
    """

    function: Callable[..., Any]
    takes_all: bool = False
    by_position: frozenset[str] = frozenset()

    def evaluate(self, scope: Mapping[str, Any]) -> Any:
        """Whether the function accepts these values. Raises ExpressionError, which names it, if it raises anything."""
        return value_of(self._of_names, scope, self.text)

    def _of_names(self, names: Mapping[str, Any]) -> bool:
        try:
            values = [names[name] for name in self.reads]
        except KeyError as error:
            raise ExpressionError(unknown_name(str(error.args[0]), names)) from None
        return self._of_values(values)

    def _of_values(self, values: Sequence[Any]) -> bool:
        named = dict(zip(self.reads, values, strict=True))
        positional = [named] if self.takes_all else [named[name] for name in self.reads if name in self.by_position]
        keywords = {} if self.takes_all else {n: value for n, value in named.items() if n not in self.by_position}
        try:
            return _truth(self.function(*positional, **keywords))
        except ExpressionError:
            raise
        except Exception as error:
            hint = "; its parameter is a dictionary" if self.takes_all and isinstance(error, TypeError) else ""
            raise ExpressionError(f"it raises {described(error)}{hint}") from None


def restriction(
    function: Callable[..., Any], names: Collection[str], parameters: Collection[str]
) -> FunctionExpression:
    """The expression of a function that restricts configurations.

    names: those that the function's parameters may have: parameters of the space, sizes, derived values and so on.
    parameters: those of the space. A function with one parameter of another name gets a dictionary of them.

    Raises ExpressionError if it needs anything else.
    """
    text = origin(function)
    try:
        signature = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        raise ExpressionError(f"`{text}`: its parameters are unknown; define it with `def`") from None
    named = [p for p in signature if p.kind in _BY_NAME]
    reads = tuple(p.name for p in named if p.name in names)
    unknown = [p for p in named if p.name not in names and p.default is p.empty]
    takes_all = not reads and len(unknown) <= 1 and any(p.kind is not p.KEYWORD_ONLY for p in signature)
    if takes_all:
        if any(p.kind is p.VAR_KEYWORD for p in signature) and not unknown:
            return FunctionExpression(text, tuple(parameters), function)
        return FunctionExpression(text, tuple(parameters), function, takes_all=True)
    if unknown:
        raise ExpressionError(f"`{text}`: {unknown_name(unknown[0].name, names)}")
    if any(p.kind is p.VAR_KEYWORD for p in signature):
        reads = tuple(dict.fromkeys([*reads, *parameters]))
    by_position = frozenset(p.name for p in named if p.kind is p.POSITIONAL_ONLY)
    return FunctionExpression(text, reads, function, by_position=by_position)


def _truth(result: Any) -> bool:
    if result is None or isinstance(result, str):
        raise ExpressionError(f"it returns {quoted(result)}; return true or false")
    return bool(result)
