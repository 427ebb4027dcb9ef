"""Derived values, which `derive:` computes from outputs. Verification compares them instead of the outputs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from tuner.errors import ExpressionError, SpaceError
from tuner.quoting import shown
from tuner.space import chosen_types, dtypes
from tuner.space.answers.reference import widened, widening
from tuner.space.computation import Operation
from tuner.space.dtypes import DTYPES, DType
from tuner.space.scope import LazyNames, Scope
from tuner.space.values.elements import Elements, held
from tuner.space.values.python_derivation import PythonDerivation
from tuner.space.values.python_function import PythonFunction

Call = Callable[[PythonFunction, Mapping[str, Any]], Any]  # calls a function of a Python file with what it asks for
Array = np.ndarray[Any, np.dtype[Any]]


def outputs_read(op: Operation, name: str) -> list[str]:
    """The outputs that the derived value `name` is computed from."""
    return [a.name for a in op.arrays if a.role != "in" and a.name in op.derive[name].names]


def values(op: Operation, scope: Scope, arrays: Mapping[str, Elements], call: Call) -> dict[str, Array]:
    """The derived values of these arrays, by name, widened to float64, complex128 or a 64-bit integer.

    Raises SpaceError if one cannot be computed.
    """
    names = LazyNames(scope.answer_names, widening(arrays))

    def value(name: str) -> Array:
        derivation = op.derive[name]
        if isinstance(derivation, PythonDerivation):
            return _checked(name, op, call(derivation.function, _Whole(scope.answer_names, arrays)))
        return _value(name, op, names)

    return {name: value(name) for name in op.derive}


def check(op: Operation, scope: Scope, arrays: Mapping[str, Elements], answers: Mapping[str, Elements]) -> None:
    """Raise SpaceError if a derived value cannot be computed for these shapes, or has not the shape of its answer.

    Does nothing without answers. Python functions are not called: they may refuse outputs that no kernel has written.
    """
    if not answers or not op.derive:
        return
    formulas = {name: e for name, e in op.derive.items() if not isinstance(e, PythonDerivation)}
    op = replace(op, derive=formulas)
    outputs = {a.name: np.zeros(arrays[a.name].shape, arrays[a.name].dtype) for a in op.arrays if a.role != "in"}
    for name, value in values(op, scope, {**arrays, **held(outputs)}, _no_call).items():
        if value.shape != answers[name].shape:
            raise SpaceError(
                f"derive {name}: `{op.derive[name].text}` has shape {value.shape}; its reference has "
                f"{answers[name].shape}"
            )


def _no_call(function: PythonFunction, values: Mapping[str, Any]) -> Any:
    raise AssertionError("the derived values are expressions")


def _value(name: str, op: Operation, names: Mapping[str, Any]) -> Array:
    try:
        return _checked(name, op, op.derive[name].evaluate(names))
    except ExpressionError as error:
        raise type(error)(f"derive {name}: {error}") from None


def _checked(name: str, op: Operation, computed: Any) -> Array:
    """A derived value as an array. Raises SpaceError if it holds no numbers."""
    value = np.asarray(computed)
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


class _Whole(Mapping[str, Any]):
    """Numbers and arrays. An array is copied to the host when it is read: a function may ask for few of them."""

    def __init__(self, scalars: Mapping[str, Any], arrays: Mapping[str, Elements]) -> None:
        self._scalars, self._arrays = scalars, arrays

    def __getitem__(self, name: str) -> Any:
        return self._arrays[name].array() if name in self._arrays else self._scalars[name]

    def __iter__(self) -> Iterator[str]:
        return iter({**self._scalars, **self._arrays})

    def __len__(self) -> int:
        return len({*self._scalars, *self._arrays})
