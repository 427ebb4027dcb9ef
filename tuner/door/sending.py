"""Functions and objects of a script as bytes, for another process."""

from __future__ import annotations

import hashlib
import inspect
import pickle
import sys
from collections.abc import Iterable
from typing import Any

import cloudpickle

from tuner.errors import RequestError


def by_value(value: Any, what: str) -> bytes:
    """The pickle of `value`, in which functions and classes of the script are held by value.

    It is a pair: what to add to `sys.path` to find the modules beside the script, and the pickle of the value itself.
    `what` names the value in messages. Raises RequestError if it cannot be pickled.
    """
    try:
        return pickle.dumps((sys.path, cloudpickle.dumps(value)))
    except Exception as error:
        raise RequestError(
            f"{what} cannot be sent to another process: {error}; use nothing in it that is bound to this one, such "
            "as an open file or a device"
        ) from None


def file_of(kind: type) -> str:
    """The name of the file that defines a class; empty if unknown."""
    codes = (getattr(member, "__code__", None) for member in vars(kind).values())
    return next((code.co_filename.rpartition("/")[2] for code in codes if code is not None), "")


def identity(function: Any) -> str:
    """A digest of what a function does, without the values that it captures.

    `function_identity` takes these into account. A `verify` often captures numbers that the script draws anew in each
    run, and with them no run would resume.
    """
    code = getattr(inspect.unwrap(function), "__code__", None)
    text = "\n".join(_parts(code)) if code is not None else repr(type(function))
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


def _parts(code: Any) -> Iterable[str]:
    yield code.co_code.hex()
    yield repr(code.co_names)
    for constant in code.co_consts:
        if inspect.iscode(constant):
            yield from _parts(constant)
        else:
            yield repr(constant)
