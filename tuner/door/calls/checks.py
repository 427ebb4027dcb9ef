"""The types of what a script passes, checked before anything is done with it."""

from __future__ import annotations

import numbers
import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from tuner.errors import RequestError
from tuner.quoting import shown

LONGEST = 60  # characters of a value in a message
_LIST, _PATH = (list, tuple), (str, os.PathLike)
# The keywords of each form: what it is in words, and its types. A text or an array is never a list of these.
_FORMS: tuple[tuple[str, tuple[type, ...], tuple[str, ...]], ...] = (
    ("a text", (str,), ("kernel_name", "lang", "compiler", "storage", "devices")),
    ("a list", _LIST, ("arguments", "compiler_options", "block_size_names", "observers")),
    ("a list with an element for each argument", (*_LIST, np.ndarray), ("answer",)),
    (
        "a dictionary",
        (Mapping,),
        ("tune_params", "smem_args", "cmem_args", "texmem_args", "defines", "strategy_options", "metrics"),
    ),
    ("the name of a file or folder", _PATH, ("cache", "store")),
    ("a number", (numbers.Real,), ("timeout", "atol")),
    ("a whole number", (numbers.Integral,), ("seed", "iterations", "device", "platform")),
)
_REQUIRED = {"kernel_name", "arguments", "tune_params", "timeout", "iterations", "device", "platform"}


def check(given: Mapping[str, Any]) -> None:
    """Raise RequestError if one of these arguments, by name, is of another type than `tune_kernel` takes."""
    for words, types, names in _FORMS:
        for name in names:
            value = given.get(name)
            is_left_out = name not in given or (value is None and name not in _REQUIRED)
            if not is_left_out and not isinstance(value, types):
                raise RequestError(f"{name}: {_short(value)}: write {words}")
    if given.get("verify") is not None and not callable(given["verify"]):
        raise RequestError(f"verify: {_short(given['verify'])}: write a function of answer and result")


def _short(value: Any) -> str:
    """A value in a message; of an array or a long list, its type."""
    text = repr(value)
    return shown(text) if len(text) <= LONGEST else f"of type {type(value).__name__}"


def positive(where: str, value: Any, is_whole: bool = False) -> float:
    """A number above 0. Raises RequestError for anything else."""
    is_number = isinstance(value, int | float | np.number) and value > 0
    if not is_number or (is_whole and value != int(value)):
        raise RequestError(f"{where}: {_short(value)}: write a {'whole ' * is_whole}number above 0")
    return float(value)
