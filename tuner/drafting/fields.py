"""The fields of structs that kernels take by value and that are sizes: bounds of indices, such as `p.n`."""

from __future__ import annotations

import keyword
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from tuner.space.dtypes import DTYPES
from tuner.space.expressions import arithmetic
from tuner.space.scope import DEVICE_NAMES
from tuner.space.sources.prototype import Prototype
from tuner.space.sources.struct_text import Member

Members = Callable[[str], Sequence[Member] | None]


@dataclass(frozen=True)
class StructField:
    """A field: the kernel's parameter that has it, its name, and its number in the struct."""

    parameter: str
    name: str
    place: int


def sizes(steps: Sequence[Prototype], members: Members) -> dict[str, StructField]:
    """The whole fields that bodies compare or index with, by name; none whose name has another meaning."""
    found, names = dict[str, StructField](), Counter[str]()
    bodies = " ".join(word for step in steps for word in step.body)
    taken = {p.name for step in steps for p in step.parameters or ()} | {*arithmetic.FUNCTIONS, *DEVICE_NAMES}
    for parameter in {p.name: p for step in steps for p in step.parameters or ()}.values():
        is_struct = not parameter.is_pointer and parameter.dtype is None and not parameter.kind
        for place, member in enumerate((members(parameter.type) or ()) if is_struct else ()):
            dtype = DTYPES.get(member.parameter.dtype or "")
            is_whole = dtype is not None and dtype.kind == "integer" and member.parameter.width == 1
            if is_whole and not member.parameter.is_pointer and not member.extents:
                found[member.name] = StructField(parameter.name, member.name, place)
            names[member.name] += 1
    own = set(re.findall(r"(?<!\. )\b[A-Za-z_]\w*", bodies))
    return {
        name: field
        for name, field in found.items()
        if names[name] == 1 and name not in taken | own and not keyword.iskeyword(name) and _is_read(field, bodies)
    }


def _is_read(field: StructField, body: str) -> bool:
    """Whether a field is in an index, or something is compared with it."""
    whole = rf"\b{field.parameter} \. {field.name}\b"
    return re.search(rf"[<>] (?:= )?\(*[^;&|]*{whole}|{whole} [<>]|\[[^\[\]]*{whole}", body) is not None


def plain(step: Prototype, fields: Mapping[str, StructField]) -> Prototype:
    """A kernel whose body has the names of these fields in the place of `p.n`."""
    body, at, found = step.body, 0, list[str]()
    pairs = {(field.parameter, ".", field.name) for field in fields.values()}
    while at < len(body):
        is_field = body[at : at + 3] in pairs and body[at - 1 : at] != (".",)
        found.append(body[at + 2] if is_field else body[at])
        at += 3 if is_field else 1
    return replace(step, body=tuple(found))
