"""The restrictions of a call of Kernel Tuner."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kernel_tuner import util

from tuner.door.calls import script_functions
from tuner.door.calls.call import ELSEWHERE, Call
from tuner.errors import ExpressionError, RequestError
from tuner.quoting import quoted
from tuner.space import expressions

_STAR, _STARS = inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD


def listed(restrictions: Any) -> list[Any]:
    """The restrictions of a call, which may be none, a single one, or a list."""
    if restrictions is None:
        return []
    is_list = isinstance(restrictions, list | tuple) and not _is_pair(restrictions)
    return list(restrictions) if is_list else [restrictions]


def function_of(restriction: Any) -> Any:
    """The function of a restriction that may be a pair of it and the names of the parameters that it takes."""
    return restriction[0] if _is_pair(restriction) else restriction


def _is_pair(restriction: Any) -> bool:
    is_tuple = isinstance(restriction, tuple) and len(restriction) == 2
    return is_tuple and callable(restriction[0]) and isinstance(restriction[1], list | tuple)


def of(call: Call, given: Any) -> str | Callable[..., Any]:
    """A restriction of a call for a space. Raises RequestError if it is neither a text nor a function."""
    if isinstance(given, str):
        return _condition(given, call)
    function, names = function_of(given), [*(given[1] if _is_pair(given) else call.parameters)]
    if unknown := sorted({*names} - {*call.parameters}):
        raise RequestError(f"restrictions: {unknown[0]!r} is no parameter; allowed: {', '.join(call.parameters)}")
    if isinstance(function, util.Constraint):
        return _of_constraint(function, names)
    if not callable(function):
        raise RequestError(f"restrictions: {given!r} is neither a text nor a function; {ELSEWHERE}")
    return _of_configuration(function, names, _is_pair(given))


def _condition(text: str, call: Call) -> str:
    try:
        parsed = expressions.parse(text)
    except ExpressionError as error:
        raise RequestError(
            f"restrictions: {quoted(text)}: {error}; write a function of the configuration instead"
        ) from None
    if unknown := sorted(parsed.names - set(call.parameters)):
        raise RequestError(
            f"restrictions: {quoted(text)}: {unknown[0]} is no parameter; allowed: {', '.join(call.parameters)}"
        )
    return text


def _of_constraint(constraint: Any, names: Sequence[str]) -> Callable[..., Any]:
    """A restriction that python-constraint has. Raises RequestError for one that Kernel Tuner does not convert."""
    try:
        of_values = util.convert_constraint_restriction(constraint)
    except (TypeError, NotImplementedError):
        kind = type(constraint).__name__
        raise RequestError(f"restrictions: {kind}: not supported; write an expression or a function") from None

    def holds(_config: dict[str, Any]) -> bool:
        return bool(of_values([_config[name] for name in names]))

    return holds


def _of_configuration(function: Callable[..., Any], names: Sequence[str], is_pair: bool) -> Callable[..., Any]:
    """A restriction that takes what Kernel Tuner passes: the configuration as a dictionary if it has one parameter,
    otherwise a value for each name."""
    parameters = _parameters(function)
    kinds = {each.kind for each in parameters.values()}
    takes_dictionary = len(parameters) == 1 and not is_pair and kinds.isdisjoint({_STAR, _STARS})
    takes_names = _STAR not in kinds and (_STARS in kinds or parameters.keys() <= {*names})

    def holds(_config: dict[str, Any]) -> bool:
        values = {name: _config[name] for name in names}
        if takes_dictionary:
            return bool(function(values))
        if takes_names:
            return bool(function(**(values if _STARS in kinds else {name: values[name] for name in parameters})))
        return bool(function(*values.values()))

    return script_functions.named_as(holds, function)


def _parameters(function: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    """The parameters of a function; one for a function whose signature is unknown."""
    try:
        return inspect.signature(function).parameters
    except (TypeError, ValueError):
        return {"": inspect.Parameter("config", inspect.Parameter.POSITIONAL_ONLY)}
