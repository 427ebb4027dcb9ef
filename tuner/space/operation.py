"""The operation for one problem: shapes, inputs, constants, scalars, strides and rates."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from tuner.errors import SpaceError
from tuner.quoting import quoted
from tuner.space import strides, structs
from tuner.space.argument import Argument
from tuner.space.chosen_types import choices, dtype
from tuner.space.computation import Operation
from tuner.space.dtypes import DType
from tuner.space.expressions import Expression
from tuner.space.scope import Scope
from tuner.space.texts import size_text
from tuner.space.values import filling
from tuner.space.values.elements import Elements, Held, held
from tuner.space.values.fills import Fill

Array = np.ndarray[Any, np.dtype[Any]]


def shape(argument: Argument, scope: Scope) -> tuple[int, ...]:
    """The shape of an array argument at this size, in elements. Raises SpaceError for an extent below 1."""
    assert argument.shape is not None
    extents = tuple(extent.integer(scope.names) for extent in argument.shape)
    if min(extents, default=1) < 1:
        raise SpaceError(
            f"argument {argument.name}: its shape is {extents} at {size_text(scope.sizes)}; "
            "each extent must be at least 1"
        )
    return extents


def array_bytes(operation: Operation, scope: Scope) -> int:
    """Total bytes of the arrays that the caller passes."""
    return sum(nbytes(argument, scope) for argument in operation.arrays)


def nbytes(argument: Argument, scope: Scope) -> int:
    """Bytes of one array argument."""
    return math.prod(shape(argument, scope)) * dtype(argument, scope).itemsize


def inputs(
    operation: Operation, scope: Scope, seed: int = 0, filled: Mapping[str, Array] = MappingProxyType({})
) -> dict[str, Elements]:
    """The contents of the arrays, by name: those that the caller passes, filled with this seed, and the constants.

    `filled` has the contents that Python functions computed. Raises SpaceError for a fill that does not fit.
    """
    arrays: dict[str, Elements] = {}
    for position, argument in enumerate(operation.arrays):
        given = filled.get(argument.name)
        arrays[argument.name] = content(argument, scope, seed, position) if given is None else Held(given)
    return arrays | held(constants(operation, scope))


def content(argument: Argument, scope: Scope, seed: int, position: int) -> Elements:
    """The contents of an array that no Python function fills; `position` is its index among the arrays. Raises
    SpaceError."""
    element, size = dtype(argument, scope), shape(argument, scope)
    if argument.fill is None:
        return filling.standard(element, size, seed, position)
    fill = _fill_at(argument.name, argument.fill, scope, element)
    return filling.contents(fill, argument.name, element, size, seed, position)


def _fill_at(name: str, fill: Fill, scope: Scope, element: DType) -> Fill:
    try:
        return fill.at(scope.sizes, element)
    except SpaceError as error:
        raise SpaceError(f"argument {name}: {error}, at {size_text(scope.sizes)}") from None


def constants(operation: Operation, scope: Scope) -> dict[str, Array]:
    """The contents of the constant arrays, by name. Raises SpaceError if an element does not fit its dtype."""
    arrays: dict[str, Array] = {}
    for argument in operation.constants:
        numbers = [value(argument, expression, scope.names, scope) for expression in argument.value]
        values = np.array(numbers, dtype(argument, scope).numpy)
        arrays[argument.name] = values.reshape(shape(argument, scope))
    return arrays


def value(argument: Argument, expression: Expression, names: Mapping[str, Any], scope: Scope) -> np.generic:
    """The value of `expression`, one of the argument's `value`, in the argument's dtype. Raises SpaceError."""
    number, element = expression.evaluate(names), dtype(argument, scope)
    if not isinstance(number, int | float) or not (math.isfinite(number) and element.holds(number)):
        raise SpaceError(
            f"argument {argument.name}: `{expression.text}` is {quoted(number)} at {size_text(scope.sizes)}, and does "
            f"not fit its {element.name}; try a smaller size, or declare a wider dtype"
        )
    return element.scalar(number)


def scalars(operation: Operation, scope: Scope, leading: Mapping[str, int] | None = None) -> list[np.generic]:
    """The values of the arguments that are passed by value, in order, in their dtypes. Those that change from launch to
    launch are 0.

    `leading` has the leading dimensions, by name; if None, arrays are contiguous. Raises SpaceError for a value that
    does not fit.
    """
    names = {**scope.names, **(contiguous(operation, scope) if leading is None else leading)}
    return [_by_value(operation, argument, scope, names) for argument in operation.by_value]


def _by_value(operation: Operation, argument: Argument, scope: Scope, names: Mapping[str, Any]) -> np.generic:
    if argument in operation.looped:
        zeros = [dtype(number, scope).scalar(0) for number in structs.numbers(argument)]
        return structs.packed(argument, zeros, scope.language, scope.types) if argument.fields else zeros[0]
    if argument.fields or argument.value:
        return passed(argument, scope.names, scope)
    return dtype(argument, scope).scalar(names[argument.name])


def passed(argument: Argument, names: Mapping[str, Any], scope: Scope) -> np.generic:
    """What a launch passes for a struct, vector, or scalar with a `value`, given the value of every name. Raises
    SpaceError."""
    numbers = [value(number, number.value[0], names, scope) for number in structs.numbers(argument)]
    return structs.packed(argument, numbers, scope.language, scope.types) if argument.fields else numbers[0]


def contiguous(operation: Operation, scope: Scope) -> dict[str, int]:
    """The leading dimensions of contiguous arrays, by name. Raises SpaceError if no values fit all arrays."""
    return _fitting(operation, scope, strides.unpadded(operation, _strided_shapes(operation, scope), scope.sizes))


def padded(operation: Operation, scope: Scope, alignment: int) -> dict[str, int]:
    """Leading dimensions, by name, of arrays with padded rows, each row aligned to `alignment` bytes.

    Raises SpaceError if no values fit all arrays.
    """
    units = {a.name: max(1, alignment // dtype(a, scope).itemsize) for a in operation.strided}
    shapes = _strided_shapes(operation, scope)
    return _fitting(operation, scope, strides.padded(operation, shapes, scope.sizes, units))


def _strided_shapes(operation: Operation, scope: Scope) -> dict[str, tuple[int, ...]]:
    return {argument.name: shape(argument, scope) for argument in operation.strided}


def _fitting(operation: Operation, scope: Scope, leading: dict[str, int]) -> dict[str, int]:
    """`leading`, checked: raises SpaceError if a value does not fit the kernel's scalar."""
    for argument in operation.scalars:
        value, element = leading.get(argument.name, 0), dtype(argument, scope)
        if not element.holds(value):
            raise SpaceError(
                f"argument {argument.name}: is {value} at {size_text(scope.sizes)}, and does not fit its "
                f"{element.name}; try a smaller size, or declare a wider dtype"
            )
    return leading


def gflops(operation: Operation, scope: Scope, time_ms: float) -> float | None:
    """The rate of a run of `time_ms`, in GFLOP/s; None if the operation has no `flops`."""
    return _giga_per_second(operation.flops, scope, time_ms)


def gbytes(operation: Operation, scope: Scope, time_ms: float) -> float | None:
    """The rate of a run of `time_ms` in GB/s, from the operation's `bytes`; None if it has none."""
    return _giga_per_second(operation.bytes, scope, time_ms)


def _giga_per_second(amount: Expression | None, scope: Scope, time_ms: float) -> float | None:
    return None if amount is None else float(amount.evaluate(scope.names)) / (time_ms * 1e6)


def integers_without_fill(op: Operation) -> list[str]:
    """The integer inputs without a `fill`. In every other input set, one in nine of their elements is 0."""
    return [
        a.name
        for a in op.arrays
        if a.role in ("in", "inout") and a.fill is None and not a.value
        if any(each.kind == "integer" for each in choices(a, op.types))
    ]


def may_be_negative(op: Operation, names: Collection[str]) -> bool:
    """Whether some of these arrays of integers without a `fill` hold negative numbers."""
    return any(each.low < 0 for a in op.arrays if a.name in names for each in choices(a, op.types))


def index_hint(op: Operation) -> str:
    """The likely reason for an access out of bounds, and the remedy; empty if every integer input has a `fill:`."""
    if not (names := integers_without_fill(op)):
        return ""
    least = -8 if may_be_negative(op, names) else 0
    have, their = ("has", "its") if len(names) == 1 else ("have", "their")
    others = [a.shape[0] for a in op.arrays if a.role in ("in", "inout") and a.name not in names and a.shape]
    last = f"{others[0].text} - 1" if others and others[0].is_name else "99"
    return (
        f"{' and '.join(names)} {have} no `fill:`, so {their} elements are {least} to 8; if they are "
        f"indices, give {' or '.join(names)} a `fill:` of valid ones, such as {{integers: [0, {last}]}}"
    )
