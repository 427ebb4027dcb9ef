"""How far apart the rows of arrays lie, for kernels that take leading dimensions as scalars.

Strides are in elements: from one element to the next along each axis, the last of which is 1. An entry of `strides:`
that is the name of a leading dimension is read from the array that a caller passes; any other is an expression over
sizes and leading dimensions, which the array must meet.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from tuner.errors import SpaceError
from tuner.space.texts import size_text

if TYPE_CHECKING:
    from tuner.space.argument import Argument
    from tuner.space.model import Operation

Shapes = Mapping[str, tuple[int, ...]]
Values = Mapping[str, int]


def contiguous(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The strides of a contiguous array of this shape, in C order."""
    return tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape)))


def of(argument: Argument, names: Values) -> tuple[int, ...]:
    """The strides of an argument with these sizes and leading dimensions. Raises ExpressionError."""
    return tuple(stride.integer(names) for stride in argument.strides)


def span(shape: tuple[int, ...], strides: tuple[int, ...]) -> int:
    """The elements from the first to the last of an array, both included."""
    return 1 + sum((extent - 1) * stride for extent, stride in zip(shape, strides, strict=True))


def fault(shape: tuple[int, ...], strides: tuple[int, ...], unit: int) -> str | None:
    """Why no array may have these strides; None where one may.

    Along no axis may it run backwards, or reach what lies further out. Its rows begin at multiples of `unit` elements
    unless they lie as they do in a contiguous array. Along an axis of extent 1, a stride says nothing.
    """
    for axis, own in enumerate(contiguous(shape)):
        if shape[axis] == 1:
            continue
        if strides[axis] < span(shape[axis + 1 :], strides[axis + 1 :]):
            return "rows must not overlap or run backwards"
        if strides[axis] != own and strides[axis] % unit:
            return f"each row must begin at a multiple of {unit} elements"
    return None


def unpadded(operation: Operation, shapes: Shapes, sizes: Values) -> dict[str, int]:
    """The leading dimensions of contiguous arrays of these shapes. Raises SpaceError where there are none."""
    values = dict[str, int]()
    for name in operation.leading:
        found = {argument.name: own for argument, own, extent in _occurrences(operation, shapes, name) if extent > 1}
        if len(set(found.values())) > 1:
            lengths = ", ".join(f"{own} for {array}" for array, own in found.items())
            raise SpaceError(
                f"argument {name}: arrays are contiguous while they are tuned, where it would be {lengths} at "
                f"{size_text(sizes)}; choose sizes at which these are the same, or give each array one of its own"
            )
        every = [own for _, own, _ in _occurrences(operation, shapes, name)]
        values[name] = next(iter(found.values()), max(every, default=1))
    for argument in operation.strided:
        shape, strides = shapes[argument.name], of(argument, {**sizes, **values})
        expected = contiguous(shape)
        if any(e > 1 and s != c for e, s, c in zip(shape, strides, expected, strict=True)):
            raise SpaceError(
                f"argument {argument.name}: its strides are {strides} at {size_text(sizes)}, and those of the "
                f"contiguous array that it is tuned with {expected}; write strides that such an array meets"
            )
    return values


def padded(operation: Operation, shapes: Shapes, sizes: Values, units: Values) -> dict[str, int]:
    """Leading dimensions of arrays whose rows have padding behind them, a different one for each, so that a kernel that
    mixes them up is wrong. `units` are the elements at whose multiples the rows of each array begin.

    Raises SpaceError where no such array meets its strides.
    """
    values = unpadded(operation, shapes, sizes)
    for _ in values:  # one may depend on those further in, as in [a, lda, 1]
        for number, name in enumerate(operation.leading, start=1):
            unit = max(units[argument.name] for argument, _ in _places(operation, name))  # all are powers of two
            for argument, axis in _places(operation, name):
                inner = of(argument, {**sizes, **values})[axis + 1] * shapes[argument.name][axis + 1]
                padding = (2 * number - 1) * unit  # odd, so that what takes pairs for granted is wrong
                values[name] = max(values[name], -(-(inner + padding) // unit) * unit)
    for argument in operation.strided:
        strides = of(argument, {**sizes, **values})
        if (message := fault(shapes[argument.name], strides, units[argument.name])) is not None:
            given = ", ".join(f"{name} = {value}" for name, value in values.items())
            raise SpaceError(
                f"argument {argument.name}: its strides are {strides} where {given}, at {size_text(sizes)}, and "
                f"{message}; so no array with padding fits it; write strides that one meets, as in [lda * rows, lda, 1]"
            )
    return values


def _places(operation: Operation, name: str) -> Iterator[tuple[Argument, int]]:
    """Where a leading dimension is read: the array, and its axis."""
    for argument in operation.strided:
        for axis, stride in enumerate(argument.strides):
            if stride.text == name:
                yield argument, axis


def _occurrences(operation: Operation, shapes: Shapes, name: str) -> Iterator[tuple[Argument, int, int]]:
    """The arrays that a leading dimension is read from, with the contiguous stride and the extent of that axis."""
    for argument, axis in _places(operation, name):
        shape = shapes[argument.name]
        yield argument, contiguous(shape)[axis], shape[axis]
