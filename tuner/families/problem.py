"""Infer the problem of a call from its arrays: sizes from their shapes, types from their dtypes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tuner.devices.arguments import wrong_count
from tuner.errors import ArgumentError, ExpressionError, RequestError
from tuner.quoting import quoted
from tuner.space import chosen_types, dtypes, operation
from tuner.space.computation import Operation
from tuner.space.expressions import Expression
from tuner.space.scope import Limits, Scope

LARGEST_SIZE = 1 << 48  # the upper bound of the search for a size
Reader = Callable[[Sequence[Any]], tuple[Any, ...]]  # maps a call's arrays to a key of their problem
PROBED_SIZES = (1, 2, 3, 64, 1000)  # an extent is evaluated at each of these sizes and at the next one


def sizes_of(op: Operation, shapes: Sequence[Sequence[int]], given: Mapping[str, int]) -> dict[str, int]:
    """The value of each size, inferred from the shapes of the operation's arrays.

    An extent that is just a size's name gives that size. If an extent is an expression with one unknown size, that size
    is solved for, assuming that the extent grows with it. It is not inferred if several values may be solutions.

    Args:
        shapes: One shape for each array of the operation. Its extents may be symbols (`torch.SymInt`).
        given: The values of sizes that no array shape determines. They win over inferred values.

    Raises ArgumentError if the number of arrays or of their dimensions is wrong, and RequestError if a size is neither
    inferred nor given, and has no default.
    """
    arrays = op.arrays
    if len(shapes) != len(arrays):
        raise wrong_count(arrays, shapes)
    sizes = dict(given)
    pairs: list[tuple[str, Expression, int]] = []
    for argument, shape in zip(arrays, shapes, strict=True):
        extents = argument.shape or ()
        if len(extents) != len(shape):
            required = ", ".join(extent.text for extent in extents)
            raise ArgumentError(f"{argument.name}: has shape {tuple(shape)}; required: ({required})")
        pairs += [(argument.name, extent, value) for extent, value in zip(extents, shape, strict=True)]
    for _, extent, value in pairs:
        if extent.is_name and extent.text in op.sizes:
            sizes.setdefault(extent.text, value)
    options = op.scope({}, op.options, "", Limits(), {}).passed_options
    for _, extent, value in pairs:
        unknown = [name for name in extent.names if name in op.sizes and name not in sizes]
        if len(unknown) == 1:
            solved = _solve(extent, unknown[0], {**options, **sizes}, value)
            if solved is not None:
                sizes[unknown[0]] = solved
    for name, default in op.sizes.items():
        if name not in sizes and default is not None:
            sizes[name] = default
    if missing := [name for name in op.sizes if name not in sizes]:
        raise RequestError(
            f"size {', '.join(missing)}: no array shape determines it; pass sizes={{{missing[0]!r}: ...}}"
        )
    return {name: sizes[name] for name in op.sizes}


def _solve(extent: Expression, name: str, names: Mapping[str, Any], value: int) -> int | None:
    """The value of size `name` at which `extent` equals `value`; None if there is none, or possibly several.

    The extent must grow with the size. If it is linear in the size, `value` may be a symbol. `names` has the options
    and the known sizes.
    """
    if not determines_size(extent, name, names):
        return None
    try:
        at_0, at_1, at_2 = (extent.evaluate({**names, name: size}) for size in range(3))
        if at_2 - at_1 == at_1 - at_0 != 0:
            size: int = (value - at_0) // (at_1 - at_0)
            return size
    except ExpressionError:
        pass
    low, high = 1, LARGEST_SIZE
    try:
        while low < high:
            middle = (low + high) // 2
            if extent.integer({**names, name: middle}) < value:
                low = middle + 1
            else:
                high = middle
        return low if extent.integer({**names, name: low}) == value else None
    except ExpressionError:
        return None


def determines_size(extent: Expression, name: str, names: Mapping[str, Any]) -> bool:
    """Whether the value of `extent` determines size `name`.

    It does if the extent differs between successive sizes, as `2 * n` does. `ceil_div(n, 2)` does not: it is 1 at n = 1
    and at n = 2. Only PROBED_SIZES are examined. `names` has the other names of the extent.
    """
    try:
        return all(
            extent.evaluate({**names, name: probed}) != extent.evaluate({**names, name: probed + 1})
            for probed in PROBED_SIZES
        )
    except ExpressionError:
        return False


def sized_arrays(op: Operation) -> int:
    """The number of leading arrays whose shapes suffice to infer the sizes: 2 for C, A, B, since B adds no size."""
    determined: set[str] = set()
    count = 0
    for position, argument in enumerate(op.arrays):
        extents = argument.shape or ()
        names = {extent.text for extent in extents if extent.is_name}
        if not {name for extent in extents for name in extent.names if name in op.sizes} <= determined:
            count = position + 1
            determined |= names
    return count


def typed_arrays(op: Operation) -> list[int]:
    """For each type name of the operation, the position of the first array of that type; ascending."""
    first = {a.dtype: position for position, a in reversed([*enumerate(op.arrays)]) if a.dtype in op.types}
    return sorted(first.values())


def reader(
    sized: int, typed: Sequence[int], place: Callable[[Any], int | str] | None = None, has_shape: bool = True
) -> Reader:
    """A function that maps the arrays of a call to a key: a tuple of the device, shapes and dtypes that determine their
    problem. It raises AttributeError, IndexError, KeyError or TypeError for unsuitable arrays.

    Args:
        sized: The number of leading arrays whose shapes are part of the key.
        typed: The positions of the arrays whose dtypes are part of the key.
        place: Returns the device of the first array, which becomes part of the key. Default: the key has no device.
        has_shape: Whether the arrays have a `shape` attribute. If not, the CUDA array interface gives their shapes.
    """
    # Generated code, because every dispatched call runs it: a loop over the arrays would add 0.2 us to a look-up of 0.7
    # to 1.3 us.
    shape = "shape" if has_shape else "__cuda_array_interface__['shape']"
    places = [] if place is None else ["place(arrays[0])"]
    shapes = [f"arrays[{position}].{shape}" for position in range(sized)]
    dtypes = [f"arrays[{position}].dtype" for position in typed]
    text = f"lambda arrays: ({''.join(f'{part}, ' for part in [*places, *shapes, *dtypes])})"
    function: Reader = eval(text, {"place": place})  # noqa: S307  # the text has only positions and the words above
    return function


def shape_of(array: Any) -> tuple[int, ...] | None:
    """The shape of an array of any library or of an object with the CUDA array interface; None for another object."""
    shape = getattr(array, "shape", None)
    if shape is None:
        try:
            shape = array.__cuda_array_interface__["shape"]
        except (AttributeError, KeyError, TypeError):
            return None
    return tuple(shape) if isinstance(shape, Sequence) else None


def dtype_name(array: Any) -> str:
    """The name of the dtype of an array of any library."""
    if not hasattr(array, "dtype") and hasattr(array, "__cuda_array_interface__"):
        name: str = np.dtype(array.__cuda_array_interface__["typestr"]).name
        return name
    text = str(getattr(array, "dtype", type(array).__name__)).rpartition(".")[2]
    return text if text in dtypes.DTYPES else dtypes.canonical(text)


def fits(op: Operation, arrays: Sequence[Any], scope: Scope) -> bool:
    """Whether all arrays have the shapes and dtypes that the problem of `scope` requires."""
    return all(
        shape_of(array) == operation.shape(argument, scope)
        and dtype_name(array) == chosen_types.dtype(argument, scope).name
        for argument, array in zip(op.arrays, arrays, strict=True)
    )


def types_of(op: Operation, arrays: Sequence[Any]) -> dict[str, str]:
    """The dtype of each type name, inferred from the arrays; the default if no array has that type.

    Raises ArgumentError if a dtype is not allowed, or if two arrays of one type have different dtypes.
    """
    types: dict[str, str] = {}
    for argument, array in zip(op.arrays, arrays, strict=True):
        if argument.dtype not in op.types:
            continue
        name, allowed = dtype_name(array), op.types[argument.dtype]
        chosen = types.setdefault(argument.dtype, name)
        if name not in allowed or name != chosen:
            required = chosen if chosen in allowed else " or ".join(allowed)
            raise ArgumentError(f"{argument.name}: has dtype {quoted(name)}; required: {required}")
    return {name: types.get(name, allowed[0]) for name, allowed in op.types.items()}
