"""Definitions of structs in a source, read without a compiler, and their agreement with the fields of a space."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from tuner.classes import dataclass
from tuner.quoting import shown
from tuner.space import structs
from tuner.space.argument import Argument, Field
from tuner.space.dtypes import DTYPES
from tuner.space.sources import prototype, tokens
from tuner.space.sources.prototype import Parameter

_HEAD = re.compile(
    r"(?P<typedef>\btypedef\s+)?\b(?<!enum )(?:struct|class)\b(?P<names>[^;{}()=<>]*)(?P<of><[^;{}()]*>\s*)?\{"
)
_TEMPLATE = re.compile(r"\btemplate\s*<([^;{}]*)>\s*\Z")
_INSTANCE = re.compile(r"([\w:]+)(?:<(.*)>)?", re.DOTALL)
_ALIAS = re.compile(r"\busing\s+(\w+)\s*=\s*([\w:]+\s*<[^;{}()]*>)\s*;|\btypedef\s+([\w:]+\s*<[^;{}()]*>)\s*(\w+)\s*;")
_OF_NO_OBJECT = re.compile(r"(?:static|friend|using|typedef)\b")  # declarations that take no place in an object
_UNREAD = re.compile(r"[(#:=]|\b(?:union|enum|using|typedef)\b")
_STARS = re.compile(r"(?:\*\s*(?:const|volatile|(?:__)?restrict(?:__)?)?\s*)+\Z")
_WITH_VALUE = re.compile(r"\A(?!\s*(?:struct|class|union|enum)\b)[^;{}()=]*[\w>*&\]]\s*(?:=\s*)?\Z")
_ALIGNED = re.compile(r"\b(?:__align__|alignas|_Alignas)\s*\(\s*(\w+)\s*\)")
_ALIGN = "aligned__"  # begins the word that stands for an alignment
_NEAR = 400  # characters before a struct that may be its template's


@dataclass(frozen=True)
class Member:
    """A member of a struct: its type and name, the extents of an array, and an alignment, as written. The first has
    also the alignment of the struct."""

    parameter: Parameter
    extents: tuple[str, ...] = ()
    align: str = ""

    @property
    def name(self) -> str:
        return self.parameter.name

    def __str__(self) -> str:
        return str(self.parameter) + "".join(f"[{extent}]" for extent in self.extents)

    def with_values(self, values: Mapping[str, str]) -> Member:
        """The member with these values in place of the parameters of a template."""

        def replaced(text: str) -> str:
            return re.sub(r"[A-Za-z_]\w*", lambda word: values.get(word[0], word[0]), text)

        parameter = replace(self.parameter, type=replaced(self.parameter.type)) if values else self.parameter
        return Member(parameter, tuple(map(replaced, self.extents)), replaced(self.align))


class StructDefinitions:
    """The plain structs and class templates that `code`, which has no comments, defines once. Plain ones have members
    that C lays out: no bases, bit fields or conditions; functions take no place."""

    def __init__(self, code: str) -> None:
        self._found: dict[str, _Definition | None] = {}
        code = _ALIGNED.sub(rf" {_ALIGN}\1 ", code)
        for head in _HEAD.finditer(code):
            body, after = braced(code, head.end() - 1)
            own = re.findall(r"\w+", head["names"].partition(":")[0])[-1:]
            names = [n for n in re.findall(r"\w+", after if head["typedef"] else "") if not n.startswith(_ALIGN)] + own
            template = _TEMPLATE.search(code, max(0, head.start() - _NEAR), head.start())
            is_special = ":" in head["names"] or head["of"]  # with bases, or a specialisation
            members = None if is_special else _data(body)
            whole = re.search(rf"\b{_ALIGN}(\w+)", f"{head['names']} {after}")
            if members and whole:
                members = (replace(members[0], align=whole[1]), *members[1:])
            for name in dict.fromkeys(names):
                is_new = members is not None and name not in self._found
                self._found[name] = _Definition(members or (), _parameters(template)) if is_new else None
        self._aliases = {one or two: kind or other for one, kind, other, two in _ALIAS.findall(code)}

    def get(self, kind: str) -> tuple[Member, ...] | None:
        """The members of a struct, or of an instance such as `Pair<float, 4>`; None if it is none, or not plain."""
        match = _INSTANCE.fullmatch(self._aliases.get(kind, kind))
        definition = self._found.get(match[1].rpartition("::")[2]) if match else None
        if match is None or definition is None or definition.parameters is None:
            return None
        given = [" ".join(part).replace(" :: ", "::") for part in tokens.split(tokens.words(match[2] or ""))]
        if len(given) > len(definition.parameters) or (match[2] is None) != (not definition.parameters):
            return None
        values = {**definition.parameters, **dict(zip(definition.parameters, given, strict=False))}
        return tuple(each.with_values(values) for each in definition.members) if all(values.values()) else None


@dataclass(frozen=True)
class _Definition:
    """The members of a struct, and the parameters of its template with their defaults; None if these are unclear."""

    members: tuple[Member, ...]
    parameters: Mapping[str, str] | None


def _parameters(template: re.Match[str] | None) -> dict[str, str] | None:
    found = dict[str, str]()
    for part in tokens.split(tokens.words(template[1])) if template else ():
        declared = part[: part.index("=")] if "=" in part else part
        if "." in declared or len(declared) < 2:  # a pack, or one without a name
            return None
        found[declared[-1]] = " ".join(part[len(declared) + 1 :])
    return found


def braced(code: str, opening: int) -> tuple[str, str]:
    """The text in the braces that open at a position, and what follows as far as a semicolon."""
    depth = 0
    for brace in re.finditer(r"[{}]", code[opening:]):
        depth += 1 if brace[0] == "{" else -1
        if depth == 0:
            end = opening + brace.end()
            return code[opening + 1 : end - 1], code[end : code.find(";", end)]
    return code[opening + 1 :], ""


def _data(body: str) -> tuple[Member, ...] | None:
    """The members of a struct with this body, without functions; None if it is not plain."""
    left = re.sub(r"\b(?:public|private|protected)\s*:(?!:)", ";", body)
    while "{" in left:
        opening = left.index("{")
        start = max(left.rfind(end, 0, opening) for end in ";}") + 1
        inner, _ = braced(left, opening)
        after = left[opening + len(inner) + 2 :]
        if "(" in left[start:opening]:
            left = f"{left[:start]};{after}"
        elif _WITH_VALUE.search(left[start:opening]):
            left = left[:opening] + after
        else:
            return None
    declarations = [_without_values(each.strip()) for each in left.split(";")]
    if any(re.search(r"\(\s*\*", each) for each in declarations):
        return None  # a pointer to a function
    data = [each for each in declarations if "(" not in each and not _OF_NO_OBJECT.match(each)]
    if re.search(r"\bvirtual\b", body) or _UNREAD.search(";".join(data)):
        return None
    return tuple(_members(";".join(data)))


def _without_values(declaration: str) -> str:
    """The declaration of a member without the values that it begins with, as in `int n = 0, *p = nullptr`."""
    if "=" not in declaration or "(" in declaration.partition("=")[0]:
        return declaration
    parts, depth, is_value = list[str](), 0, False
    for character in declaration:
        depth += (character in "([{") - (character in ")]}")
        is_value = (is_value or character == "=") and not (character == "," and depth == 0)
        parts.append("" if is_value else character)
    return "".join(parts).strip()


def _members(body: str) -> Iterator[Member]:
    for declaration in filter(None, map(str.strip, body.split(";"))):
        first, *others = re.split(r",(?![^<]*>)", declaration)
        kind = re.match(r"(.*?)[\s*]+\w+\s*(?:\[[^\]]*\]\s*)*$", first)
        shared = _STARS.sub("", kind[1]) if kind else ""  # a star belongs to the first alone
        for each in (first, *(f"{shared} {other}" for other in others)):
            align = re.search(rf"\b{_ALIGN}(\w+)", declaration)
            plain = re.sub(rf"\[[^\]]*\]|\b{_ALIGN}\w+", "", each)
            parameter = prototype.parameter(tokens.words(plain))
            extents = tuple(text.strip() for text in re.findall(r"\[([^\]]*)\]", each))
            yield Member(parameter, extents, align[1] if align else "")


@functools.lru_cache(maxsize=8)
def _definitions(code: str) -> StructDefinitions:
    """The structs of a source, which each of its arguments asks for."""
    return StructDefinitions(code)


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
    definitions = _definitions(code)
    members = definitions.get(parameter.type)
    if not members:
        return None  # an empty struct has one byte, which may have any name
    if vector and [member.parameter.dtype for member in members] == [vector.dtype] * vector.width:
        return None  # C has no vectors
    if not argument.fields or vector:
        return f"a struct; list its `fields:` {_listed(members)}"
    return _difference(argument.fields, members, definitions, types)


def _difference(
    fields: Sequence[Field],
    members: Sequence[Member],
    definitions: StructDefinitions,
    types: Mapping[str, Sequence[str]],
) -> str | None:
    """How the fields of the space differ from the members of the source."""
    if [field.name for field in fields] != [member.name for member in members]:
        return f"whose fields are {_listed(members)}; list these, in this order"
    for field, member in zip(fields, members, strict=True):
        if member.align.isdecimal() and int(member.align) != field.align:
            return f"whose field `{shown(member)}`, or the whole struct, is aligned; write `align: {member.align}`"
        inner = definitions.get(member.parameter.type)
        if field.fields and inner is not None:
            if inner and (message := _difference(field.fields, inner, definitions, types)) is not None:
                return message
        elif member.parameter.is_pointer:
            if not _may_point(field, member):
                need = f"{{name: {member.name}, array: }} with the name of the array that it points to"
                return f"whose field `{shown(member)}` is a pointer; write {need}"
        elif field.arrays:
            return f"whose field `{shown(member)}` is no pointer; write its `dtype` in place of `array`"
        elif not _fits(field, member, types):
            shape = f" with `shape: [{', '.join(map(str, field.shape))}]`" if field.shape else ""
            return (
                f"whose field `{shown(member)}` is not {field.dtype or 'a struct'}{shape}; write its type and extents"
            )
    return None


def _may_point(field: Field, member: Member) -> bool:
    """Whether a field may be this pointer or array of pointers: with `array`, or as the number of an address."""
    if all(map(str.isdecimal, member.extents)) and [*map(int, member.extents)] != [*field.shape]:
        return False
    return bool(field.arrays) or field.dtype in ("uint64", "int64")


def pointees(argument: Argument, parameter: Parameter, code: str) -> list[tuple[str, Parameter]]:
    """For each pointer of a struct: the array that the space gives it, and the member as a parameter."""
    definitions = _definitions(code)
    return list(_pointees(argument.fields, definitions.get(parameter.type) or (), definitions))


def _pointees(
    fields: Sequence[Field], members: Sequence[Member], definitions: StructDefinitions
) -> Iterator[tuple[str, Parameter]]:
    for field, member in zip(fields, members, strict=False):
        yield from ((name, member.parameter) for name in field.arrays)
        yield from _pointees(field.fields, definitions.get(member.parameter.type) or (), definitions)


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
