"""Functions of a script that take a configuration."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any

from tuner.errors import RequestError
from tuner.quoting import shown

Function = Callable[..., Any]


def named_as(of_configuration: Function, function: Function) -> Function:
    """Our function of a configuration, which messages name as the script's.

    Its signature stays its own, because the parameter of the script's may have the name of one of `tune_params`.
    """
    of_any_type: Any = of_configuration  # a function has no declared signature
    of_any_type.__signature__ = inspect.signature(of_configuration)
    return functools.update_wrapper(of_configuration, function, assigned=(), updated=())


def source(function: Function, config: Mapping[str, Any]) -> str:
    """The text of a kernel that a function makes. Raises RequestError if it raises anything or returns no text."""
    try:
        text = function(dict(config))
    except Exception as error:
        raise RequestError(
            f"kernel_source: the function raises {type(error).__name__}: {shown(error)} for {dict(config)}"
        ) from None
    if not isinstance(text, str):
        raise RequestError(
            f"kernel_source: the function returns a {type(text).__name__} for {dict(config)}; return the text"
        )
    return text
