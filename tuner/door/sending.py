"""Functions and objects of a script as bytes, for another process."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import inspect
import pickle
import sys
import types
from collections.abc import Iterator
from typing import Any

import cloudpickle
import numpy as np

from tuner.errors import RequestError
from tuner.space.values import function_identity


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
    """A digest of what a function does: its code, defaults, and the functions and modules of the script that it calls.

    Values that it captures or reads from its module are left out, which `function_identity` takes into account. A
    `verify` often captures numbers that the script draws anew in each run, and with them no run would resume.
    """
    return hashlib.sha256("\n".join(_parts(function, set())).encode("utf-8", "replace")).hexdigest()


def _parts(value: Any, seen: set[int]) -> Iterator[str]:
    """What the code that a value holds does; nothing for plain data. `seen` are the ids of what was described."""
    if id(value) in seen:
        return
    seen.add(id(value))
    if isinstance(value, functools.partial):
        yield from _parts(value.func, seen)
        for each in (*value.args, *value.keywords.items()):
            yield from (repr(each),) if _is_plain(each) else _parts(each, seen)
    elif isinstance(value, types.MethodType):
        yield from _parts(value.__func__, seen)
        yield from _parts(type(value.__self__), seen)
    elif isinstance(value, types.FunctionType | type | types.ModuleType) and _is_foreign(value):
        with contextlib.suppress(function_identity.NoIdentity):
            yield function_identity.of(value)  # the version of its package, or the text of a module of the user's
    elif isinstance(value, types.FunctionType):
        yield from _of_function(value, seen)
    elif isinstance(value, type):
        for name, member in sorted(vars(value).items()):
            yield name
            yield from _parts(getattr(member, "__func__", member), seen)
    elif callable(value):
        yield from _parts(type(value), seen)


def _is_foreign(value: Any) -> bool:
    return isinstance(value, types.ModuleType) or function_identity.installed(value.__module__) is not None


def _of_function(function: types.FunctionType, seen: set[int]) -> Iterator[str]:
    yield from _of_code(function.__code__)
    defaults = [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).items()]
    yield from (repr(each) for each in defaults if _is_plain(each))
    names = sorted(_names(function.__code__) & function.__globals__.keys())
    yield from names
    for cell in function.__closure__ or ():
        with contextlib.suppress(ValueError):  # a name without a value yet
            yield from _parts(cell.cell_contents, seen)
    for name in names:
        yield from _parts(function.__globals__[name], seen)


def _of_code(code: types.CodeType) -> Iterator[str]:
    yield code.co_code.hex()
    yield repr(code.co_names)
    for constant in code.co_consts:
        if inspect.iscode(constant):
            yield from _of_code(constant)
        else:  # the order of a set differs from run to run
            yield repr(sorted(map(repr, constant)) if isinstance(constant, frozenset) else constant)


def _names(code: types.CodeType) -> set[str]:
    """The names that code may read from its module, also in functions inside it."""
    inner = (_names(constant) for constant in code.co_consts if inspect.iscode(constant))
    return set(code.co_names).union(*inner)


def _is_plain(value: Any) -> bool:
    if isinstance(value, tuple):
        return all(map(_is_plain, value))
    return isinstance(value, bool | int | float | str | bytes | np.generic | None)
