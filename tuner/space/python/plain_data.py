"""Converts Python objects to the plain data that a space file would hold."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from tuner.quoting import quoted, shown
from tuner.space.expressions.function_names import origin

MOST_LEVELS = 20
Where = tuple[str | int, ...]
Fault = Callable[[Where, str], Exception]  # the error for a key


def plain(value: Any, fault: Fault, where: Where = ()) -> Any:
    """`value` as dictionaries, lists, numbers, words and None. Arrays and functions stay where a space may have them.

    Raises what `fault` returns for anything else.
    """
    if len(where) > MOST_LEVELS:
        raise fault(where, f"nested more than {MOST_LEVELS} levels deep")
    if value is None or isinstance(value, bool):
        return value
    if (word := _dtype_name(value)) is not None:
        return word
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return value if _holds_array(where) else plain(value.tolist(), fault, where)
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    for kind in (int, float, str):
        if isinstance(value, kind):
            return kind(value)
    if isinstance(value, Mapping):
        return {_key(key, fault, where): plain(each, fault, (*where, str(key))) for key, each in value.items()}
    if isinstance(value, list | tuple | range):
        return [plain(each, fault, (*where, position)) for position, each in enumerate(value)]
    if callable(value):
        if not may_be_function(where):
            allowed = "only restrictions, `reference` and `fill` may be functions"
            raise fault(where, f"{origin(value)}: {allowed}; write a value or an expression")
        return value
    raise fault(where, f"a {type(value).__name__}; write a number, a word, a list or a dictionary")


def may_be_function(where: Where) -> bool:
    """Whether the value of this key may be a function."""
    if where[:1] == ("operation",):
        return where[1:] == ("reference",) or _is_fill(where[1:])
    return _is_fill(where) or (where[:1] == ("restrictions",) and (len(where) == 2 or where[2:] == ("that",)))


def _holds_array(where: Where) -> bool:
    """Whether an array at this key is the contents of an argument; anywhere else, it is a list of numbers."""
    inner = where[1:] if where[:1] == ("operation",) else where
    return _is_fill(inner) or (_is_fill(inner[:-1]) and inner[-1] == "file")


def _is_fill(where: Where) -> bool:
    return len(where) == 3 and where[0] == "arguments" and where[2] == "fill"


def python_in(value: Any, where: Where = ()) -> Iterator[tuple[Where, Any]]:
    """The functions and arrays in plain data, with their keys."""
    if isinstance(value, dict):
        for key, each in value.items():
            yield from python_in(each, (*where, key))
    elif isinstance(value, list):
        for position, each in enumerate(value):
            yield from python_in(each, (*where, position))
    elif callable(value) or isinstance(value, np.ndarray):
        yield where, value


def _key(key: Any, fault: Fault, where: Where) -> str:
    if not isinstance(key, str):
        raise fault(where, f"the key {quoted(key)} is a {type(key).__name__}; write a word")
    return str(key)


def _dtype_name(value: Any) -> str | None:
    """The name of a dtype of NumPy or of a class of its numbers, such as `numpy.float32`; None for anything else."""
    if isinstance(value, np.dtype) or (isinstance(value, type) and issubclass(value, np.generic)):
        return shown(np.dtype(value).name)
    return None


def files_in(data: Mapping[str, Any]) -> Iterator[tuple[Any, Any]]:
    """Where plain data names files: containers, each with the key of a path in it. Texts of sources are among them."""
    if isinstance(data.get("source"), str):
        yield data, "source"
    for position in range(len(data["include"])) if isinstance(data.get("include"), list) else ():
        yield data["include"], position
    for step in data["steps"] if isinstance(data.get("steps"), list) else ():
        yield from files_in(step) if isinstance(step, dict) else ()
    if isinstance(data.get("operation"), str):
        yield data, "operation"
    for part in (data, data.get("operation")):
        yield from _files_of_arrays(part) if isinstance(part, dict) else ()


def _files_of_arrays(operation: Mapping[str, Any]) -> Iterator[tuple[Any, Any]]:
    arguments = operation.get("arguments")
    fills = [each.get("fill") for each in arguments if isinstance(each, dict)] if isinstance(arguments, list) else []
    derive = operation.get("derive")
    derived = [*derive.values()] if isinstance(derive, dict) else []
    for part in (operation.get("reference"), operation.get("also"), *derived, *fills):
        if isinstance(part, dict):
            yield from ((part, key) for key in ("source", "file", "python") if isinstance(part.get(key), str))


def is_text(source: str) -> bool:
    """Whether a `source` is the text of a kernel, not the path of one. The names of folders may have braces."""
    return "\n" in source or ("(" in source and any(mark in source for mark in "{;"))
