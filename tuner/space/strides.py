"""Strides of arrays, for kernels that take leading dimensions as scalars.

A stride is the distance, in elements, from one element to the next along an axis. That of the last axis is 1. If an
entry of `strides:` is the name of a leading dimension, its value is read from the caller's array. Any other entry is an
expression over sizes and leading dimensions, whose value the array's stride must equal.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from tuner.errors import SpaceError
from tuner.space.texts import size_text

if TYPE_CHECKING:
    from tuner.space.argument import Argument
    from tuner.space.computation import Operation

Shapes = Mapping[str, tuple[int, ...]]
Values = Mapping[str, int]


def contiguous(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The strides of a C-contiguous array of this shape, in elements."""
    return tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape)))


def of(argument: Argument, names: Values) -> tuple[int, ...]:
    """The strides of an argument for these sizes and leading dimensions, in elements. Raises ExpressionError."""
    return tuple(stride.integer(names) for stride in argument.strides)


def span(shape: tuple[int, ...], strides: tuple[int, ...]) -> int:
    """The number of elements from the first to the last element of an array, inclusive of padding."""
    return 1 + sum((extent - 1) * stride for extent, stride in zip(shape, strides, strict=True))


def fault(shape: tuple[int, ...], strides: tuple[int, ...], unit: int) -> str | None:
    """The reason why an array must not have these strides; None if it may.

    Strides must not be negative, and rows must not overlap. A stride must be a multiple of `unit` elements, or that of
    a contiguous array. The stride of an axis of extent 1 does not matter.
    """
    for axis, contiguous_stride in enumerate(contiguous(shape)):
        if shape[axis] == 1:
            continue
        if strides[axis] < span(shape[axis + 1 :], strides[axis + 1 :]):
            return "rows must not overlap or run backwards"
        if strides[axis] != contiguous_stride and strides[axis] % unit:
            return f"each row must begin at a multiple of {unit} elements"
    return None


def unpadded(operation: Operation, shapes: Shapes, sizes: Values) -> dict[str, int]:
    """The leading dimensions of contiguous arrays of these shapes. Raises SpaceError if no values fit all arrays."""
    values = dict[str, int]()
    for name in operation.leading:
        occurrences = list(_occurrences(operation, shapes, name))
        by_array = {argument.name: stride for argument, stride, extent in occurrences if extent > 1}
        if len(set(by_array.values())) > 1:
            conflicts = ", ".join(f"{stride} for {array}" for array, stride in by_array.items())
            raise SpaceError(
                f"argument {name}: tuning uses contiguous arrays, for which it would be {conflicts} at "
                f"{size_text(sizes)}; choose sizes at which these are equal, or declare a leading dimension per array"
            )
        all_strides = [stride for _, stride, _ in occurrences]
        values[name] = next(iter(by_array.values()), max(all_strides, default=1))
    for argument in operation.strided:
        shape, strides = shapes[argument.name], of(argument, {**sizes, **values})
        expected = contiguous(shape)
        if any(e > 1 and s != c for e, s, c in zip(shape, strides, expected, strict=True)):
            raise SpaceError(
                f"argument {argument.name}: its strides are {strides} at {size_text(sizes)}, but tuning uses a "
                f"contiguous array, with strides {expected}; write strides that a contiguous array has"
            )
    return values


def padded(operation: Operation, shapes: Shapes, sizes: Values, units: Values) -> dict[str, int]:
    """Leading dimensions of arrays with padded rows.

    Each leading dimension gets a different padding, so that verification finds a kernel that confuses them. `units` is
    the alignment of each array's rows, in elements. Raises SpaceError if no padded array has its declared strides.
    """
    values = unpadded(operation, shapes, sizes)
    for _ in values:  # repeated: one may depend on those of inner axes, as in [a, lda, 1]
        for number, name in enumerate(operation.leading, start=1):
            unit = max(units[argument.name] for argument, _ in _places(operation, name))  # all are powers of two
            for argument, axis in _places(operation, name):
                inner = of(argument, {**sizes, **values})[axis + 1] * shapes[argument.name][axis + 1]
                padding = (2 * number - 1) * unit  # an odd number of units, to find kernels that assume an even one
                values[name] = max(values[name], -(-(inner + padding) // unit) * unit)
    for argument in operation.strided:
        strides = of(argument, {**sizes, **values})
        if (message := fault(shapes[argument.name], strides, units[argument.name])) is not None:
            given = ", ".join(f"{name} = {value}" for name, value in values.items())
            raise SpaceError(
                f"argument {argument.name}: its strides are {strides} where {given}, at {size_text(sizes)}, but "
                f"{message}; write strides that an array with padded rows can have, such as [lda * rows, lda, 1]"
            )
    return values


def _places(operation: Operation, name: str) -> Iterator[tuple[Argument, int]]:
    """The arrays and axes from which a leading dimension is read."""
    for argument in operation.strided:
        for axis, stride in enumerate(argument.strides):
            if stride.text == name:
                yield argument, axis


def _occurrences(operation: Operation, shapes: Shapes, name: str) -> Iterator[tuple[Argument, int, int]]:
    """The arrays from which a leading dimension is read, with the contiguous stride and the extent of that axis."""
    for argument, axis in _places(operation, name):
        shape = shapes[argument.name]
        yield argument, contiguous(shape)[axis], shape[axis]
