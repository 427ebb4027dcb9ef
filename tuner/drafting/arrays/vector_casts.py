"""Rewrites accesses by vectors to arrays of numbers: `reinterpret_cast<float4 *>(x)[i]` as those to the last number of
each vector, `x[4 * i + 3]`, and `*reinterpret_cast<float4 *>(x + i)` as those to the first, `x[i]`."""

from __future__ import annotations

import re
from dataclasses import replace

from tuner.drafting.arrays.byte_offsets import CAST, cast_before, is_dereference
from tuner.space.dtypes import DTYPES
from tuner.space.sources.prototype import Parameter, Prototype
from tuner.space.sources.tokens import matching

_ADDRESS = re.compile(r"& \( (\w+ \[ [^\[\]]+ \]) \)")  # as macros write it


def in_numbers(step: Prototype) -> Prototype:
    """A kernel that accesses its arrays of numbers by these alone, as far as casts to vectors are understood."""
    arrays = {p.name: p for p in step.parameters or () if p.is_pointer and p.stars == 1 and p.dtype and p.width == 1}
    text = CAST.sub(lambda cast: f"( {cast[1]} ) {cast[2] or ''}", " ".join((*step.body, ";")))
    body = _ADDRESS.sub(r"& \1", text).split()
    found, at = False, 0
    while at < len(body):
        changed = _rewritten(body, at, arrays[body[at]]) if body[at] in arrays else None
        found, body, at = found or changed is not None, changed or body, 0 if changed else at + 1
    return replace(step, body=tuple(body[:-1])) if found else step


def _rewritten(body: list[str], at: int, array: Parameter) -> list[str] | None:
    """The body with another access in the place of one by vectors, whose array is at a position; None if there is no
    cast to vectors, or no index of vectors."""
    begin, end, offset = at, at, list[str]()
    if body[at - 1] == "&" and body[at + 1] == "[":
        begin, end = at - 1, matching(body, at + 1)
        offset = body[at + 2 : end]
    if body[begin - 1] == "(" and body[begin - 2] == ")" and body[end + 1] in "+)":
        end, start = matching(body, begin - 1), end
        begin -= 1
        offset = [*offset, *body[start + 1 + (not offset) : end]]
    cast = cast_before(body, begin)
    width = _numbers(cast[1], array) if cast else 0
    if not cast or width < 2:
        return None
    begin = cast[0]
    while body[begin - 1] == "(" and body[end + 1] == ")" and body[begin - 2] in "*=(+-,;{}&|":
        begin, end = begin - 1, end + 1
    first = [*offset, "+"] if offset else []
    if body[end + 1 : end + 4] == ["[", "0", "]"] and offset:
        return _with_access(body, begin, [array.name, "[", *offset, "]"], end + 4)
    if body[begin - 1] == "*" and is_dereference(body, begin - 1, end + 1):
        return _with_access(body, begin - 1, [array.name, "[", *(offset or ["0"]), "]"], end + 1)
    if body[end + 1] == "[":
        close = matching(body, end + 1)
        index = ["(", *body[end + 2 : close], ")", "*", str(width), "+", str(width - 1)]
        return [*body[:begin], array.name, "[", *first, *index, "]", *body[close + 1 :]]
    return _without_pointer(body, begin, end, [array.name, "[", *first], width)


def _with_access(body: list[str], begin: int, access: list[str], end: int) -> list[str]:
    """The body with an access between two positions, without brackets around it, as macros write them."""
    while body[begin - 1] == "(" and body[end] == ")" and body[begin - 2] in "=;{})":
        begin, end = begin - 1, end + 1
    return [*body[:begin], *access, *body[end:]]


def _without_pointer(body: list[str], begin: int, end: int, access: list[str], width: int) -> list[str] | None:
    """The body without a pointer to vectors that a cast initialises, and with accesses to the array in the place of
    those by it; None if it is also used otherwise."""
    name, start = body[begin - 2], begin - 1
    while start > 0 and body[start - 1] not in ";{}":
        start -= 1
    if body[begin - 1] != "=" or body[end + 1] != ";" or "*" not in body[start : begin - 2]:
        return None
    rest, found, at = [*body[:start], *body[end + 2 :]], list[str](), 0
    while at < len(rest):
        if rest[at] != name or rest[at - 1] == ".":
            found.append(rest[at])
        elif rest[at + 1] == "[":
            close = matching(rest, at + 1)
            found += [*access, "(", *rest[at + 2 : close], ")", "*", str(width), "+", str(width - 1), "]"]
            at = close
        else:
            return None
        at += 1
    return found


def _numbers(vector: str, array: Parameter) -> int:
    """The numbers of an array in an element of a vector type; 0 if they do not fill it, or the type is unknown."""
    kind = Parameter("", vector, False, False)
    if kind.dtype is None or kind.width in (1, 3):
        return 0
    count, rest = divmod(DTYPES[kind.dtype].itemsize * kind.width, DTYPES[array.dtype or ""].itemsize)
    return 0 if rest else count
