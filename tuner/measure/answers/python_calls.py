"""Functions in Python that a space names, called. Only the process that holds the device does this.

Whatever such a function does wrong becomes one message with its file and line: no configuration is to blame.
"""

from __future__ import annotations

import contextlib
import importlib.util
import inspect
import os
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tuner.errors import SpaceError
from tuner.quoting import shown
from tuner.space import operation
from tuner.space.chosen_types import dtype
from tuner.space.values import fills
from tuner.space.values.python_function import PythonFunction

if TYPE_CHECKING:
    from tuner.devices.base import Array
    from tuner.space.argument import Argument
    from tuner.space.model import Operation
    from tuner.space.scope import Scope

GENERATOR = "rng"
_modules: dict[Path, Any] = {}
_beside: dict[str, dict[str, Any]] = {}  # what the files of a folder have imported from it, by folder and name


def asked(function: PythonFunction, names: Collection[str]) -> list[str]:
    """Those of `names` that the function's parameters ask for; all if it has `**`. Imports it.

    Raises SpaceError if there is no such function, or if it asks for anything else.
    """
    parameters = _signature(function).parameters.values()
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        wanted = list(names)
    else:
        wanted = [parameter.name for parameter in parameters if parameter.name in names]
    several = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    for parameter in parameters:
        if parameter.kind in several or parameter.name in names or parameter.default is not parameter.empty:
            continue
        there = shown(", ".join(names))
        raise SpaceError(f"{origin(function)} asks for {shown(parameter.name)}; it may ask for {there}")
    return wanted


def call(function: PythonFunction, values: Mapping[str, Any]) -> Any:
    """What the function returns, given those of `values` that it asks for. Arrays are copied, so it may write into
    them. Raises SpaceError if it does not return."""
    given = {name: values[name] for name in asked(function, values.keys())}
    given = {name: np.array(value) if isinstance(value, np.ndarray) else value for name, value in given.items()}
    parameters = _signature(function).parameters.values()
    first = [given.pop(p.name) for p in parameters if p.kind is p.POSITIONAL_ONLY and p.name in given]
    with _running(function):
        return _found(function)(*first, **given)


def filled(op: Operation, scope: Scope, seed: int) -> dict[str, Array]:
    """The contents of all arrays that functions fill: one call for all arrays with the same function.

    Raises SpaceError where a function does not return them in their types and shapes.
    """
    groups: dict[PythonFunction, list[Argument]] = {}
    for argument in op.arrays:
        if argument.fill is not None and argument.fill.function is not None:
            groups.setdefault(argument.fill.function, []).append(argument)
    arrays: dict[str, Array] = {}
    for function, arguments in groups.items():
        generator = np.random.default_rng([seed, op.arrays.index(arguments[0])])
        options = operation.taken_options(scope.options, op, scope.types)
        returned = call(function, {GENERATOR: generator, **scope.sizes, **options})
        for argument, value in zip(arguments, by_name(function, returned, [a.name for a in arguments]), strict=True):
            needed, chosen = (dtype(argument, scope), operation.shape(argument, scope)), argument.dtype in op.types
            arrays[argument.name] = fills.checked(value, argument.name, *needed, origin(function), chosen)
    return arrays


def by_name(function: PythonFunction, returned: Any, names: list[str]) -> list[Array]:
    """What a function returned, as one array for each of `names`: a dictionary, or the only array itself."""
    if not isinstance(returned, Mapping):
        if len(names) != 1:
            wanted = shown(", ".join(names))
            raise SpaceError(f"{origin(function)} returns a {type(returned).__name__}; return a dict of {wanted}")
        returned = {names[0]: returned}
    if set(returned) != set(names):
        given, wanted = shown(", ".join(map(str, returned)) or "nothing"), shown(", ".join(names))
        raise SpaceError(f"{origin(function)} returns a dict of {given}; return one of {wanted}")
    return [_array(function, name, returned[name]) for name in names]


def _array(function: PythonFunction, name: str, value: Any) -> Array:
    try:
        array = np.asarray(value)
    except Exception as error:
        raise SpaceError(f"{origin(function)} returns no array for {name}: {_named(error)}") from None
    if array.dtype == object:
        raise SpaceError(f"{origin(function)} returns no array of numbers for {name}: a {type(value).__name__}")
    return array


def origin(function: PythonFunction) -> str:
    """`check.py:3: expected()`, where it is defined."""
    code = getattr(inspect.unwrap(_found(function)), "__code__", None)
    line = f":{code.co_firstlineno}" if code is not None else ""
    return f"{shown(function.file)}{line}: {function.name}()"


def _signature(function: PythonFunction) -> inspect.Signature:
    found = _found(function)
    try:
        return inspect.signature(found)
    except (TypeError, ValueError):
        raise SpaceError(f"{origin(function)}: its parameters are not known; write a `def`") from None


def _found(function: PythonFunction) -> Callable[..., Any]:
    module = _module(function)
    found: Callable[..., Any] | None = getattr(module, function.name, None)
    if not callable(found):
        raise SpaceError(f"{shown(function.file)}: there is no function {function.name} in it")
    return found


def _module(function: PythonFunction) -> Any:
    """The module of a function, imported once in this process."""
    file = function.file
    if file not in _modules:
        if not file.is_file():
            raise SpaceError(f"{shown(file)}: there is no such file")
        spec = importlib.util.spec_from_file_location(f"_of_a_space_{len(_modules)}_{file.stem}", file)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[module.__name__] = module  # as dataclasses and pickle need it
        with _running(function):
            spec.loader.exec_module(module)
        _modules[file] = module
    return _modules[file]


@contextlib.contextmanager
def _running(function: PythonFunction) -> Iterator[None]:
    """Code of the function's file runs meanwhile: it finds the files beside it, and whatever it raises is a SpaceError.
    Nothing is written beside it."""
    folder, bytecode = str(function.file.parent), sys.dont_write_bytecode
    before = set(sys.modules)
    sys.modules.update(_beside.get(folder, {}))
    sys.path.insert(0, folder)
    sys.dont_write_bytecode = True
    try:
        with np.errstate():  # whatever it sets
            yield
    except SpaceError:
        raise
    except BaseException as error:  # sys.exit() too
        line = _line(error, function.file.parent)
        raise SpaceError(
            f"{line or shown(function.file)}: {function.name}() does not return: {_named(error)}"
        ) from None
    finally:
        sys.dont_write_bytecode = bytecode
        if folder in sys.path:
            sys.path.remove(folder)
        _set_aside(folder, sys.modules.keys() - before)


def _set_aside(folder: str, names: Collection[str]) -> None:
    """Forget those modules of these names that lie in `folder`: another folder may have modules of the same names."""
    beside = _beside.setdefault(folder, {})
    for name in names:
        top, file = name.partition(".")[0], getattr(sys.modules[name], "__file__", None) or ""
        if file.startswith((os.path.join(folder, f"{top}.py"), os.path.join(folder, top, ""))):
            beside[name] = sys.modules.pop(name)


def _named(error: BaseException) -> str:
    return f"{type(error).__name__}: {text}" if (text := _first_line(error)) else type(error).__name__


def _first_line(error: BaseException) -> str:
    try:
        return shown((str(error).strip().splitlines() or [""])[0])
    except Exception:
        return ""


def _line(error: BaseException, folder: Path) -> str:
    """`check.py:7`, the innermost line in a file of this folder; empty where there is none."""
    if isinstance(error, SyntaxError) and error.filename and Path(error.filename).parent == folder:
        return f"{shown(error.filename)}:{error.lineno}"
    line, trace = "", error.__traceback__
    while trace is not None:
        file = Path(trace.tb_frame.f_code.co_filename)
        if file.is_relative_to(folder):
            line = f"{shown(file)}:{trace.tb_lineno}"
        trace = trace.tb_next
    return line
