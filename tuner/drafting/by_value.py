"""Drafts the vectors and structs that a kernel takes by value, and the bytes of structs in arrays."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

from tuner.classes import cached_property, dataclass
from tuner.drafting.yaml_text import listed
from tuner.errors import ExpressionError
from tuner.space import expressions, structs
from tuner.space.dtypes import DTYPES, complex_of
from tuner.space.sources.prototype import Parameter
from tuner.space.sources.struct_text import Member, StructDefinitions, dtype
from tuner.space.sources.type_names import aliases, resolved

Evaluated = Callable[[str], str]
Members = Callable[[str], tuple[Member, ...] | None]
Arrays = Mapping[tuple[str, ...], Sequence[str]]
OF_CUDA = "struct cudaPitchedPtr { void *ptr; size_t pitch, xsize, ysize; };"
_EMPTY = "{name: empty, dtype: uint8, value: 0}"
# A line of a draft; 1 stands for any number.
_FIELD = re.compile(r"( *- \{name: (\w+), [^{}]*\bvalue: )(1|\[1(?:, 1)*\])([,}].*)")
_COMPLEX = re.compile(r"(?:thrust::)?complex<(float|double)>")
_EXPRESSION = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)[ \t]+(\([\w \t()+*/-]+\))[ \t]*$", re.MULTILINE)
MOST_LISTED = 4  # fields in a question
MOST_MACROS = 5  # that an extent is expanded through
_STRUCT = re.compile(
    r"\b(?:struct|class|union)\s+(?:(?:__align__|alignas)\s*\(\w+\)\s*)?(\w+)[^;(){]{,200}\{|\}\s*(\w+)\s*;"
)


def is_empty(keys: Sequence[str]) -> bool:
    """Whether these are the keys of a struct without members."""
    return any(_EMPTY in key for key in keys)


def evaluated(extent: str, numbers: Mapping[str, int]) -> str:
    """An extent as a number if it consists of numbers and names of `numbers`, else unchanged."""
    text = re.sub(r"[A-Za-z_]\w*", lambda name: str(numbers.get(name[0], name[0])), extent)
    try:
        return str(expressions.parse(text).integer({}))
    except ExpressionError:
        return extent


def vector(parameter: Parameter) -> str | None:
    """The keys of an argument that is a vector, with 1 for each number; None for a type that space files lack."""
    name = dtype(parameter)
    if structs.vector(name) is None:
        return None
    return f"dtype: {name}, value: [{', '.join(['1'] * parameter.width)}]"


def fields(
    members: Sequence[Member],
    get: Members,
    known: Collection[str],
    values: Mapping[str, str],
    evaluated: Evaluated,
    arrays: Arrays | None = None,
    path: tuple[str, ...] = (),
) -> list[str] | None:
    """The fields of an argument that is a struct of these members.

    get: the members of a struct by its type
    known: names of types that a field may have, besides dtypes
    evaluated: gives the number of an extent, if the source has it
    arrays: the arrays of pointers, each by the names of the fields that lead to it; None if none can be passed
    path: the fields that lead to this struct

    A field has the value of its name in `values`, the size of its name if that is empty, or else 1. A pointer without
    an array is null. An empty struct has a byte. None if a member is of an unknown type.
    """
    if not members:
        return [_EMPTY]
    each = ((_field(member, get, known, values, evaluated, arrays, path), member) for member in members)
    found = [_aligned(field, evaluated(member.align)) for field, member in each if field is not None]
    return found if len(found) == len(members) else None


def is_open(keys: Sequence[str]) -> bool:
    """Whether an argument by value has a number that nothing tells, for which 1 stands."""
    return any(re.search(r"\bvalue: \[?1\b", line) for line in keys)


def names_of(fields: Sequence[str]) -> str:
    """The names of fields, as a sentence lists them; of many, the first."""
    every = [match[2] for field in fields if (match := _FIELD.fullmatch(field))]
    shown = every if len(every) <= MOST_LISTED + 1 else [*every[:MOST_LISTED], f"{len(every) - MOST_LISTED} more"]
    return listed(shown)


def is_told(field: str, numbers: Mapping[str, str]) -> bool:
    """Whether the number of a field is that of its name, not a 1 that stands for any."""
    return (match := _FIELD.fullmatch(field)) is not None and _fits(match, numbers)


def with_numbers(field: str, numbers: Mapping[str, str]) -> str:
    """The line of a field with the number of its name, or as many as it has, in the place of each 1 that stands for
    any."""
    match = _FIELD.fullmatch(field)
    return f"{match[1]}{numbers[match[2]]}{match[4]}" if match and _fits(match, numbers) else field


def _fits(field: re.Match[str], numbers: Mapping[str, str]) -> bool:
    """Whether a field's name has numbers, as many as the field."""
    given, open_ = numbers.get(field[2], ""), field[3]
    return bool(given) and (given[0] == "[") == (open_[0] == "[") and given.count(",") == open_.count(",")


def _numbers(
    members: Sequence[Member], get: Members, evaluated: Evaluated, known: Collection[str]
) -> tuple[str, int] | None:
    """The dtype of all numbers of a struct of these members, and how many there are; None if they differ."""
    dtypes, count = set[str | None](), 0
    for member in members:
        parameter, extents = member.parameter, [evaluated(extent) for extent in member.extents]
        if parameter.is_pointer or not all(map(str.isdecimal, extents)):
            return None
        own = (parameter.type if parameter.type in known else parameter.dtype, parameter.width)
        inner = get(parameter.type) if own[0] is None else None
        dtype, number = (_numbers(inner, get, evaluated, known) or (None, 0)) if inner else own
        dtypes.add(dtype)
        count += number * math.prod(map(int, extents))
    first = dtypes.pop()
    return None if dtypes or first is None else (first, count)


def _is_complex(members: Sequence[Member]) -> bool:
    """Whether the names of the members are those of a complex number's parts."""
    names = [member.name.lower().strip("_") for member in members]
    return names in (["re", "im"], ["r", "i"], ["real", "imag"])


@dataclass(frozen=True)
class _Place:
    """Where a member of a struct is: the bytes before it, and its extents as numbers."""

    member: Member
    offset: int
    extents: tuple[int, ...]


@dataclass(frozen=True)
class _Layout:
    """How a language lays a struct out: where its members are, its bytes, and their alignment."""

    places: tuple[_Place, ...]
    nbytes: int
    alignment: int


def _layout(members: Sequence[Member], get: Members, evaluated: Evaluated, opencl: bool) -> _Layout | None:
    """The layout of a struct of these members; None if a member is unknown."""
    places, total, largest = list[_Place](), 0, 1
    for member in members:
        parameter, extents = member.parameter, [evaluated(extent) for extent in member.extents]
        inner = get(parameter.type)
        own = _layout(inner, get, evaluated, opencl) if inner and not parameter.is_pointer else None
        if parameter.is_pointer or not all(map(str.isdecimal, extents)) or (own is None and parameter.dtype is None):
            return None
        if own is None:
            item, width = DTYPES[parameter.dtype or ""].itemsize, parameter.width
            if opencl:  # it aligns vectors as a whole, and those of 3 as those of 4
                number = aligned = item * (4 if width == 3 else width)
            else:  # CUDA aligns vectors of 2 and 4 as a whole, up to 16 bytes, and those of 3 as their numbers
                number, aligned = item * width, item if width == 3 else min(item * width, 16)
        else:
            number, aligned = own.nbytes, own.alignment
        if member.align:
            if not (align := evaluated(member.align)).isdecimal():
                return None
            aligned = max(aligned, int(align))
        total += -total % aligned
        places.append(_Place(member, total, tuple(map(int, extents))))
        total += number * math.prod(map(int, extents))
        largest = max(largest, aligned)
    return _Layout(tuple(places), total + -total % largest, largest)


def _numpy(kind: str, layout: _Layout, get: Members, evaluated: Evaluated, opencl: bool) -> dict[str, str]:
    """The NumPy dtypes of a struct and of those in it, as text by name: those that others need are first."""
    found, formats = dict[str, str](), list[str]()
    for place in layout.places:
        parameter = place.member.parameter
        inner = get(parameter.type)
        own = _layout(inner, get, evaluated, opencl) if inner else None
        if own:
            found |= _numpy(parameter.type, own, get, evaluated, opencl)
        name = _identifier(parameter.type) if own else f'"{_numpy_name(parameter.dtype or "")}"'
        extents = (*place.extents, *((parameter.width,) if parameter.width > 1 and not own else ()))
        formats.append(f"({name}, {extents[0] if len(extents) == 1 else extents})" if extents else name)
    names = ", ".join(f'"{place.member.name}"' for place in layout.places)
    offsets = ", ".join(str(place.offset) for place in layout.places)
    keys = f'"names": [{names}], "formats": [{", ".join(formats)}], "offsets": [{offsets}], "itemsize": {layout.nbytes}'
    return found | {_identifier(kind): f"np.dtype({{{keys}}})"}


def _identifier(kind: str) -> str:
    """A name for a type in Python: `Pair_float` for `mine::Pair<float>`."""
    return re.sub(r"\W+", "_", kind.rpartition("::")[2]).strip("_")


def _numpy_name(name: str) -> str:
    """A dtype as NumPy names it: the bits of one that it lacks."""
    return f"uint{8 * DTYPES[name].itemsize}" if DTYPES[name].foreign else name


def _field(
    member: Member,
    get: Members,
    known: Collection[str],
    values: Mapping[str, str],
    evaluated: Evaluated,
    arrays: Arrays | None,
    path: tuple[str, ...],
) -> str | None:
    parameter, extents = member.parameter, [evaluated(extent) for extent in member.extents]
    if not all(map(str.isdecimal, extents)):
        return None
    if parameter.is_pointer:
        return None if arrays is None else _pointer(parameter.name, extents, arrays.get((*path, parameter.name), ()))
    if (inner := get(parameter.type)) is not None:
        own = None if extents else fields(inner, get, known, values, evaluated, arrays, (*path, parameter.name))
        return None if own is None else f"{{name: {parameter.name}, fields: [{', '.join(own)}]}}"
    name = parameter.type if parameter.type in known else dtype(parameter)
    if name not in {*DTYPES, *known} and structs.vector(name) is None:
        return None
    count = parameter.width
    for extent in extents:
        count *= int(extent)
    shape = f", shape: [{', '.join(extents)}]" if extents else ""
    ones = ", ".join(["1"] * count)
    value = values.get(parameter.name, ones) if count == 1 else f"[{ones}]"
    return f"{{name: {parameter.name}, dtype: {name}{shape}{value and f', value: {value}'}}}"


def _aligned(field: str, align: str) -> str:
    return f"{field[:-1]}, align: {align}}}" if align else field


def _pointer(name: str, extents: Sequence[str], arrays: Sequence[str]) -> str:
    """A field that is a pointer, or an array of pointers; null if there are no arrays for it."""
    shape, count = f", shape: [{', '.join(extents)}]" if extents else "", math.prod(map(int, extents))
    if len(arrays) != count:
        zeros = f"[{', '.join(['0'] * count)}]" if extents else "0"
        return f"{{name: {name}, dtype: uint64{shape}, value: {zeros}}}"
    listed = f"[{', '.join(arrays)}]" if extents else arrays[0]
    return f"{{name: {name}{shape}, array: {listed}}}"


@functools.lru_cache(maxsize=8)
def names(text: str) -> frozenset[str]:
    """The names of the structs, classes and unions that a text without comments defines, plain or not."""
    return frozenset(name for pair in _STRUCT.findall(text) for name in pair if name)


def base(kind: str) -> str:
    """The name of a class without namespaces and arguments of its template."""
    return kind.partition("<")[0].rpartition("::")[2]


class Structs:
    """The structs, classes and unions that `texts`, which have no comments, define; the first text that does counts.

    constants: the numbers that the texts have, by name.
    types: names of types that the draft declares.
    """

    def __init__(self, texts: Sequence[str], constants: Mapping[str, int], types: Collection[str]) -> None:
        self._texts, self._constants, self._types = texts, constants, types
        self._aliases = aliases("\n".join(reversed(texts)))
        self._definitions = [*map(StructDefinitions, (*texts, OF_CUDA))]

    def get(self, kind: str) -> tuple[Member, ...] | None:
        """The members of a plain struct or an instance of a template, with types that are no other names; else None."""
        every = (each.get(kind) for each in self._definitions)
        found = next((members for members in every if members is not None), None)
        return None if found is None else tuple(map(self._plain, found))

    def _plain(self, member: Member) -> Member:
        kind = resolved(member.parameter.type, self._aliases)
        if self._is_enumeration(kind):
            kind = "int"
        return replace(member, parameter=replace(member.parameter, type=kind))

    def enumeration(self, kind: str) -> tuple[str, list[str]]:
        """The dtype and the enumerators of an enumeration; none for another type."""
        if not kind.isidentifier() or Parameter("", kind, False, False).dtype is not None:
            return "", []
        pattern = (
            rf"\benum\s+(?:class\s+|struct\s+)?{kind}\s*(?::\s*([\w \t:]+?))?\s*\{{([^{{}}]*)\}}"
            rf"|\btypedef\s+enum\b[^;{{}}]*\{{([^{{}}]*)\}}\s*{kind}\s*;"
        )
        found = next((match for text in self._texts if (match := re.search(pattern, text))), None)
        if found is None:
            return "", []
        own = Parameter("", (found[1] or "int").rpartition(":")[2].strip(), False, False).dtype
        return own or "int32", re.findall(r"(?:^|,)\s*(\w+)", found[2] or found[3])

    def _is_enumeration(self, kind: str) -> bool:
        """Whether a type is an enumeration of int, as those are that name no other type."""
        return self.enumeration(kind)[0] == "int32"

    def defines(self, kind: str) -> bool:
        """Whether a type is one of them, plain or not."""
        return any(base(kind) in names(text) for text in (*self._texts, OF_CUDA))

    def pointers(self, kind: str) -> list[str]:
        """The members of a struct that are pointers."""
        return [member.name for member in self.get(kind) or () if member.parameter.is_pointer]

    def fields(
        self, kind: str, values: Mapping[str, str], fixed: Mapping[str, int], arrays: Arrays | None
    ) -> list[str] | None:
        """The fields of an argument of this type that is passed by value, see `fields`; None if it cannot be. `fixed`
        are the numbers that no configuration changes."""
        members = self.get(kind)
        if members is None:
            return None
        return fields(members, self.get, self._types, values, lambda e: evaluated(e, fixed), arrays)

    def extents(self, kind: str) -> set[str]:
        """The names in the extents of a struct's arrays, and in the arguments of a template."""
        found = set(re.findall(r"[A-Za-z_]\w*", kind.partition("<")[2]))
        for member in self.get(kind) or ():
            found |= {word for extent in member.extents for word in re.findall(r"[A-Za-z_]\w*", extent)}
            found |= self.extents(member.parameter.type) if not member.parameter.is_pointer else set()
        return found

    def numbers(self, parameter: Parameter, opencl: bool = False) -> tuple[str, int] | None:
        """The dtype and the count of the numbers in an element of an array of structs, if all have one dtype, with what
        alignment leaves between and behind them: of complex numbers, one."""
        if (part := _COMPLEX.fullmatch(parameter.type)) and parameter.stars == 1:
            return f"complex{64 if part[1] == 'float' else 128}", 1
        members = self._of_array(parameter)
        found = _numbers(members, self.get, self.evaluated, self._types) if members else None
        if members and found and _is_complex(members):
            return (whole, 1) if (whole := complex_of(found[0])) else found
        nbytes = self.nbytes(parameter, opencl) if found and found[0] in DTYPES else None
        return found if nbytes is None or found is None else (found[0], nbytes // DTYPES[found[0]].itemsize)

    def nbytes(self, parameter: Parameter, opencl: bool = False) -> int | None:
        """The bytes of an element of an array of structs, as CUDA lays it out, or OpenCL; None if it is none, or
        unknown."""
        found = self._layout(parameter, opencl)
        return found.nbytes if found else None

    def numpy(self, parameter: Parameter, opencl: bool = False) -> dict[str, str]:
        """The NumPy dtypes of the elements of an array of structs, as text by name: that of an element is the last.
        Empty if the layout is unknown."""
        found = self._layout(parameter, opencl)
        return _numpy(parameter.type, found, self.get, self.evaluated, opencl) if found else {}

    def _layout(self, parameter: Parameter, opencl: bool) -> _Layout | None:
        members = self._of_array(parameter)
        return _layout(members, self.get, self.evaluated, opencl) if members else None

    def _of_array(self, parameter: Parameter) -> tuple[Member, ...] | None:
        is_array = parameter.stars == 1 and parameter.dtype is None
        return self.get(parameter.type) if is_array else None

    def evaluated(self, extent: str) -> str:
        """An extent as a number, if the texts have it."""
        for _ in range(MOST_MACROS):
            extent = re.sub(r"[A-Za-z_]\w*", lambda name: self._computed.get(name[0], name[0]), extent)
        extent = re.sub(r"\bsizeof\s*\(\s*(\w+)\s*\)", self._sizeof, extent)
        return evaluated(extent.replace("/", "//"), self._constants)

    def _sizeof(self, match: re.Match[str]) -> str:
        """The bytes of a type, or the text if it is no number."""
        dtype = Parameter("", resolved(match[1], self._aliases), False, False).dtype
        return match[0] if dtype is None else str(DTYPES[dtype].itemsize)

    @cached_property
    def _computed(self) -> dict[str, str]:
        """The macros that are expressions, as `(BITS / 32)`, by name; a number has its value in the constants."""
        found = dict(_EXPRESSION.findall("\n".join(reversed(self._texts))))
        return {name: text for name, text in found.items() if name not in self._constants}
