"""Rewrites pointers that move by bytes, as `(float *)((char *)x + y * pitch)` does, so that they move by elements."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import field, replace

from tuner.classes import dataclass
from tuner.space.dtypes import DTYPES
from tuner.space.sources.prototype import Parameter, Prototype
from tuner.space.sources.tokens import matching

_BEFORE_A_STAR = {*";{}(=+-*/,&|?:<>", "else", "return"}  # then it is a dereference, no product and no declaration
_BYTES = {"char", "signed char", "unsigned char", "uchar", "int8_t", "uint8_t"}
_QUALIFIERS = {
    "const",
    "volatile",
    "__restrict__",
    "restrict",
    "__global",
    "global",
    "__constant",
    "constant",
    "GLOBAL",
}
CAST = re.compile(r"\b(?:reinterpret|static|const)_cast < ([^<>()]*\*[^<>()]*) > (?:\( (\w+) \)|(?=\())")
_BY_VARIABLE = re.compile(r"\b(?:u?char|u?int8_t) (?:const )?\* \) \w+ \+ ([A-Za-z_]\w*) \)")


def is_dereference(body: Sequence[str], star: int, after: int) -> bool:
    """Whether a star reads or writes the element at a pointer, which ends before the position `after`."""
    first, second = (*body[after : after + 2], "", "")[:2]
    is_stored = first == "=" != second or (first in ("+", "-", "*", "/") and second == "=")
    return body[star - 1] in _BEFORE_A_STAR or (body[star - 1] == ")" and is_stored)


class _IsOpen(Exception):
    """An offset is not certainly a number of whole elements."""


@dataclass(frozen=True)
class Moved:
    """Kernels with pointers that move by elements. `arrays` are those that moved by a distance in bytes; `pitches` the
    bytes of an element for each scalar that was such a distance, and that stands for one in elements in these kernels.
    """

    steps: Sequence[Prototype]
    arrays: Collection[str] = ()
    pitches: Mapping[str, int] = field(default_factory=dict)


def in_elements(steps: Sequence[Prototype]) -> Moved:
    """The kernels with pointers that move by elements; as they are, if one uses a distance in bytes otherwise."""
    found, arrays, pitches = list[Prototype](), set[str](), dict[str, int]()
    for step in steps:
        try:
            mover = _Mover(step)
        except _IsOpen:
            return Moved(steps)
        if any(pitches.get(name, nbytes) != nbytes for name, nbytes in mover.pitches.items()):
            return Moved(steps)
        pitches |= mover.pitches
        arrays |= mover.arrays
        found.append(replace(step, body=tuple(mover.body)) if mover.has_moved else step)
    others = (p.name for step, same in zip(steps, found, strict=True) if step is same for p in step.parameters or ())
    return Moved(found, arrays, pitches) if pitches.keys().isdisjoint(others) else Moved(steps)


class _Mover:
    """The body of a kernel with pointers that move by elements. Raises _IsOpen if a distance in bytes is also used
    otherwise."""

    def __init__(self, step: Prototype) -> None:
        self._arrays = {p.name: p for p in step.parameters or () if p.is_pointer and p.stars == 1 and p.dtype}
        self._scalars = {p.name for p in step.parameters or () if p.is_pointer is False and p.dtype and p.width == 1}
        self.body, self.has_moved, self.arrays = _without_casts(step.body), False, set[str]()
        self.pitches, self._count = dict[str, int](), 0
        at = 0
        while at < len(self.body):
            moved = _offset(self.body, at, self._arrays[self.body[at]]) if self.body[at] in self._arrays else None
            at = (at if moved is None else self._move(self._arrays[self.body[at]], *moved)) + 1
        if self._count != sum(word in self.pitches for word in self.body):
            raise _IsOpen

    def _move(self, array: Parameter, start: int, end: int, offset: Sequence[str]) -> int:
        """Replace the pointer from `start` to `end`, with what dereferences it. Returns the position of the array."""
        terms = [_in_elements(term, array, self._scalars) for term in _terms(offset)]
        names = [word for term in terms for word in term if word in self._scalars]
        nbytes = DTYPES[array.dtype or ""].itemsize
        if any(self.pitches.setdefault(name, nbytes) != nbytes for name in names):
            raise _IsOpen
        self._count += len(names)
        self.has_moved = True
        self.arrays |= {array.name} if names else set()
        by = ["(", *[word for term in terms for word in ("+", *term)][1:], ")"]
        new, body = ["(", array.name, "+", *by, ")"], self.body
        if body[start - 1] == "=" and body[end + 1] == ";":
            new = new[1:-1]
        elif body[start - 1] == "*" and is_dereference(body, start - 1, end + 1):  # *(float *)(...)
            start, new = start - 1, [array.name, "[", *by, "]"]
        elif body[start - 1] == "(":
            close = matching(body, start - 1)
            rest = body[end + 1 : close]
            if not rest and body[close + 1] == "[":  # ((float *)(...))[x]
                end = matching(body, close + 1)
                start, new = start - 1, [array.name, "[", *by, "+", "(", *body[close + 2 : end], ")", "]"]
            elif body[start - 2] == "*" and is_dereference(body, start - 2, close + 1) and rest[:1] in ([], ["+"]):
                start, end, new = start - 2, close, [array.name, "[", *by, *rest, "]"]  # *((float *)(...) + x)
        body[start : end + 1] = new
        return start + new.index(array.name)


def _without_casts(body: Sequence[str]) -> list[str]:
    """The tokens of a body with casts to pointers as C writes them, and with offsets in the place of variables that are
    nothing else."""
    text = CAST.sub(lambda cast: f"( {cast[1]} ) {cast[2] or ''}", " ".join(body))
    for name in {*_BY_VARIABLE.findall(text)}:
        declared = re.findall(rf"(?<=[;{{}}]) (?:\w+ )+{name} = ([^;]*) ;", text)
        uses = _BY_VARIABLE.findall(text).count(name)
        if len(declared) == 1 and uses + 1 == len(re.findall(rf"\b{name}\b", text)):
            text = re.sub(rf"(?<=[;{{}}]) (?:\w+ )+{name} = [^;]* ;", "", text)
            text = text.replace(f" + {name} )", f" + {declared[0]} )")
    return text.split()


def _offset(body: Sequence[str], at: int, array: Parameter) -> tuple[int, int, Sequence[str]] | None:
    """Where `(float *)((char *)x + offset)` around an array begins and ends, and the offset; None if it is no such."""
    inner = cast_before(body, at)
    if inner is None or inner[1] not in _BYTES or body[at + 1] != "+" or body[inner[0] - 1] != "(":
        return None
    outer = cast_before(body, inner[0] - 1)
    if outer is None or outer[1] != array.type:
        return None
    end = matching(body, inner[0] - 1)
    return outer[0], end, body[at + 2 : end]


def cast_before(body: Sequence[str], at: int) -> tuple[int, str] | None:
    """Where a cast to a pointer begins that ends before a position, and the type of its elements."""
    begin = next((place for place in range(at - 1, -1, -1) if body[place] == "("), 0)
    inside = [word for word in body[begin + 1 : at - 1] if word not in _QUALIFIERS]
    is_cast = body[at - 1 : at] == [")"] and matching(body, begin) == at - 1 and inside[-1:] == ["*"]
    return (begin, " ".join(inside[:-1])) if is_cast else None


def _terms(offset: Sequence[str]) -> Iterator[list[str]]:
    """The terms of a sum. Raises _IsOpen if one is subtracted."""
    term, at = list[str](), 0
    while at < len(offset):
        end = matching(offset, at) + 1
        if offset[at] == "-":
            raise _IsOpen
        if offset[at] == "+":
            yield term
            term = []
        else:
            term += offset[at:end]
        at = end
    yield term


def _in_elements(term: Sequence[str], array: Parameter, scalars: Collection[str]) -> list[str]:
    """A product of bytes as one of elements: with its distance in bytes, or without the bytes of an element. Raises
    _IsOpen if it has neither."""
    if {"/", "%", "<", ">", "?"} & {*term}:
        raise _IsOpen
    size = f"sizeof ( {array.type} )"
    if size in (text := " ".join(term)):
        if text.count("sizeof") > 1 or any(word in scalars for word in term):
            raise _IsOpen
        return text.replace(size, "1").split()
    if sum(word in scalars for word in term) != 1 or "sizeof" in term:
        raise _IsOpen
    return [*term]
