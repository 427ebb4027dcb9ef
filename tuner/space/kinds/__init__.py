"""How a kernel gets an argument: each kind is a class in a module of this folder, found by its name."""

from __future__ import annotations

import importlib
from abc import ABC
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from tuner.space.expressions import Expression, parse

if TYPE_CHECKING:
    from tuner.space.model import Argument, Operation
    from tuner.space.scope import Scope


class Arguments(Protocol):
    """The arguments of a configuration."""

    @property
    def scope(self) -> Scope:
        """It includes the configuration."""
        ...

    def argument(self, name: str) -> Argument:
        """The argument of this name."""
        ...

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of an argument."""
        ...

    def nbytes(self, name: str) -> int:
        """The bytes of an argument."""
        ...


class Assembly(Arguments, Protocol):
    """The launch that a kind adds its argument to: see `devices.program`."""

    device: Any

    def passed(self, name: str) -> Any:
        """The caller's array of this name, as an argument of kernels."""
        ...

    def encoded(self, name: str, nbytes: int, encode: Callable[[Any], bytes]) -> Any:
        """A value of `nbytes`, made anew of the handle of the caller's array `name` where that changes."""
        ...

    def local(self, nbytes: int) -> Any:
        """Memory of a block."""
        ...

    def copy_to_symbol(self, symbol: str, name: str) -> None:
        """Copy the caller's array `name` to a variable of the source before each launch."""
        ...


@dataclass(frozen=True)
class Exported:
    """What a program in C needs to launch without us: one of two things.

    symbol: the variable of the sources that the caller's array is copied to before each launch.
    encode: the statements of a C function that returns a status of the driver. They write `nbytes` to `value`, which
        stand for the caller's array `of` at `address`; `driver(name)` finds a function of the driver. A kernel takes
        the value in place of the address.
    """

    symbol: str | None = None
    of: str | None = None
    nbytes: int = 0
    encode: str = ""


@dataclass(frozen=True)
class Key:
    """A key of an argument in a space file, besides those that every argument has. `choices` are its values; without
    them it holds expressions, or, if it `is_name`, the name of an argument. `default` is None where it is required."""

    choices: tuple[str, ...] = ()
    is_name: bool = False
    default: str | int | None = None
    help: str = ""

    @property
    def has_expressions(self) -> bool:
        return not self.choices and not self.is_name


@dataclass(frozen=True)
class Kind(ABC):
    """A kind of argument. Its fields are the values of its `keys`.

    languages: those that have it.
    roles: those that the argument may have; None among them: it may have none, and then no caller passes an array.
    has_shape: whether the argument has a shape.
    """

    name: ClassVar[str]
    languages: ClassVar[tuple[str, ...]]
    keys: ClassVar[Mapping[str, Key]] = {}
    roles: ClassVar[tuple[str | None, ...]] = ("in",)
    has_shape: ClassVar[bool] = True

    def is_parameter(self, language: str) -> bool:
        """Whether a kernel takes it as a parameter."""
        return True

    @property
    def is_symbol(self) -> bool:
        """Whether a language has it as a variable of the source, and no kernel as a parameter."""
        return not all(map(self.is_parameter, self.languages))

    @property
    def expressions(self) -> Mapping[str, tuple[Expression, ...]]:
        """The expressions in its keys."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in values.items() if isinstance(value, tuple)}

    def fault(self, argument: Argument, operation: Operation) -> tuple[str, str] | None:
        """What is wrong with it in a file: the key, and the message."""
        return None

    @property
    def describes(self) -> tuple[str, ...]:
        """The arrays that a kernel reaches through it, so that it need not take them."""
        return ()

    def alignments(self, argument: Argument) -> dict[str, int]:
        """The bytes at whose multiples the caller's arrays begin, by name."""
        return {}

    def restrictions(self, argument: Argument, operation: Operation) -> list[tuple[str, str]]:
        """What must be true of a configuration, and why."""
        return []

    def add(self, argument: Argument, assembly: Assembly) -> Any:
        """Add it to a launch. Returns the kernel's parameter; None where it is no parameter."""
        return assembly.passed(argument.name)

    def export(self, argument: Argument, arguments: Arguments) -> Exported | None:
        """How a program in C passes it through CUDA's driver; None where none can."""
        return None


@cache
def table() -> Mapping[str, type[Kind]]:
    """The kinds by their names in space files."""
    import pkgutil  # a launch of a kernel without kinds needs none of this

    modules = (importlib.import_module(f"{__name__}.{module.name}") for module in pkgutil.iter_modules(__path__))
    found = (value for module in modules for value in vars(module).values())
    kinds = (value for value in found if isinstance(value, type) and issubclass(value, Kind) and value is not Kind)
    return {kind.name: kind for kind in kinds}


def made(name: str, values: Mapping[str, Any]) -> Kind:
    """A kind with these values of its keys, where texts may stand for expressions."""
    kind = table()[name]
    return kind(**{key: _expressions(v) if kind.keys[key].has_expressions else v for key, v in values.items()})


def settings(kind: Kind, scope: Scope) -> dict[str, Any]:
    """The values of its keys in a configuration, which `scope` includes: words, numbers, or lists of numbers."""
    values = {field.name: getattr(kind, field.name) for field in fields(kind)}
    for name, value in values.items():
        if isinstance(value, tuple):
            numbers = [expression.integer(scope.names) for expression in value]
            values[name] = numbers if kind.keys[name].default is None else numbers[0]
    return values


def to_json(kind: Kind) -> dict[str, Any]:
    """The kind as JSON data that `from_json` reads back."""
    values = {field.name: getattr(kind, field.name) for field in fields(kind)}
    texts = {name: [e.text for e in value] if isinstance(value, tuple) else value for name, value in values.items()}
    return {"name": kind.name, "values": texts}


def from_json(data: Mapping[str, Any]) -> Kind:
    """The kind that `to_json` wrote."""
    return made(data["name"], data["values"])


def text(kind: Kind) -> str:
    """The kind in a signature."""
    data = to_json(kind)
    return f"kind {data['name']} {sorted(data['values'].items())}"


def _expressions(values: Any) -> tuple[Expression, ...]:
    every = values if isinstance(values, list | tuple) else [values]
    return tuple(value if isinstance(value, Expression) else parse(value) for value in every)
