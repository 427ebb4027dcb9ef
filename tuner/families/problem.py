"""The problem that arrays pose: sizes from their shapes, types from their dtypes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tuner.errors import ArgumentError, ExpressionError, RequestError
from tuner.quoting import quoted
from tuner.space import chosen_types, dtypes, operation
from tuner.space.expressions import Expression
from tuner.space.model import Operation
from tuner.space.scope import Scope

MOST_EXTENT = 1 << 48  # of a size that is looked for
Reader = Callable[[Sequence[Any]], tuple[Any, ...]]  # of the arrays of a call
TRIED = (1, 2, 3, 64, 1000)  # sizes at which an extent is looked at


def sizes_of(op: Operation, shapes: Sequence[Sequence[int]], given: Mapping[str, int]) -> dict[str, int]:
    """The sizes at which the operation's arrays have these shapes. `given` are those that no shape tells.

    An extent that is the name of a size is that size. Where it is an expression with one size that is not known yet,
    the size is looked for, as if the extent grew with it; where several fit, it is not told. Extents may be symbols.
    Raises ArgumentError where shapes do not fit, RequestError where a size cannot be told.
    """
    arrays = op.arrays
    if len(shapes) != len(arrays):
        names = ", ".join(a.name for a in arrays)
        raise ArgumentError(f"{len(shapes)} arrays given; it takes {len(arrays)}: {names}")
    sizes = dict(given)
    pairs: list[tuple[str, Expression, int]] = []
    for argument, shape in zip(arrays, shapes, strict=True):
        extents = argument.shape or ()
        if len(extents) != len(shape):
            needed = ", ".join(extent.text for extent in extents)
            raise ArgumentError(f"{argument.name}: has shape {tuple(shape)}; needed is ({needed})")
        pairs += [(argument.name, extent, value) for extent, value in zip(extents, shape, strict=True)]
    for _, extent, value in pairs:
        if extent.is_name and extent.text in op.sizes:
            sizes.setdefault(extent.text, value)
    for _, extent, value in pairs:
        unknown = [name for name in extent.names if name in op.sizes and name not in sizes]
        if len(unknown) == 1:
            solved = _solved(extent, unknown[0], {**op.options, **sizes}, value)
            if solved is not None:
                sizes[unknown[0]] = solved
    for name, default in op.sizes.items():
        if name not in sizes and default is not None:
            sizes[name] = default
    if missing := [name for name in op.sizes if name not in sizes]:
        raise RequestError(
            f"size {', '.join(missing)}: no shape of an array tells it; give it as sizes={{{missing[0]!r}: ...}}"
        )
    return {name: sizes[name] for name in op.sizes}


def _solved(extent: Expression, name: str, names: Mapping[str, Any], value: int) -> int | None:
    """The size at which an extent that grows with it has this value; None if there is none, or where several may have
    it. Where the extent is a multiple of the size and something more, the value may be a symbol."""
    if not tells(extent, name, names):
        return None
    try:
        at_0, at_1, at_2 = (extent.evaluate({**names, name: size}) for size in range(3))
        if at_2 - at_1 == at_1 - at_0 != 0:
            size: int = (value - at_0) // (at_1 - at_0)
            return size
    except ExpressionError:
        pass
    low, high = 1, MOST_EXTENT
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


def tells(extent: Expression, name: str, names: Mapping[str, Any]) -> bool:
    """Whether an extent tells a size: at the next size it is another one, as `2 * n` is, and `ceil_div(n, 2)` is not
    everywhere."""
    try:
        return all(
            extent.evaluate({**names, name: size}) != extent.evaluate({**names, name: size + 1}) for size in TRIED
        )
    except ExpressionError:
        return False


def sized_arrays(op: Operation) -> int:
    """How many of the first arrays tell all sizes that shapes tell: those of C and A tell M, N and K."""
    told: set[str] = set()
    count = 0
    for position, argument in enumerate(op.arrays):
        extents = argument.shape or ()
        names = {extent.text for extent in extents if extent.is_name}
        if not {name for extent in extents for name in extent.names if name in op.sizes} <= told:
            count = position + 1
            told |= names
    return count


def typed_arrays(op: Operation) -> list[int]:
    """The positions of the first array of each type that is chosen."""
    first = {a.dtype: position for position, a in reversed([*enumerate(op.arrays)]) if a.dtype in op.types}
    return sorted(first.values())


def reader(
    sized: int, typed: Sequence[int], place: Callable[[Any], int | str] | None = None, has_shape: bool = True
) -> Reader:
    """A function that returns what tells the problem of some arrays: where the first one lies, where a `place` tells
    that; the shapes of the first ones, which have that attribute or the CUDA array interface alone; and the dtypes of
    the typed ones. It raises AttributeError, IndexError, KeyError or TypeError for others."""
    # Compiled, since each dispatched call waits for it: a loop over the arrays takes 0.2 us more, of 0.7 to 1.3 in all.
    shape = "shape" if has_shape else "__cuda_array_interface__['shape']"
    places = [] if place is None else ["place(arrays[0])"]
    shapes = [f"arrays[{position}].{shape}" for position in range(sized)]
    dtypes = [f"arrays[{position}].dtype" for position in typed]
    text = f"lambda arrays: ({''.join(f'{part}, ' for part in [*places, *shapes, *dtypes])})"
    function: Reader = eval(text, {"place": place})  # noqa: S307  # numbers and the words above, nothing of a caller's
    return function


def shape_of(array: Any) -> tuple[int, ...] | None:
    """The shape of an array of any library, or of one that has the CUDA array interface alone; None if it is none."""
    shape = getattr(array, "shape", None)
    if shape is None:
        try:
            shape = array.__cuda_array_interface__["shape"]
        except (AttributeError, KeyError, TypeError):
            return None
    return tuple(shape) if isinstance(shape, Sequence) else None


def dtype_name(array: Any) -> str:
    """The name of an array's dtype, whichever library it is of."""
    if not hasattr(array, "dtype") and hasattr(array, "__cuda_array_interface__"):
        name: str = np.dtype(array.__cuda_array_interface__["typestr"]).name
        return name
    text = str(getattr(array, "dtype", type(array).__name__)).rpartition(".")[2]
    return text if text in dtypes.DTYPES else dtypes.canonical(text)


def fits(op: Operation, arrays: Sequence[Any], scope: Scope) -> bool:
    """Whether all arrays have the shapes and types of a problem."""
    return all(
        shape_of(array) == operation.shape(argument, scope)
        and dtype_name(array) == chosen_types.dtype(argument, scope).name
        for argument, array in zip(op.arrays, arrays, strict=True)
    )


def types_of(op: Operation, arrays: Sequence[Any]) -> dict[str, str]:
    """The types that these arrays choose. Raises ArgumentError for one that is not allowed, or where two differ."""
    types: dict[str, str] = {}
    for argument, array in zip(op.arrays, arrays, strict=True):
        if argument.dtype not in op.types:
            continue
        name, allowed = dtype_name(array), op.types[argument.dtype]
        chosen = types.setdefault(argument.dtype, name)
        if name not in allowed or name != chosen:
            wanted = chosen if chosen in allowed else " or ".join(allowed)
            raise ArgumentError(f"{argument.name}: has dtype {quoted(name)}; needed is {wanted}")
    return {name: types.get(name, allowed[0]) for name, allowed in op.types.items()}
