"""Argument kinds, such as textures, images and constant memory, each a subclass of Kind in its own module."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import fields
from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING, Any

from tuner.space.argument import Kind
from tuner.space.expressions import Expression, parse

if TYPE_CHECKING:
    from tuner.space.scope import Scope


@cache
def table() -> Mapping[str, type[Kind]]:
    """The Kind classes, by name in space files."""
    import pkgutil  # imported here, because most launches have no kinds

    modules = [importlib.import_module(f"{__name__}.{module.name}") for module in pkgutil.iter_modules(__path__)]
    return {name: kind for module in modules for name, kind in _in(module).items()}


@cache
def named(name: str) -> type[Kind]:
    """The Kind class of this name. Its module has the same name, and a launch imports no other.

    Raises KeyError if there is no such kind.
    """
    path = f"{__name__}.{name}"
    try:
        module = importlib.import_module(path)
    except ModuleNotFoundError as error:
        if error.name != path:
            raise  # the kind's own module lacks another
        raise KeyError(name) from None
    return _in(module)[name]


def _in(module: ModuleType) -> dict[str, type[Kind]]:
    """The Kind classes of a module, by name."""
    found = [v for v in vars(module).values() if isinstance(v, type) and issubclass(v, Kind) and v is not Kind]
    return {kind.name: kind for kind in found}


def made(name: str, values: Mapping[str, Any]) -> Kind:
    """A kind of this name with these values of its keys. Expressions may be given as texts.

    Raises KeyError if there is no such kind.
    """
    kind = named(name)
    return kind(**{key: _expressions(v) if kind.keys[key].has_expressions else v for key, v in values.items()})


def settings(kind: Kind, scope: Scope) -> dict[str, Any]:
    """The values of its keys for the configuration in `scope`: strings, integers, or lists of integers.

    A key that may be left out is a condition; it says which kind it is, and so is no setting of the kind.
    """
    values = {f.name: getattr(kind, f.name) for f in fields(kind) if kind.keys[f.name].default != ()}
    for name, value in values.items():
        if isinstance(value, tuple):
            numbers = [expression.integer(scope.names) for expression in value]
            values[name] = numbers if kind.keys[name].default is None else numbers[0]
    return values


def text(kind: Kind) -> str:
    """The text that stands for the kind in a signature."""
    values = {field.name: getattr(kind, field.name) for field in fields(kind)}
    given = {name: value for name, value in values.items() if value != ()}  # so that older files keep their signatures
    texts = {name: [e.text for e in value] if isinstance(value, tuple) else value for name, value in given.items()}
    return f"kind {kind.name} {sorted(texts.items())}"


def _expressions(values: Any) -> tuple[Expression, ...]:
    items = values if isinstance(values, list | tuple) else [values]
    return tuple(item if isinstance(item, Expression) else parse(item) for item in items)
