"""Functions and objects of a script as bytes, for another process."""

from __future__ import annotations

import pickle
import sys
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
