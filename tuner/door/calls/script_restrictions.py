"""The restrictions of a call of Kernel Tuner."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tuner.door.calls import script_functions
from tuner.door.calls.call import ELSEWHERE, Call
from tuner.errors import ExpressionError, RequestError
from tuner.quoting import quoted
from tuner.space import expressions


def listed(restrictions: Any) -> list[Any]:
    """The restrictions of a call, which may be none, a single one, or a list."""
    if restrictions is None:
        return []
    return list(restrictions) if isinstance(restrictions, list | tuple) else [restrictions]


def of(call: Call, given: Any) -> str | Callable[..., Any]:
    """A restriction of a call for a space. Raises RequestError if it is neither a text nor a function."""
    if isinstance(given, str):
        return _condition(given, call)
    if not callable(given):
        raise RequestError(f"restrictions: {given!r} is neither a text nor a function; {ELSEWHERE}")
    return _of_configuration(given, call)


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


def _of_configuration(function: Callable[..., Any], call: Call) -> Callable[..., Any]:
    """A restriction that takes the configuration as a dictionary, as Kernel Tuner passes it."""

    def holds(_config: dict[str, Any]) -> bool:
        return bool(function({name: _config[name] for name in call.parameters}))

    return script_functions.named_as(holds, function)
