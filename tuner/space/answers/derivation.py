"""Derived values, which `derive:` computes from outputs. Verification compares them instead of the outputs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tuner.errors import ExpressionError, SpaceError
from tuner.quoting import shown
from tuner.space import chosen_types, dtypes
from tuner.space.answers.reference import widened
from tuner.space.dtypes import DTYPES, DType
from tuner.space.model import Operation
from tuner.space.scope import Scope
from tuner.space.values.elements import Elements, held

Array = np.ndarray[Any, np.dtype[Any]]


def outputs_read(op: Operation, name: str) -> list[str]:
    """The outputs that the derived value `name` is computed from."""
    return [a.name for a in op.arrays if a.role != "in" and a.name in op.derive[name].names]


def values(op: Operation, scope: Scope, arrays: Mapping[str, Elements]) -> dict[str, Array]:
    """The derived values of these arrays, by name, widened to float64, complex128 or a 64-bit integer.

    Raises SpaceError if one cannot be computed.
    """
    names = _Names(scope.answer_names, arrays)
    return {name: _value(name, op, names) for name in op.derive}


def check(op: Operation, scope: Scope, arrays: Mapping[str, Elements], answers: Mapping[str, Elements]) -> None:
    """Raise SpaceError if a derived value cannot be computed for these shapes, or has not the shape of its answer.

    Does nothing without answers.
    """
    if not answers or not op.derive:
        return
    outputs = {a.name: np.zeros(arrays[a.name].shape, arrays[a.name].dtype) for a in op.arrays if a.role != "in"}
    for name, value in values(op, scope, {**arrays, **held(outputs)}).items():
        if value.shape != answers[name].shape:
            raise SpaceError(
                f"derive {name}: `{op.derive[name].text}` has shape {value.shape}; its reference has "
                f"{answers[name].shape}"
            )


def _value(name: str, op: Operation, names: Mapping[str, Any]) -> Array:
    try:
        value = np.asarray(op.derive[name].evaluate(names))
    except ExpressionError as error:
        raise type(error)(f"derive {name}: {error}") from None
    if value.dtype.name not in DTYPES:
        raise SpaceError(
            f"derive {name}: `{shown(op.derive[name].text)}` has dtype {value.dtype}, which holds no numbers"
        )
    return widened(value.astype(np.int64) if value.dtype == bool else value)


def dtype(op: Operation, scope: Scope, name: str, answer: Elements) -> DType:
    """The type that sets the precision of the derived value `name`.

    It is the least precise floating-point type among the outputs that it is computed from, or else its answer's type.
    """
    read = outputs_read(op, name)
    types = [chosen_types.dtype(argument, scope) for argument in op.arrays if argument.name in read]
    inexact = [element for element in types if not element.is_exact]
    return max(inexact, key=lambda element: element.epsilon, default=dtypes.of(answer.dtype))


class _Names(dict[str, Any]):
    """The values of an expression's names. An array is widened when it is first read."""

    def __init__(self, scalars: Mapping[str, Any], arrays: Mapping[str, Elements]) -> None:
        super().__init__(scalars)
        self._arrays = arrays

    def __missing__(self, name: str) -> Array:
        elements = self._arrays[name]
        self[name] = value = elements.array(elements.element.wide)
        return value
