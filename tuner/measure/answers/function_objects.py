"""Calls of function objects: in the process that has the function, or by a question to that process.

Numbers travel in the question, and arrays in a file.
"""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tuner import paths
from tuner.errors import SpaceError
from tuner.quoting import described, innermost, quoted, shown
from tuner.space.dtypes import DTYPES
from tuner.space.values.function_object import FunctionObject

if TYPE_CHECKING:
    from tuner.space.computation import Operation

Ask = Callable[[dict[str, Any]], dict[str, Any]]  # sends a question to the parent, and returns its answer
Array = np.ndarray[Any, np.dtype[Any]]
_one_at_a_time = threading.RLock()  # a user's function need not be prepared for threads
_ask: Ask | None = None  # of this process


class Seeds(tuple[int, ...]):
    """What stands for a NumPy generator, in whatever process it is made."""


def answered_by(ask: Ask) -> None:
    """Have the parent of this process call function objects."""
    global _ask
    _ask = ask


def call(function: FunctionObject, given: Mapping[str, Any]) -> Any:
    """What the function returns for these arguments, which may be Seeds. Raises SpaceError if it raises anything."""
    if function.target is not None:
        return _called(function, function.target, given)
    if _ask is None:
        raise SpaceError(f"{function.origin}: only the process that made the space can call it; make it here, too")
    answer = _ask({"call": function.token, **_packed(given, paths.temporary())})
    if "error" in answer:
        raise SpaceError(answer["error"])
    returned = _unpacked(answer, paths.temporary())
    return returned if answer["is_mapping"] else returned["result"]


def answer(op: Operation, question: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """The answer to a question about a function of an operation, of a child whose temporary folder is `folder`."""
    functions = (each for each in op.python_functions if isinstance(each, FunctionObject))
    function = next(each for each in functions if each.token == question["call"])
    try:
        given = _unpacked(question, folder)
        returned = call(function, given)
        is_mapping = isinstance(returned, Mapping)
        results = {str(name): value for name, value in returned.items()} if is_mapping else {"result": returned}
        arrays = {name: _plain(function, name, value) for name, value in results.items()}
        return {**_packed(arrays, folder), "is_mapping": is_mapping}
    except SpaceError as error:
        return {"error": str(error)}


def _called(function: FunctionObject, target: Callable[..., Any], given: Mapping[str, Any]) -> Any:
    values = {n: np.random.default_rng(list(v)) if isinstance(v, Seeds) else v for n, v in given.items()}
    parameters = function.signature.parameters.values()
    first = [values.pop(p.name) for p in parameters if p.kind is p.POSITIONAL_ONLY and p.name in values]
    with _one_at_a_time:
        try:
            with np.errstate():  # restores NumPy's error settings
                return target(*first, **values)
        except (Exception, SystemExit) as error:
            file = getattr(getattr(target, "__code__", None), "co_filename", None)
            line = innermost(error, lambda name: name == file)
            where = f"{shown(os.path.basename(line.filename))}:{line.lineno}: {function}" if line else function.origin
            raise SpaceError(f"{where} does not return: {described(error)}") from None


def _plain(function: FunctionObject, name: str, value: Any) -> Array:
    """A returned value as an array of numbers, whose type has a name."""
    what = "" if name == "result" else f" for {shown(name)}"
    try:
        array = np.asarray(value)
    except Exception as error:
        raise SpaceError(f"{function.origin} returns no array{what}: {described(error)}") from None
    array = array.astype(array.dtype.newbyteorder("="), copy=False)
    if array.dtype == object or not (array.dtype.isbuiltin == 1 or array.dtype.name in DTYPES):
        raise SpaceError(f"{function.origin} returns no array of numbers{what}: {quoted(value)}")
    return array


def _packed(values: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Arguments or results as JSON data, beside a file in `folder` that holds the arrays."""
    arrays = {name: value for name, value in values.items() if isinstance(value, np.ndarray | np.generic)}
    seeds = {name: list(value) for name, value in values.items() if isinstance(value, Seeds)}
    numbers = {name: value for name, value in values.items() if name not in arrays and name not in seeds}
    packed: dict[str, Any] = {"order": list(values), "numbers": numbers, "seeds": seeds, "arrays": []}
    if arrays:
        handle, file = tempfile.mkstemp(dir=folder, prefix="arrays-")
        with os.fdopen(handle, "wb") as out:
            for name, array in arrays.items():
                packed["arrays"].append([name, array.dtype.name, array.shape])
                out.write(np.ascontiguousarray(array).tobytes())
        packed["file"] = os.path.basename(file)
    return packed


def _type(name: str) -> np.dtype[Any]:
    """A type by its name, also before anything in this process has imported ml_dtypes."""
    return DTYPES[name].numpy if name in DTYPES else np.dtype(name)


def _unpacked(packed: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """What `_packed` packed. Its file is removed."""
    values: dict[str, Any] = {**packed["numbers"], **{name: Seeds(each) for name, each in packed["seeds"].items()}}
    if packed["arrays"]:
        path = folder / os.path.basename(packed["file"])
        with path.open("rb") as file:
            for name, dtype, shape in packed["arrays"]:
                count = int(np.prod(shape, dtype=np.int64))
                values[name] = np.fromfile(file, _type(dtype), count).reshape(shape)
        path.unlink()
    return {name: values[name] for name in packed["order"]}
