"""The launch form: a Space as JSON, which a launch reads instead of YAML, and which a worker receives.

Every value that JSON lacks is an object whose key "" names its class. The other keys are its fields, without those that
have their defaults. Fields that are not compared stay in their process.
"""

from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, replace
from dataclasses import Field as ClassField
from pathlib import Path
from typing import Any

from tuner.space import kinds
from tuner.space.argument import Argument, Field, Kind
from tuner.space.computation import Operation
from tuner.space.expressions import ArrayExpression, Expression, parse
from tuner.space.expressions.computed_numbers import ComputedNumber
from tuner.space.loops import Loop, Values
from tuner.space.model import Restriction, Space
from tuner.space.step import Step
from tuner.space.values.fills import Fill
from tuner.space.values.forms import (
    ConfigReference,
    ExpressionReference,
    KernelReference,
    NoReference,
    PythonReference,
)
from tuner.space.values.function_object import FunctionObject
from tuner.space.values.python_derivation import PythonDerivation
from tuner.space.values.python_function import PythonFunction
from tuner.space.values.tolerance import Tolerance

VERSION = 13
_KIND = ""  # no name of a field, nor of anything that a space declares
_CLASSES = {
    each.__name__: each
    for each in (
        Argument, ArrayExpression, ComputedNumber, ConfigReference, Expression, ExpressionReference, Field, Fill,
        FunctionObject, KernelReference, Loop, NoReference, Operation, PythonDerivation, PythonFunction,
        PythonReference, Restriction, Space, Step, Tolerance, Values,
    )
}  # fmt: skip


def to_json(
    space: Space, options: Mapping[str, float] | None = None, text_of: Callable[[Path], str] = str
) -> dict[str, Any]:
    """`space` as JSON data that `from_json` reads back.

    options: the only ones, as the kernel gets them, for which configurations will be valid by the functions of a space
        in Python.
    text_of: how a path is written.
    """
    restrictions = [other for each in space.restrictions for other in _told(space, each, options or {})]
    data: dict[str, Any] = _data(replace(space, restrictions=tuple(restrictions)), text_of)
    return data


def _told(space: Space, restriction: Restriction, options: Mapping[str, float]) -> list[Restriction]:
    """A restriction for other processes. A function stays in its process, which alone lists configurations.

    In its place, conditions say which sizes and options it reads, and that nobody knows what it says of other options.
    """
    if not restriction.that.is_python:
        return [restriction]
    names = sorted(restriction.that.names - space.parameters.keys())
    return [Restriction(parse(f"{name} == {options.get(name, name)}"), restriction.because) for name in names]


def _data(value: Any, text_of: Callable[[Path], str]) -> Any:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, tuple):
        return [_data(each, text_of) for each in value]
    if isinstance(value, Mapping):
        return {name: _data(each, text_of) for name, each in value.items()}
    if isinstance(value, frozenset):
        return {_KIND: "frozenset", "of": sorted(value)}
    if isinstance(value, Path):
        return {_KIND: "Path", "of": text_of(value)}
    kind = value.name if isinstance(value, Kind) else type(value).__name__
    given = {each.name: getattr(value, each.name) for each in fields(value) if each.compare}
    defaults = {each.name: _default(each) for each in fields(value)}
    return {_KIND: kind, **{name: _data(own, text_of) for name, own in given.items() if own != defaults[name]}}


def _default(field: ClassField[Any]) -> Any:
    return field.default if field.default_factory is MISSING else field.default_factory()


def from_json(data: Any, path_of: Callable[[str], Path] = Path) -> Space:
    """The Space that `to_json` wrote. Parses, and so checks, every expression again.

    path_of: the path that a text stands for.
    """
    space = _value(data, path_of)
    if not isinstance(space, Space):
        raise TypeError("not a launch form")
    return space


def _value(data: Any, path_of: Callable[[str], Path]) -> Any:
    if isinstance(data, list):
        return tuple([_value(each, path_of) for each in data])
    if not isinstance(data, dict):
        return data
    kind = data.get(_KIND)
    if kind == "Expression":
        return parse(data["text"])
    if kind == "Path":
        return path_of(data["of"])
    if kind == "frozenset":
        return frozenset(data["of"])
    values = {name: _value(each, path_of) for name, each in data.items() if name != _KIND}
    return values if kind is None else (_CLASSES.get(kind) or kinds.named(kind))(**values)
