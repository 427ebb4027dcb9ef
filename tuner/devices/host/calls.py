"""How C functions are called: their arguments as ctypes values, and the actions of a launch as calls."""

from __future__ import annotations

import ctypes
import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tuner.devices.work import Action, Copy, Move, Passed, Run, Series, While, Zero
from tuner.space import dtypes

_memmove: Callable[[int, int, int], Any] = ctypes.memmove
_memset: Callable[[int, int, int], Any] = ctypes.memset
_REALS = {4: ctypes.c_float, 8: ctypes.c_double}  # by size in bytes


def _pair(kind: type) -> type[ctypes.Structure]:
    """A struct of two numbers, which the C calling convention passes like a complex number."""
    return type("Pair", (ctypes.Structure,), {"_fields_": [("real", kind), ("imaginary", kind)]})


_PAIRS = {8: _pair(ctypes.c_float), 16: _pair(ctypes.c_double)}


def address(target: Any) -> int:
    """The address of a buffer's `handle`, which is an address already, or of its `whole`."""
    return target if isinstance(target, int) else int(target.ctypes.data)


def c_values(arguments: Sequence[Any]) -> list[Any]:
    """Convert addresses and scalars to C types. Passed arguments remain, for `bind` or a launch to replace."""
    return [
        _c_scalar(a) if isinstance(a, np.generic) else a if isinstance(a, Passed) else ctypes.c_void_p(address(a))
        for a in arguments
    ]


def prepared(action: Action) -> Callable[[Sequence[Any]], Callable[[], None]]:
    """A function from the C values of the work's arguments to a function that runs one action."""
    match action:
        case Run(function):
            return lambda values: functools.partial(function.handle, *_taken(action, values))
        case Copy(target, source, nbytes):
            return lambda values: functools.partial(_memmove, address(target), values[source].value, nbytes)
        case Zero(target, nbytes):
            return lambda values: functools.partial(_memset, address(target), 0, nbytes)
        case Move(to, source, nbytes):
            return lambda values: functools.partial(_memmove, values[to].value, values[source].value, nbytes)
        case Series():
            return _prepared_series(action)
        case While():
            return _prepared_while(action)


def _taken(run: Run, values: Sequence[Any]) -> list[Any]:
    """The C values that a run passes."""
    taken = [values[position] for position in run.arguments]
    for index, places in _pointers(run, values).items():
        taken[index] = _with_pointers(taken[index], places)
    return taken


def _pointers(run: Run, values: Sequence[Any]) -> dict[int, list[tuple[int, int]]]:
    """The pointers of each struct that a run passes, by its index among the arguments: offsets and addresses."""
    found = dict[int, list[tuple[int, int]]]()
    for each in run.pointers:
        found.setdefault(run.arguments.index(each.struct), []).append((each.offset, values[each.array].value))
    return found


def _with_pointers(struct: Any, places: Sequence[tuple[int, int]]) -> Any:
    """A copy of a struct with these addresses at these offsets."""
    content = bytearray(struct)
    for offset, place in places:
        content[offset : offset + 8] = bytes(ctypes.c_uint64(place))
    return type(struct).from_buffer_copy(content)


def _prepared_series(series: Series) -> Callable[[Sequence[Any]], Callable[[], None]]:
    changes = series.changes(_c_scalar)  # once, because there may be many

    def bound(values: Sequence[Any]) -> Callable[[], None]:
        runs = [(run.function.handle, _taken(run, values), _pointers(run, values)) for run in series.runs]

        def call() -> None:
            for number in series.order:
                run, own = changes[number]
                handle, arguments, pointers = runs[run]
                for index, value in own:
                    arguments[index] = _with_pointers(value, pointers[index]) if index in pointers else value
                handle(*arguments)

        return call

    return bound


def _prepared_while(action: While) -> Callable[[Sequence[Any]], Callable[[], None]]:
    passes, moves = [*map(_prepared_series, action.passes)], [*map(prepared, action.moves)]

    def bound(values: Sequence[Any]) -> Callable[[], None]:
        starts, moving = [each(values) for each in passes], [each(values) for each in moves]
        flag = (ctypes.c_char * action.nbytes).from_address(values[action.flag].value)

        def start(which: int) -> bool:
            ctypes.memset(flag, 0, action.nbytes)
            starts[which]()
            return any(flag.raw)

        def move() -> None:
            for each in moving:
                each()

        return lambda: action.run(start, move)

    return bound


@functools.cache
def _c_type(dtype: np.dtype[Any]) -> Any:
    """The ctypes type of a struct or of one of its fields, with C's own layout."""
    if dtype.subdtype is not None:
        element, shape = dtype.subdtype
        return _c_type(element) * math.prod(shape)
    if dtype.fields is None:
        return _PAIRS[dtype.itemsize] if dtype.kind == "c" else np.ctypeslib.as_ctypes_type(dtype)
    fields = [(name, _c_type(dtype.fields[name][0])) for name in dtype.names or ()]
    return type("Struct", (ctypes.Structure,), {"_fields_": fields})


def _c_scalar(scalar: np.generic) -> Any:
    """Convert a scalar to a ctypes value that the C calling convention passes like the scalar's type."""
    if isinstance(scalar, np.void):
        return _c_type(scalar.dtype).from_buffer_copy(scalar.tobytes())
    dtype, content = dtypes.of(scalar.dtype), scalar.tobytes()
    if dtype.kind == "complex":
        return _PAIRS[dtype.itemsize].from_buffer_copy(content)
    if dtype.kind == "real" and not dtype.foreign:  # float16 is passed in the low bits of a float's register
        kind = _REALS.get(dtype.itemsize, ctypes.c_float)
        return kind.from_buffer_copy(content.ljust(ctypes.sizeof(kind), b"\0"))
    return np.ctypeslib.as_ctypes_type(dtype.bits if dtype.foreign else dtype.numpy).from_buffer_copy(content)
