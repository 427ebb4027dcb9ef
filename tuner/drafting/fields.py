"""The fields of structs by value that a draft has names for: sizes, which bound indices as in `p.n`, and pointers."""

from __future__ import annotations

import keyword
import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from tuner.classes import dataclass
from tuner.drafting.knobs.proposals import is_size
from tuner.space.dtypes import DTYPES
from tuner.space.expressions import arithmetic
from tuner.space.scope import DEVICE_NAMES
from tuner.space.sources.prototype import Parameter, Prototype
from tuner.space.sources.struct_text import Member

Members = Callable[[str], Sequence[Member] | None]
MOST_POINTERS = 64  # in an array
MOST_DEEP = 8  # structs in structs
SHARED = "extern __shared__"  # stands for CUDA's dynamic shared memory where a name of local memory is due


@dataclass(frozen=True)
class StructField:
    """A field: the kernel's parameter that has it, its name, and its number in the struct."""

    parameter: str
    name: str
    place: int


@dataclass(frozen=True)
class StructPointer:
    """A pointer in a struct: the kernel's parameter that has it; the names of the fields that lead to it, the last its
    own; its number in an array of pointers, else None; the array that it points to, as a parameter of its own; the
    number of the first field; and whether functions get the whole struct."""

    parameter: str
    path: tuple[str, ...]
    place: int | None
    array: Parameter
    number: int
    is_handed_on: bool = False

    @property
    def dotted(self) -> tuple[str, ...]:
        """The tokens of the field in a kernel."""
        return (self.parameter, *(word for name in self.path for word in (".", name)))

    @property
    def words(self) -> tuple[str, ...]:
        """Its tokens in a kernel."""
        return (*self.dotted, *(() if self.place is None else ("[", str(self.place), "]")))


def pointers(steps: Sequence[Prototype], members: Members, extent: Callable[[str], str]) -> list[StructPointer]:
    """The pointers in structs by value that a body reads, or may read because it hands on the whole struct. `extent`
    gives the number of an extent, if the source has it."""
    given, steps = steps, [without_copies(step, members) for step in steps]
    bodies = " ".join(word for step in steps for word in (*step.body, ";"))
    found = list[StructPointer]()
    for parameter in {p.name: p for step in steps for p in step.parameters or ()}.values():
        if not parameter.is_pointer and parameter.dtype is None and not parameter.kind:
            own = members(parameter.type) or ()
            read = re.findall(rf"(?<!\. )\b{re.escape(parameter.name)}\b(?: \. (\w+))?", bodies)
            whole = not {*read} <= {member.name for member in own}  # handed on, or a function of its own reads it
            for pointer in _pointers(parameter.name, (), own, members, extent):
                words = re.escape(" ".join(pointer.dotted))
                if whole or re.search(rf"\b{words}\b", bodies):
                    found.append(replace(pointer, is_handed_on=whole))
    constant = [each for each in found if _is_read_as_const(each, given, members)]
    found = [replace(e, array=replace(e.array, is_const=True)) if e in constant else e for e in found]
    names = Counter("_".join(_ending(each)) for each in found)
    taken = {p.name for step in steps for p in step.parameters or ()} | {*arithmetic.FUNCTIONS, *DEVICE_NAMES}
    taken |= set(re.findall(r"(?<!\. )\b[A-Za-z_]\w*", bodies))
    return [_named(each, names, taken) for each in found]


@dataclass(frozen=True)
class _Copy:
    """A local variable that is a field of a struct, as in `float *u = g.u;`: its name, the field's words, where its
    declaration begins and ends among a body's tokens, and whether it is a pointer to const."""

    name: str
    words: tuple[str, ...]
    begin: int
    end: int
    is_const: bool


def without_copies(step: Prototype, members: Members) -> Prototype:
    """A kernel without the local variables that are fields of structs by value, as in `int n = p.n;`: it reads the
    fields."""
    copies = [copy for copy in _copies(step, members) if not _moves(copy, step.body)]
    if not copies:
        return step
    removed = {at for copy in copies for at in range(copy.begin, copy.end)}
    words = {copy.name: copy.words for copy in copies}
    body = list[str]()
    for at, word in enumerate(step.body):
        if at not in removed:
            body += words.get(word, (word,)) if at == 0 or step.body[at - 1] != "." else (word,)
    return replace(step, body=tuple(body))


def _copies(step: Prototype, members: Members) -> Iterator[_Copy]:
    """The local variables that are copies of fields."""
    owners = {p.name for p in step.parameters or () if not p.is_pointer and p.dtype is None and members(p.type)}
    body = step.body
    for at in range(2, len(body)):
        if body[at] not in owners or body[at - 1] != "=" or not body[at - 2].isidentifier():
            continue
        end = at + 1
        while body[end : end + 1] == (".",):
            end += 2
        begin = next((start + 1 for start in range(at - 1, -1, -1) if body[start] in (";", "{", "}")), 0)
        declared = body[begin : at - 2]
        is_plain = not {",", "(", "=", "&", ".", "["} & {*declared}
        if end > at + 1 and body[end : end + 1] == (";",) and declared and is_plain:
            is_const = "*" in declared and "const" in declared[: declared.index("*")]
            yield _Copy(body[at - 2], body[at:end], begin, end + 1, is_const)


def _moves(copy: _Copy, body: Sequence[str]) -> bool:
    """Whether a body changes a local variable, or has several of its name."""
    rest = " ".join((*body[: copy.begin], ";", *body[copy.end :]))
    name = rf"(?<!\. )\b{copy.name}\b"
    steps = rf"{name} (?:=(?! =)|(?:[-+*/%|&^]|< <|> >) =|\+ \+|- -)|(?:\+ \+|- -) {name}"
    return re.search(rf"{steps}|(?:[(,=] & |\* )(?:const |restrict |__restrict__ )*{name} [=;,)]", rest) is not None


def _is_read_as_const(pointer: StructPointer, steps: Sequence[Prototype], members: Members) -> bool:
    """Whether kernels read a pointer in a struct by local pointers to const alone."""
    copies = [copy for step in steps for copy in _copies(step, members) if copy.words == pointer.words]
    whole = " ".join(pointer.words)
    count = sum(len(re.findall(rf"(?<!\. )\b{re.escape(whole)}\b", " ".join(step.body))) for step in steps)
    return len(copies) == count > 0 and all(copy.is_const for copy in copies)


def _named(pointer: StructPointer, names: Mapping[str, int], taken: Collection[str]) -> StructPointer:
    """The pointer with a name for its array that nothing else has."""
    ending = _ending(pointer)
    name = "_".join(ending)
    if names[name] > 1 or name in taken or keyword.iskeyword(name):
        name = "_".join((pointer.parameter, *pointer.path[:-1], *ending))
    return replace(pointer, array=replace(pointer.array, name=name))


def _ending(pointer: StructPointer) -> tuple[str, ...]:
    return (pointer.path[-1], *(() if pointer.place is None else (str(pointer.place),)))


def _pointers(
    owner: str,
    path: tuple[str, ...],
    found: Sequence[Member],
    members: Members,
    extent: Callable[[str], str],
    at: int = 0,
) -> Iterator[StructPointer]:
    for number, member in enumerate(found):
        own, extents, first = (*path, member.name), [extent(each) for each in member.extents], at if path else number
        if not member.parameter.is_pointer:
            if not extents and len(own) <= MOST_DEEP:
                yield from _pointers(owner, own, members(member.parameter.type) or (), members, extent, first)
        elif not extents:
            yield StructPointer(owner, own, None, member.parameter, first)
        elif all(map(str.isdecimal, extents)):
            count = min(math.prod(map(int, extents)), MOST_POINTERS)
            yield from (StructPointer(owner, own, place, member.parameter, first) for place in range(count))


def sizes(steps: Sequence[Prototype], members: Members) -> dict[str, StructField]:
    """The whole fields that bodies compare or index with, by name, which begins with that of the struct if several
    structs have it, as in_width; none whose name has another meaning."""
    found, names = list[StructField](), Counter[str]()
    bodies = " ".join(word for step in steps for word in step.body)
    taken = {p.name for step in steps for p in step.parameters or ()} | {*arithmetic.FUNCTIONS, *DEVICE_NAMES}
    for parameter in {p.name: p for step in steps for p in step.parameters or ()}.values():
        is_struct = not parameter.is_pointer and parameter.dtype is None and not parameter.kind
        for place, member in enumerate((members(parameter.type) or ()) if is_struct else ()):
            dtype = DTYPES.get(member.parameter.dtype or "")
            is_whole = dtype is not None and dtype.kind == "integer" and member.parameter.width == 1
            if is_whole and not member.parameter.is_pointer and not member.extents:
                found.append(StructField(parameter.name, member.name, place))
            names[member.name] += 1
    taken |= {*re.findall(r"(?<!\. )\b[A-Za-z_]\w*", bodies), *keyword.kwlist}
    each = ((f.name if names[f.name] == 1 else f"{f.parameter}_{f.name}", f) for f in found if _is_read(f, bodies))
    return {name: field for name, field in each if name not in taken}


def _is_read(field: StructField, body: str) -> bool:
    """Whether a field is in an index, or something is compared with it."""
    whole = rf"\b{field.parameter} \. {field.name}\b"
    if is_size(field.name, 0) and re.search(rf"\b(?:int|unsigned|long|size_t|\w+_t) \w+ = [^;]*{whole}", body):
        return True
    return re.search(rf"[<>] (?:= )?\(*[^;&|]*{whole}|{whole} [<>]|\[[^\[\]]*{whole}", body) is not None


def plain(step: Prototype, fields: Mapping[str, StructField], pointers: Sequence[StructPointer]) -> Prototype:
    """A kernel whose body has the names of these fields and arrays in the place of `p.n`."""
    body, at, found = step.body, 0, list[str]()
    names: dict[tuple[str, ...], str] = {(field.parameter, ".", field.name): size for size, field in fields.items()}
    names |= {pointer.words: pointer.array.name for pointer in pointers}
    lengths, first = sorted({*map(len, names)}), {words[0] for words in names}
    while at < len(body):
        is_own = body[at] in first and body[at - 1 : at] != (".",)
        length = next((n for n in lengths if is_own and body[at : at + n] in names), 1)
        found.append(names.get(body[at : at + length], body[at]) if is_own else body[at])
        at += length
    return replace(step, body=tuple(found))
