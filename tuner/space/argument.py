"""The arguments of a kernel, and the kinds of them that a language passes in its own way."""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

if TYPE_CHECKING:
    from tuner.space.expressions import Expression
    from tuner.space.scope import Scope
    from tuner.space.values.fills import Fill


@dataclass(frozen=True)
class Argument:
    """One argument of the kernel. An array has a shape and a role (in, out, inout, scratch); a scalar has neither.

    `dtype` is a name of `dtypes.DTYPES`, of the operation's `types`, or of a parameter; `chosen_types.dtype` tells
    which type that is. `value` is its content: one expression for a scalar, one per element for an array. Without it, a
    scalar is the size or option of its name, and the caller passes the array. `fill` says what such an array holds
    while it is tuned. `kind` says how a kernel gets it; None is a plain array or scalar. Scratch is allocated by
    whoever launches: `zeroed` is never, once or (before) each (launch). `strides` are in elements, one for each axis,
    where the kernel takes leading dimensions: see `strides`; without them, an array is contiguous.
    """

    name: str
    dtype: str
    shape: tuple[Expression, ...] | None = None
    role: str | None = None
    value: tuple[Expression, ...] = ()
    fill: Fill | None = None
    kind: Kind | None = None
    zeroed: str = "never"
    strides: tuple[Expression, ...] = ()

    @property
    def is_array(self) -> bool:
        """Whether the caller passes an array for it, or it is one of constants."""
        return self.shape is not None and self.role not in (None, "scratch")


class Declared(Protocol):
    """What a kind reads of the operation that its argument belongs to."""

    @property
    def arguments(self) -> tuple[Argument, ...]:
        """All arguments, in the kernel's order."""
        ...

    @property
    def arrays(self) -> tuple[Argument, ...]:
        """The arrays that the caller passes."""
        ...

    @property
    def types(self) -> Mapping[str, tuple[str, ...]]:
        """The dtypes that each of the operation's types may stand for."""
        ...


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

    def fault(self, argument: Argument, operation: Declared) -> tuple[str, str] | None:
        """What is wrong with it in a file: the key, and the message."""
        return None

    @property
    def describes(self) -> tuple[str, ...]:
        """The arrays that a kernel reaches through it, so that it need not take them."""
        return ()

    def alignments(self, argument: Argument) -> dict[str, int]:
        """The bytes at whose multiples the caller's arrays begin, by name."""
        return {}

    def restrictions(self, argument: Argument, operation: Declared) -> list[tuple[str, str]]:
        """What must be true of a configuration, and why."""
        return []

    def add(self, argument: Argument, assembly: Assembly) -> Any:
        """Add it to a launch. Returns the kernel's parameter; None where it is no parameter."""
        return assembly.passed(argument.name)

    def export(self, argument: Argument, arguments: Arguments) -> Exported | None:
        """How a program in C passes it through CUDA's driver; None where none can."""
        return None
