"""The identity of a function: its code, constants, defaults, and all that it captures or reads from its module.

Two runs of a program give a function the same identity if it does the same in both. Line numbers do not count.
"""

from __future__ import annotations

import dataclasses
import dis
import enum
import functools
import hashlib
import inspect
import platform
import sys
import types
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePath
from typing import Any

import numpy as np

from tuner import paths
from tuner.quoting import shown
from tuner.space.values import python_function
from tuner.version import VERSION

_SIMPLE = (bool, int, float, complex, str, bytes, type(None), type(Ellipsis), range, slice)
_CONSTANT = (tuple, frozenset, types.CodeType)  # equal ones may be one object in this run and several in the next
_OF_CODE = (
    *_CONSTANT, types.FunctionType, types.ModuleType, types.BuiltinFunctionType, type, np.ufunc, np.generic,
    functools.partial,
)  # fmt: skip
_INSTALLED = {"site-packages", "dist-packages"}


class NoIdentity(Exception):
    """A function reads something of which the next run cannot tell whether it is the same. The text says what."""


def of(function: Any) -> str:
    """The digest of a function. Raises NoIdentity."""
    return _Description().of(function)


def of_code(function: Any) -> str:
    """The digest of what the code of a function does, whatever values it captures or reads from its module."""
    return _CodeDescription().of(function)


class _Description:
    """Digests of the values that one function reaches."""

    def __init__(self) -> None:
        self._known: dict[int, int] = {}  # the order in which values were met, by id: functions may refer to themselves
        self._alive: list[Any] = []  # so that no id is used again

    def of(self, value: Any) -> str:
        """The digest of a value."""
        if type(value) in _SIMPLE:
            return f"{type(value).__name__} {value!r}"
        if not isinstance(value, _CONSTANT):
            if id(value) in self._known:
                return f"value {self._known[id(value)]}"
            self._known[id(value)] = len(self._known)
            self._alive.append(value)
        return paths.digest(type(value).__name__, *self._parts(value))

    def _parts(self, value: Any) -> Iterator[str | bytes]:
        if isinstance(value, types.FunctionType):
            yield from self._function(value)
        elif isinstance(value, types.CodeType):
            yield from self._code(value)
        elif isinstance(value, types.ModuleType):
            yield _module(value)
        elif isinstance(value, np.ndarray) and not value.dtype.hasobject:
            yield f"{value.dtype.str} {value.dtype.name} {value.shape}"
            yield hashlib.sha256(np.ascontiguousarray(value).reshape(-1).view(np.uint8).data).hexdigest()
        elif isinstance(value, np.generic | np.dtype | PurePath):
            yield repr(value)
        elif isinstance(value, enum.Enum):
            yield from (self.of(type(value)), value.name)
        elif isinstance(value, list | tuple):
            yield from map(self.of, value)
        elif isinstance(value, Mapping) and type(value) in (dict, types.MappingProxyType):
            for key, each in value.items():
                yield from (self.of(key), self._named(str(key), each))
        elif isinstance(value, set | frozenset):
            yield from sorted(_Description().of(each) for each in value)
        elif isinstance(value, type):
            yield _class(value)
        elif dataclasses.is_dataclass(value):
            yield self.of(type(value))
            for field in dataclasses.fields(value):
                yield self._named(field.name, getattr(value, field.name))
        else:
            yield from self._callable(value)

    def _callable(self, value: Any) -> Iterator[str]:
        if isinstance(value, functools.partial):
            yield from map(self.of, (value.func, value.args, value.keywords))
        elif isinstance(value, types.MethodType):
            yield from map(self.of, (value.__func__, value.__self__))
        elif isinstance(value, types.BuiltinFunctionType):
            yield f"{value.__module__} {value.__qualname__}"
            if value.__self__ is not None and not isinstance(value.__self__, types.ModuleType):
                yield self.of(value.__self__)
        elif isinstance(value, np.ufunc):
            yield f"{value.__name__} {np.__version__}"
        elif callable(value) and hasattr(value, "__wrapped__"):
            yield self.of(value.__wrapped__)
        elif callable(value) and installed(getattr(value, "__module__", None)) and hasattr(value, "__qualname__"):
            yield f"{installed(value.__module__)} {value.__qualname__}"  # such as a function of NumPy in C
        else:
            raise NoIdentity(f"a {type(value).__name__}")

    def _function(self, function: types.FunctionType) -> Iterator[str]:
        package = installed(function.__module__)
        if package is not None and function.__module__ != "builtins":  # the module of text that has none
            yield f"{package} {function.__qualname__}"
            return
        yield from (self.of(function.__code__), self.of(function.__defaults__), self.of(function.__kwdefaults__))
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
            try:
                content = cell.cell_contents
            except ValueError:  # it has no value yet
                continue
            yield self._named(name, content)
        for name in sorted(set(_globals(function.__code__))):
            if name in function.__globals__:
                yield from (name, self._named(name, function.__globals__[name]))

    def _code(self, code: types.CodeType) -> Iterator[str | bytes]:
        yield code.co_code
        counts = code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags
        yield repr((counts, code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars))
        yield platform.python_version()  # of which a bytecode is
        yield from map(self.of, code.co_consts)

    def _named(self, name: str, value: Any) -> str:
        try:
            return self.of(value)
        except NoIdentity as error:
            inner = str(error)
            raise NoIdentity(inner if inner.startswith("`") else f"`{shown(name)}`, {inner}") from None


class _CodeDescription(_Description):
    """Digests of code: of the functions, classes and modules that one function reaches, and of plain defaults.

    What has no identity adds nothing.
    """

    def of(self, value: Any) -> str:
        try:
            return super().of(value)
        except NoIdentity:
            return ""

    def _parts(self, value: Any) -> Iterator[str | bytes]:
        if isinstance(value, types.MethodType):
            yield from map(self.of, (value.__func__, type(value.__self__)))
        elif type(value) is dict:  # of keywords, or of defaults
            yield from map(self.of, value.items())
        elif isinstance(value, type) and installed(value.__module__) is None:
            for name, member in sorted(vars(value).items()):
                yield from (name, self._named(name, getattr(member, "__func__", member)))
        elif isinstance(value, _OF_CODE):
            yield from super()._parts(value)
        elif callable(value):
            yield self.of(getattr(value, "__wrapped__", type(value)))

    def _named(self, name: str, value: Any) -> str:
        return self.of(value) if callable(value) or isinstance(value, types.ModuleType) else ""


def _globals(code: types.CodeType) -> Iterator[str]:
    """The names that code reads from its module, also in functions inside it."""
    for instruction in dis.get_instructions(code):
        if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            yield str(instruction.argval)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _globals(constant)


def installed(name: str | None) -> str | None:
    """The package that the module `name` is in, with its version; None for a module of the user's."""
    module, top = sys.modules.get(name or ""), (name or "").partition(".")[0]
    if module is None or top == "__main__":
        return None
    if top in sys.stdlib_module_names:
        return f"{name} {platform.python_version()}"
    if top == "tuner":
        return f"{name} {VERSION}"
    file = getattr(module, "__file__", None)
    if file is not None and not _INSTALLED & set(Path(file).parts):
        return None
    return f"{name} {getattr(sys.modules.get(top), '__version__', '')}"


def _module(module: types.ModuleType) -> str:
    """An installed module is its version; a user's, its text, and those of modules that it imports from its folder."""
    package = installed(module.__name__)
    if package is not None:
        return package
    file = getattr(module, "__file__", None)
    if file is None or not file.endswith(".py"):
        raise NoIdentity("a module without a Python file")
    return paths.digest(*(path.read_bytes() for path in python_function.closure(Path(file))))


def _class(kind: type) -> str:
    """An installed class is its name; a user's, its text."""
    package = installed(kind.__module__)
    if package is not None:
        return f"{package} {kind.__qualname__}"
    try:
        return inspect.getsource(kind)
    except (OSError, TypeError):
        raise NoIdentity(f"the class {shown(kind.__qualname__)}, whose text is unknown") from None
