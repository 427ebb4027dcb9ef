"""Drafts the vectors and structs that a kernel takes by value."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from tuner.space import structs
from tuner.space.dtypes import DTYPES
from tuner.space.sources.prototype import Parameter
from tuner.space.sources.struct_text import Member, dtype

Evaluated = Callable[[str], str]


def vector(parameter: Parameter) -> str | None:
    """The keys of an argument that is a vector, with 1 for each number; None for a type that space files lack."""
    name = dtype(parameter)
    if structs.vector(name) is None:
        return None
    return f"dtype: {name}, value: [{', '.join(['1'] * parameter.width)}]"


def fields(
    members: Sequence[Member],
    definitions: Mapping[str, Sequence[Member]],
    sizes: Collection[str],
    evaluated: Evaluated,
) -> list[str] | None:
    """The fields of an argument that is a struct of these members.

    A field has the value of the size of its name, or else 1. None if a member is a pointer or of an unknown type.
    `evaluated` gives the number of an extent, if the source has it.
    """
    known = [field for each in members if (field := _field(each, definitions, sizes, evaluated)) is not None]
    return known if len(known) == len(members) else None


def _field(
    member: Member, definitions: Mapping[str, Sequence[Member]], sizes: Collection[str], evaluated: Evaluated
) -> str | None:
    parameter, extents = member.parameter, [evaluated(extent) for extent in member.extents]
    if parameter.is_pointer or not all(map(str.isdecimal, extents)):
        return None
    if (inner := definitions.get(parameter.type)) is not None:
        own = None if extents else fields(inner, definitions, sizes, evaluated)
        return None if own is None else f"{{name: {parameter.name}, fields: [{', '.join(own)}]}}"
    name = dtype(parameter)
    if name not in DTYPES and structs.vector(name) is None:
        return None
    count = parameter.width
    for extent in extents:
        count *= int(extent)
    shape = f", shape: [{', '.join(extents)}]" if extents else ""
    ones = ", ".join(["1"] * count)
    is_size = parameter.name in sizes and count == 1
    value = "" if is_size else f", value: {ones if count == 1 else f'[{ones}]'}"
    return f"{{name: {parameter.name}, dtype: {name}{shape}{value}}}"
