"""The names of Python functions, for messages."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from tuner.quoting import shown


def named(target: Callable[..., Any]) -> tuple[str, str]:
    """The name of a function, and the file and line of its definition: `expected()` and `tune.py:12`."""
    inner = inspect.unwrap(getattr(target, "func", target))
    code = getattr(inner, "__code__", None) or getattr(type(inner).__call__, "__code__", None)
    name = shown(getattr(inner, "__name__", type(target).__name__))
    name = name if name.startswith("<") else f"{name}()"
    if code is None:
        return name, ""
    return name, f"{shown(code.co_filename.rpartition('/')[2])}:{code.co_firstlineno}"


def origin(function: Callable[..., Any]) -> str:
    """The name of a function, and the file and line of its definition: `fits() of tune.py:12`."""
    name, place = named(function)
    return f"{name} of {place}" if place else name
