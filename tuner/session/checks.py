"""Checks of what a program passes. The command line, whose options have types, makes most of them by itself."""

from __future__ import annotations

import os
from collections.abc import Mapping
from numbers import Integral, Real
from typing import Any

from tuner.errors import OptionError, RequestError
from tuner.quoting import quoted
from tuner.space import deployments
from tuner.space.deployments import Deployment


def whole(name: str, value: Any, least: int, most: int) -> int:
    """A whole number within these bounds, also one of NumPy. Raises RequestError for anything else."""
    if isinstance(value, bool) or not isinstance(value, Integral) or not least <= int(value) <= most:
        raise RequestError(f"{name}={quoted(value)}: write a whole number from {least} to {most}")
    return int(value)


def number(name: str, value: Any) -> float:
    """A number, also one of NumPy. Raises RequestError for anything else."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise RequestError(f"{name}={quoted(value)}: write a number")
    return float(value)


def budget(value: Any) -> str | None:
    """A budget as text. Raises RequestError for a value that is neither a whole number nor text."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise RequestError(
            f"budget={quoted(value)}: write a number of configurations, or a time: '90s', '2m', '1h', or both: '100,2m'"
        )
    return str(int(value))


def words(**values: Any) -> None:
    """Raise RequestError if one of these values is neither text nor None."""
    for name, value in values.items():
        if value is not None and not isinstance(value, str):
            raise RequestError(f"{name}={quoted(value)}: write a text, or leave it out")


def folder(**values: Any) -> None:
    """Raise RequestError if one of these values is neither a path nor None."""
    for name, value in values.items():
        if value is not None and not isinstance(value, str | os.PathLike):
            raise RequestError(f"{name}={quoted(value)}: write the path of a folder, or leave it out")


def named_values(**values: Any) -> None:
    """Raise RequestError if one of these values is neither a dictionary nor None."""
    for name, value in values.items():
        if value is not None and not isinstance(value, Mapping):
            raise RequestError(f"{name}={quoted(value)}: write a dictionary, or leave it out")


def deployment(value: Any, flush: bool) -> Deployment:
    """`as_` of a program; `flush` is another name of "cold". Raises RequestError."""
    words(as_=value)
    try:
        return deployments.parse(value, bool(flush))
    except OptionError as error:
        raise RequestError(f"as_={error.fault}") from None


def whose_bits(value: Any) -> str | None:
    """`same_bits_as` as `--same-bits-as` takes it. Raises RequestError."""
    if isinstance(value, Mapping):
        return " ".join(f"{name}={each}" for name, each in value.items())
    if value is not None and not isinstance(value, str):
        raise RequestError(
            f'same_bits_as={quoted(value)}: write "default", "record", or a configuration as a dictionary'
        )
    return value
