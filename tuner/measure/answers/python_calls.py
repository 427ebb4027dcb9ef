"""Calls of the Python functions that a space names. Those in files are called by the process that holds the device.

Whatever such a function does wrong becomes one message with its file and line: no configuration is to blame.
"""

from __future__ import annotations

import contextlib
import importlib.abc
import importlib.machinery
import importlib.util
import inspect
import os
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from types import CodeType, ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from tuner.errors import SpaceError
from tuner.measure.answers import function_objects
from tuner.quoting import described, innermost, shown
from tuner.space import operation, snapshot
from tuner.space.chosen_types import dtype
from tuner.space.values import filling, python_function
from tuner.space.values.copies import copied
from tuner.space.values.function_object import FunctionObject
from tuner.space.values.python_function import PythonFunction

if TYPE_CHECKING:
    from tuner.devices.base import Array
    from tuner.space.argument import Argument
    from tuner.space.computation import Operation
    from tuner.space.scope import Scope

AnyFunction = PythonFunction | FunctionObject
_modules: dict[Path, Any] = {}
_siblings: dict[
    str, dict[str, Any]
] = {}  # modules that files of a folder imported from the same folder, by folder and name


def requested(function: AnyFunction, names: Collection[str]) -> list[str]:
    """Those of `names` that the function takes as parameters; all if it has `**`. Imports the function's file.

    Raises SpaceError if there is no such function, or if it has any other required parameter.
    """
    try:
        return python_function.requested(_signature(function), origin(function), names)
    except ValueError as error:
        raise SpaceError(str(error)) from None


def call(function: AnyFunction, values: Mapping[str, Any]) -> Any:
    """Call the function with those of `values` that it takes, and return its result.

    Arrays are copied, so it may write into them. Raises SpaceError if it raises anything.
    """
    given = {name: values[name] for name in requested(function, values.keys())}
    if isinstance(function, FunctionObject):
        return function_objects.call(function, given)
    given = {name: copied(value) if isinstance(value, np.ndarray) else value for name, value in given.items()}
    parameters = _signature(function).parameters.values()
    first = [given.pop(p.name) for p in parameters if p.kind is p.POSITIONAL_ONLY and p.name in given]
    with _running(function):
        return _function(function)(*first, **given)


def filled(op: Operation, scope: Scope, seed: int, by: type[AnyFunction]) -> dict[str, Array]:
    """The contents of the arrays that functions of one kind fill, by name. Those of the same function share one call.

    Raises SpaceError if a function does not return them in their types and shapes.
    """
    groups: dict[AnyFunction, list[Argument]] = {}
    for argument in op.arrays:
        if argument.fill is not None and isinstance(argument.fill.function, by):
            groups.setdefault(argument.fill.function, []).append(argument)
    arrays: dict[str, Array] = {}
    for function, arguments in groups.items():
        seeds = function_objects.Seeds((seed, op.arrays.index(arguments[0])))
        generator = seeds if by is FunctionObject else np.random.default_rng(list(seeds))
        returned = call(function, {python_function.GENERATOR: generator, **scope.sizes, **scope.typed_options})
        for argument, value in zip(arguments, by_name(function, returned, [a.name for a in arguments]), strict=True):
            expected, chosen = (dtype(argument, scope), operation.shape(argument, scope)), argument.dtype in op.types
            arrays[argument.name] = filling.checked(value, argument.name, *expected, origin(function), chosen)
    return arrays


def also(op: Operation, scope: Scope) -> dict[str, Array]:
    """The other contents of some inputs, by name, which the function of `also:` returns; none without one.

    Raises SpaceError if these are no inputs, or have other types or shapes.
    """
    if op.also is None:
        return {}
    given = {python_function.GENERATOR: np.random.default_rng(0), **scope.sizes, **scope.typed_options}
    returned = call(op.also, given)
    inputs = {argument.name: argument for argument in op.arrays if argument.role != "out"}
    names = [name for name in inputs if not isinstance(returned, Mapping) or name in returned]
    arrays: dict[str, Array] = {}
    for name, value in zip(names, by_name(op.also, returned, names or [*inputs]), strict=True):
        expected = dtype(inputs[name], scope), operation.shape(inputs[name], scope)
        arrays[name] = filling.checked(value, name, *expected, origin(op.also), inputs[name].dtype in op.types)
    return arrays


def by_name(function: AnyFunction, returned: Any, names: list[str]) -> list[Array]:
    """What a function returned, as one array for each of `names`.

    It returns a dictionary of them, or the array itself if there is only one.
    """
    if not isinstance(returned, Mapping):
        if len(names) != 1:
            wanted = shown(", ".join(names))
            raise SpaceError(f"{origin(function)} returns a {type(returned).__name__}; return a dict of {wanted}")
        returned = {names[0]: returned}
    if set(returned) != set(names):
        given, wanted = shown(", ".join(map(str, returned)) or "nothing"), shown(", ".join(names))
        raise SpaceError(f"{origin(function)} returns a dict of {given}; return one of {wanted}")
    return [_array(function, name, returned[name]) for name in names]


def _array(function: AnyFunction, name: str, value: Any) -> Array:
    try:
        array = np.asarray(value)
    except Exception as error:
        raise SpaceError(f"{origin(function)} returns no array for {name}: {described(error)}") from None
    if array.dtype == object:
        raise SpaceError(f"{origin(function)} returns no array of numbers for {name}: a {type(value).__name__}")
    return array


def origin(function: AnyFunction) -> str:
    """`check.py:3: expected()`: the file and line of the function's definition."""
    if isinstance(function, FunctionObject):
        return function.origin
    code = getattr(inspect.unwrap(_function(function)), "__code__", None)
    line = f":{code.co_firstlineno}" if code is not None else ""
    return f"{shown(function.file)}{line}: {function.name}()"


def _signature(function: AnyFunction) -> inspect.Signature:
    if isinstance(function, FunctionObject):
        return function.signature
    target = _function(function)
    try:
        return inspect.signature(target)
    except (TypeError, ValueError):
        raise SpaceError(f"{origin(function)}: its parameters are unknown; define it with `def`") from None


def _function(function: PythonFunction) -> Callable[..., Any]:
    module = _module(function)
    target: Callable[..., Any] | None = getattr(module, function.name, None)
    if not callable(target):
        raise SpaceError(f"{shown(function.file)}: there is no function {function.name} in it")
    return target


def _module(function: PythonFunction) -> Any:
    """The module of a function, imported once in this process."""
    file = function.file
    if file not in _modules:
        if snapshot.stamp(file) is None:
            raise SpaceError(f"{shown(file)}: there is no such file")
        name = f"_of_a_space_{len(_modules)}_{file.stem}"
        spec = importlib.util.spec_from_file_location(name, file, loader=_Loader(name, str(file)))
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[module.__name__] = module  # dataclasses and pickle look it up there
        with _running(function):
            spec.loader.exec_module(module)
        _modules[file] = module
    return _modules[file]


class _Loader(importlib.machinery.SourceFileLoader):
    """Loads a module from the bytes that the run read at its start, and neither reads nor writes bytecode."""

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        code: CodeType = self.source_to_code(self.get_data(path), path)
        return code

    def get_data(self, path: str) -> bytes:
        """The bytes of a file: data beside the module are read from disk."""
        return snapshot.read(Path(path)) if path == self.path else super().get_data(path)


class _Finder(importlib.abc.MetaPathFinder):
    """Finds the modules in a folder whose bytes the run read at its start."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        place = self._folder.joinpath(*fullname.split("."))
        if path is not None and str(place.parent) not in path:
            return None  # a part of another folder's package of the same name
        for file, inside in ((place / "__init__.py", [str(place)]), (place.with_name(f"{place.name}.py"), None)):
            if snapshot.has(file):
                loader = _Loader(fullname, str(file))
                return importlib.util.spec_from_file_location(
                    fullname, file, loader=loader, submodule_search_locations=inside
                )
        return None


@contextlib.contextmanager
def _running(function: PythonFunction) -> Iterator[None]:
    """A block that runs code of the function's file: it can import files of the same folder.

    Files whose bytes the run read at its start are imported from these bytes. Whatever it raises becomes a SpaceError.
    No bytecode is written into the folder.
    """
    folder, bytecode = str(function.file.parent), sys.dont_write_bytecode
    before = set(sys.modules)
    sys.modules.update(_siblings.get(folder, {}))
    sys.path.insert(0, folder)
    finder = _Finder(function.file.parent)
    sys.meta_path.insert(0, finder)
    sys.dont_write_bytecode = True
    try:
        with np.errstate():  # restores NumPy's error settings
            yield
    except SpaceError:
        raise
    except BaseException as error:  # sys.exit() too
        line = _error_line(error, function.file.parent)
        raise SpaceError(
            f"{line or shown(function.file)}: {function.name}() does not return: {described(error)}"
        ) from None
    finally:
        sys.dont_write_bytecode = bytecode
        if folder in sys.path:
            sys.path.remove(folder)
        if finder in sys.meta_path:
            sys.meta_path.remove(finder)
        _unload_siblings(folder, sys.modules.keys() - before)


def _unload_siblings(folder: str, names: Collection[str]) -> None:
    """Unload those of these modules that are in `folder`, as another folder may have modules of the same names."""
    beside = _siblings.setdefault(folder, {})
    for name in names:
        top, file = name.partition(".")[0], getattr(sys.modules[name], "__file__", None) or ""
        if file.startswith((os.path.join(folder, f"{top}.py"), os.path.join(folder, top, ""))):
            beside[name] = sys.modules.pop(name)


def _error_line(error: BaseException, folder: Path) -> str:
    """`check.py:7`: the innermost line of the error in a file of this folder; empty if there is none."""
    if isinstance(error, SyntaxError) and error.filename and Path(error.filename).parent == folder:
        return f"{shown(error.filename)}:{error.lineno}"
    frame = innermost(error, lambda name: Path(name).is_relative_to(folder))
    return f"{shown(frame.filename)}:{frame.lineno}" if frame is not None else ""
