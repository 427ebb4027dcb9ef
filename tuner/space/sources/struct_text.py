"""Definitions of structs in a source, read without a compiler, and their agreement with the fields of a space."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tuner.quoting import shown
from tuner.space import structs
from tuner.space.argument import Argument, Field
from tuner.space.dtypes import DTYPES
from tuner.space.sources import prototype
from tuner.space.sources.prototype import Parameter

_STRUCT = re.compile(r"\b(typedef\s+)?struct\b([^;{}()=]*)\{([^{}]*)\}([^;{}()]*);")
_UNREAD = re.compile(r"[(#:=<]|\b(?:static|union|enum|using|typedef|public|private)\b")


@dataclass(frozen=True)
class Member:
    """A member of a struct: its type and name, and the extents of an array as written."""

    parameter: Parameter
    extents: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return self.parameter.name

    def __str__(self) -> str:
        return str(self.parameter) + "".join(f"[{extent}]" for extent in self.extents)


def definitions(code: str) -> dict[str, tuple[Member, ...]]:
    """The members of each struct that `code`, which has no comments, defines once; without those that are not plain:
    with functions, bases, bit fields or conditions."""
    found: dict[str, tuple[Member, ...] | None] = {}
    for typedef, before, body, after in _STRUCT.findall(code):
        names = re.findall(r"\w+", after if typedef else "") + re.findall(r"\w+", before)[-1:]
        is_plain = ":" not in before and not _UNREAD.search(body)
        members = tuple(_members(body)) if is_plain else ()
        for name in dict.fromkeys(names):
            found[name] = members if members and name not in found else None
    return {name: members for name, members in found.items() if members}


def _members(body: str) -> Iterator[Member]:
    for declaration in filter(None, map(str.strip, body.split(";"))):
        first, *others = declaration.split(",")
        kind = re.match(r"(.*?)[\s*]+\w+\s*(?:\[[^\]]*\]\s*)*$", first)
        for each in (first, *(f"{kind[1] if kind else ''} {other}" for other in others)):
            plain = re.sub(r"\[[^\]]*\]", "", each)
            parameter = prototype.parameter(prototype.words(plain))
            yield Member(parameter, tuple(text.strip() for text in re.findall(r"\[([^\]]*)\]", each)))


def fault(argument: Argument, parameter: Parameter, code: str, types: Mapping[str, Sequence[str]]) -> str | None:
    """How an argument that is passed by value differs from the kernel's `parameter`; None if it does not, or may not.

    types: the dtypes that each of the operation's types allows.
    """
    if parameter.is_pointer:
        return "a pointer; declare an array: its `dtype`, `shape` and `role`"
    vector = structs.vector(argument.dtype)
    if argument.fields and parameter.dtype is not None:
        if vector == (parameter.dtype, parameter.width):
            return None
        return f"which is not {argument.dtype or 'a struct'}; write `dtype: {dtype(parameter)}`"
    members = definitions(code).get(parameter.type)
    if members is None:
        return None
    if vector and [member.parameter.dtype for member in members] == [vector.dtype] * vector.width:
        return None  # C has no vectors
    if not argument.fields or vector:
        return f"a struct; list its `fields:` {_listed(members)}"
    return _difference(argument.fields, members, code, types)


def _difference(
    fields: Sequence[Field], members: Sequence[Member], code: str, types: Mapping[str, Sequence[str]]
) -> str | None:
    """How the fields of the space differ from the members of the source."""
    for member in members:
        if member.parameter.is_pointer:
            return f"a struct with the pointer {member.name}; pass arrays as arguments of their own"
    if [field.name for field in fields] != [member.name for member in members]:
        return f"whose fields are {_listed(members)}; list these, in this order"
    for field, member in zip(fields, members, strict=True):
        inner = definitions(code).get(member.parameter.type)
        if field.fields and inner:
            if (message := _difference(field.fields, inner, code, types)) is not None:
                return message
        elif not _fits(field, member, types):
            shape = f" with `shape: [{', '.join(map(str, field.shape))}]`" if field.shape else ""
            return (
                f"whose field `{shown(member)}` is not {field.dtype or 'a struct'}{shape}; write its type and extents"
            )
    return None


def _fits(field: Field, member: Member, types: Mapping[str, Sequence[str]]) -> bool:
    """Whether a field may be this member. False only if the text proves that it is not."""
    if all(map(str.isdecimal, member.extents)) and [*map(int, member.extents)] != [*field.shape]:
        return False
    part, width = member.parameter.dtype, member.parameter.width
    if part is None or field.dtype in types:
        return True
    vector, number = structs.vector(field.dtype), DTYPES.get(field.dtype)
    if number is None:
        return vector == (part, width)
    given = DTYPES[part]
    if width > 1:
        return number.part == part and width == number.parts
    return given.itemsize == number.itemsize and (given.kind == number.kind or "integer" in (given.kind, number.kind))


def dtype(parameter: Parameter) -> str:
    """The dtype in a space file of a parameter that is a number or a vector; empty if it is unknown."""
    if parameter.dtype is None or parameter.width == 1:
        return parameter.dtype or ""
    return f"{DTYPES[parameter.dtype].words.opencl}{parameter.width}"


def _listed(members: Sequence[Member]) -> str:
    return shown("{" + "; ".join(map(str, members)) + "}")
