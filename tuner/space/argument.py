"""The arguments of a kernel, and the base class of argument kinds such as textures and constant memory."""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from tuner.classes import dataclass

if TYPE_CHECKING:
    from tuner.space.expressions import Expression
    from tuner.space.scope import Scope
    from tuner.space.values.fills import Fill


@dataclass(frozen=True)
class Field:
    """A field of a struct.

    dtype: a name in `dtypes.DTYPES`, of the operation's `types`, or of a vector; empty for a struct in the struct.
    value: the expression of each of its numbers, in order; empty for a struct in the struct.
    shape: the extents of an array; empty if it is none.
    offset: its distance from the struct's beginning in bytes; None for C's own.
    fields: of a struct in the struct.
    arrays: of a pointer: the argument that it points to; of an array of pointers, one for each. A launch writes their
        addresses in the place of the `value`.
    align: the alignment in bytes that the source demands; 0 for the type's own.
    """

    name: str
    dtype: str = ""
    value: tuple[Expression, ...] = ()
    shape: tuple[int, ...] = ()
    offset: int | None = None
    fields: tuple[Field, ...] = ()
    arrays: tuple[str, ...] = ()
    align: int = 0

    @property
    def text(self) -> str:
        """Everything that it declares, for the hash of a space."""
        return f"{self._plain_text} aligned {self.align}" if self.align else self._plain_text

    @property
    def _plain_text(self) -> str:
        if self.arrays:
            return f"{self.name}: {[*self.shape]} at {self.offset} -> {', '.join(self.arrays)}"
        inner = ", ".join(each.text for each in self.fields) or ", ".join(each.text for each in self.value)
        return f"{self.name}: {self.dtype} {[*self.shape]} at {self.offset} ({inner})"


@dataclass(frozen=True)
class Argument:
    """One argument of the kernel. An array has a shape and a role (in, out, inout, scratch); a scalar has neither.

    dtype: a name from `dtypes.DTYPES` or the operation's `types`, or a parameter's; `chosen_types.dtype` resolves it.
        Of a scalar, also the name of a vector, such as float4. Empty for a struct.
    value: the content: one expression for a scalar, one per element for an array. If empty, a scalar has the value of
        the size or option with its name, and an array is passed by the caller.
    fill: how tuning fills an array that the caller passes; None for the standard fill.
    kind: how the argument is passed; None for a plain array or scalar.
    zeroed: when scratch, which the launching code allocates, is zeroed: "never", "once" or "each" (before each launch).
    strides: elements between neighbours along each axis, if the kernel takes leading dimensions (see module `strides`);
        empty for a contiguous array.
    fields: of a struct or vector that is passed by value; see module `structs`.
    compared: of an output: whether its content has an answer. Without one, the kernel may leave anything in it.
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
    fields: tuple[Field, ...] = ()
    compared: bool = True

    @property
    def is_array(self) -> bool:
        """Whether it is an array that the caller passes, or an array of constants."""
        return self.shape is not None and self.role not in (None, "scratch")

    @property
    def reaches(self) -> tuple[str, ...]:
        """The arrays that a kernel accesses through it: those to which fields of a struct point, and those that its
        kind describes."""
        own = self.kind.describes if self.kind is not None else ()
        return (*own, *dict.fromkeys(_pointed(self.fields)))

    @property
    def passes(self) -> str:
        """The name of the size or option whose value a scalar passes as it is; empty for a computed value."""
        if not self.value:
            return self.name
        return next(iter(self.value[0].names)) if self.value[0].is_name else ""


def _pointed(fields: tuple[Field, ...]) -> Iterator[str]:
    for field in fields:
        yield from field.arrays
        yield from _pointed(field.fields)


class Declared(Protocol):
    """The part of an operation that a kind reads."""

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
        """The dtypes that each of the operation's types allows."""
        ...


class Arguments(Protocol):
    """The arguments of an `Instance`."""

    @property
    def scope(self) -> Scope:
        """The problem, including the configuration."""
        ...

    def argument(self, name: str) -> Argument:
        """The argument of this name."""
        ...

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of the argument, in elements."""
        ...

    def nbytes(self, name: str) -> int:
        """The size of the argument, in bytes."""
        ...


class Assembly(Protocol):
    """The launch under construction, to which a kind adds its argument: see `devices.program`."""

    device: Any

    @property
    def instance(self) -> Arguments:
        """What is launched."""
        ...

    def passed(self, name: str) -> Any:
        """The caller's array of this name, as a kernel argument."""
        ...

    def encoded(self, name: str, nbytes: int, encode: Callable[[Any], bytes]) -> Any:
        """A kernel argument of `nbytes` bytes that `encode` computes from the handle of the caller's array `name`.

        It is computed again if a launch passes another array.
        """
        ...

    def local(self, nbytes: int) -> Any:
        """`nbytes` bytes of dynamic local memory for each work-group."""
        ...

    def copy_to_symbol(self, symbol: str, name: str) -> None:
        """Copy the caller's array `name` to the variable `symbol` of the source before each launch."""
        ...


@dataclass(frozen=True)
class Exported:
    """How an exported C program passes an argument: either `symbol` or `encode` is set.

    symbol: the source variable into which the program copies the caller's array before each launch.
    encode: the body of a C function that returns a driver status. It writes `nbytes` bytes to `value`: a descriptor of
        the caller's array `of`, which is at `address`. `driver(name)` returns a driver function. The kernel takes the
        descriptor instead of the address.
    """

    symbol: str | None = None
    of: str | None = None
    nbytes: int = 0
    encode: str = ""


@dataclass(frozen=True)
class Key:
    """A key that a kind adds to an argument in a space file.

    Its value is one of `choices`; an argument's name, if `is_name`; otherwise one or more expressions. `default` is
    None if the key is required, and no expression, `()`, if a file may do without it.
    """

    choices: tuple[str, ...] = ()
    is_name: bool = False
    default: str | int | tuple[()] | None = None
    help: str = ""

    @property
    def has_expressions(self) -> bool:
        return not self.choices and not self.is_name


@dataclass(frozen=True)
class Kind(ABC):
    """A kind of argument: one that a language passes in a special way. Its fields are the values of its `keys`.

    languages: the languages that support it.
    roles: the allowed roles of the argument. None among them allows an argument without a role, for which the caller
        passes no array.
    has_shape: whether the argument has a shape.
    instead: what to use in the other languages, for messages.
    object_type: the type that a kernel declares for it, if that is an object of the language, such as an image.
    """

    name: ClassVar[str]
    languages: ClassVar[tuple[str, ...]]
    keys: ClassVar[Mapping[str, Key]] = {}
    roles: ClassVar[tuple[str | None, ...]] = ("in",)
    has_shape: ClassVar[bool] = True
    instead: ClassVar[str] = "use another kind"

    @property
    def object_type(self) -> str:
        return ""

    def is_parameter(self, language: str) -> bool:
        """Whether a kernel in `language` takes it as a parameter, in every configuration."""
        return True

    def may_be_parameter(self, language: str) -> bool:
        """Whether a kernel in `language` takes it as a parameter in some configuration."""
        return self.is_parameter(language)

    def is_taken(self, scope: Scope) -> bool:
        """Whether the kernel takes it as a parameter in the configuration of `scope`. Raises ExpressionError."""
        return self.is_parameter(scope.language)

    def is_plain(self, scope: Scope) -> bool:
        """Whether it is a plain array in the configuration of `scope`. Raises ExpressionError."""
        return False

    def unconditional(self, is_taken: bool) -> Kind | None:
        """The kind of an argument of a reference kernel, which has no parameters; None for a plain array. `is_taken`
        says whether that kernel takes it as a parameter."""
        return self

    @property
    def is_symbol(self) -> bool:
        """Whether it is a variable of the source, not a kernel parameter, in one of its languages."""
        return not all(map(self.is_parameter, self.languages))

    @property
    def expressions(self) -> Mapping[str, tuple[Expression, ...]]:
        """The expressions in its keys."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in values.items() if isinstance(value, tuple)}

    def fault(self, argument: Argument, operation: Declared) -> tuple[str, str] | None:
        """The first error in its declaration: the key at fault and the message; None if it is correct."""
        return None

    @property
    def describes(self) -> tuple[str, ...]:
        """The arrays that a kernel accesses through it, and so need not take as parameters."""
        return ()

    def alignments(self, argument: Argument) -> dict[str, int]:
        """The required alignment of the caller's arrays in bytes, by name."""
        return {}

    def restrictions(self, argument: Argument, operation: Declared) -> list[tuple[str, str]]:
        """Restrictions that it adds to the space: each a condition and its reason."""
        return []

    def add(self, argument: Argument, assembly: Assembly) -> Any:
        """Add it to a launch. Return the kernel argument, or None if the kernel takes no such parameter."""
        return assembly.passed(argument.name)

    def export(self, argument: Argument, arguments: Arguments) -> Exported | None:
        """How an exported C program passes it with the CUDA driver API; None if it cannot."""
        return None
