"""Drafts the vectors and structs that a kernel takes by value, and the bytes of structs in arrays."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

from tuner.drafting.reached import aliases, resolved
from tuner.space import structs
from tuner.space.dtypes import DTYPES
from tuner.space.sources import struct_text
from tuner.space.sources.prototype import Parameter
from tuner.space.sources.struct_text import Member, dtype

Evaluated = Callable[[str], str]
_STRUCT = re.compile(r"\b(?:struct|class|union)\s+(?:__align__\s*\(\w+\)\s*)?(\w+)[^;(){]{,200}\{|\}\s*(\w+)\s*;")


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


def _numbers(members: Sequence[Member], evaluated: Evaluated) -> tuple[str, int] | None:
    """The dtype of all numbers of a struct of these members, and how many there are; None if they differ."""
    first, count = members[0].parameter.dtype, 0
    for member in members:
        extents = [evaluated(extent) for extent in member.extents]
        if member.parameter.is_pointer or not all(map(str.isdecimal, extents)):
            return None
        count += member.parameter.width * math.prod(map(int, extents))
    is_one = first is not None and all(member.parameter.dtype == first for member in members)
    return (str(first), count) if is_one else None


def _is_complex(members: Sequence[Member]) -> bool:
    """Whether the names of the members are those of a complex number's parts."""
    names = [member.name.lower().strip("_") for member in members]
    return names in (["re", "im"], ["r", "i"], ["real", "imag"])


def _size(
    members: Sequence[Member], definitions: Mapping[str, Sequence[Member]], evaluated: Evaluated
) -> tuple[int, int] | None:
    """The bytes and the alignment of a struct of these members, as C lays it out; None if a member is unknown."""
    total, largest = 0, 1
    for member in members:
        parameter, extents = member.parameter, [evaluated(extent) for extent in member.extents]
        inner = definitions.get(parameter.type)
        whole = _size(inner, definitions, evaluated) if inner and not parameter.is_pointer else None
        if parameter.is_pointer or not all(map(str.isdecimal, extents)) or (whole is None and parameter.dtype is None):
            return None
        if whole is None:
            item = DTYPES[parameter.dtype or ""].itemsize
            # CUDA aligns vectors of 2 and 4 as a whole, up to 16 bytes, and those of 3 as their numbers.
            whole = item * parameter.width, item if parameter.width == 3 else min(item * parameter.width, 16)
        number, aligned = whole
        total += -total % aligned + number * math.prod(map(int, extents))
        largest = max(largest, aligned)
    return total + -total % largest, largest


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


class Structs:
    """The structs, classes and unions that `text`, which has no comments, defines.

    members: those of each plain struct, by name, with types that are no other names.
    constants: the numbers that the text has, by name.
    """

    def __init__(self, text: str, constants: Mapping[str, int]) -> None:
        types, self._text, self._constants = aliases(text), text, constants

        def plain(member: Member) -> Member:
            return replace(member, parameter=replace(member.parameter, type=resolved(member.parameter.type, types)))

        self.members = {name: tuple(map(plain, found)) for name, found in struct_text.definitions(text).items()}

    def defines(self, parameter: Parameter) -> bool:
        """Whether the type of a parameter is one of them, plain or not."""
        return parameter.type in {name for pair in _STRUCT.findall(self._text) for name in pair if name}

    def numbers(self, parameter: Parameter) -> tuple[str, int] | None:
        """The dtype and the count of the numbers in an element of an array of structs, if all have one dtype: of
        complex numbers, one."""
        members = self._of_array(parameter)
        found = _numbers(members, self._evaluated) if members else None
        if members and found and _is_complex(members):
            return next(((each.name, 1) for each in DTYPES.values() if each.part == found[0]), found)
        return found

    def nbytes(self, parameter: Parameter) -> int | None:
        """The bytes of an element of an array of structs, as CUDA lays it out; None if it is none, or unknown."""
        members = self._of_array(parameter)
        found = _size(members, self.members, self._evaluated) if members else None
        return found[0] if found else None

    def _of_array(self, parameter: Parameter) -> tuple[Member, ...] | None:
        is_array = parameter.stars == 1 and parameter.dtype is None
        return self.members.get(parameter.type) if is_array else None

    def _evaluated(self, extent: str) -> str:
        return str(self._constants.get(extent, extent))
