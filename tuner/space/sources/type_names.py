"""Other names for types in a source: those that `typedef`, `using`, a macro or a library of CUDA gives."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from tuner.space.sources.prototype import Parameter

MOST_ALIASES = 10  # of a type
_ALIAS = re.compile(r"\btypedef\s+([\w \t]+?)\s+(\w+)\s*;|\busing\s+(\w+)\s*=\s*([\w \t]+?)\s*;")
_OF_LIBRARIES = {
    "cuComplex": "float2", "cuFloatComplex": "float2", "cuDoubleComplex": "double2",
    "cufftComplex": "float2", "cufftDoubleComplex": "double2", "cufftReal": "float", "cufftDoubleReal": "double",
    "dim3": "uint3",
}  # fmt: skip
_TYPE_MACRO = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)[ \t]+([A-Za-z][\w \t]*?)[ \t]*$", re.MULTILINE)


def aliases(code: str) -> dict[str, str]:
    """The types for which `code` or a library of CUDA has other names, as in `typedef float real;`."""
    several = _several(code)
    return {**_OF_LIBRARIES, **{name: kind for name, kind in _aliases(code) if name not in several}}


def has_several(code: str) -> bool:
    """Whether `code` has several types for a name, of which conditions choose one."""
    return bool(_several(code))


def _several(code: str) -> set[str]:
    names = [name for name, _ in {(name, " ".join(kind.split())) for name, kind in _aliases(code)}]
    return {name for name in names if names.count(name) > 1}


def _aliases(code: str) -> Iterator[tuple[str, str]]:
    yield from _TYPE_MACRO.findall(code)
    yield from ((alias or name, kind or text) for kind, alias, name, text in _ALIAS.findall(code))


def resolved(kind: str, types: Mapping[str, str]) -> str:
    """The type for which `kind` is another name, if it is a built-in one; else `kind`."""
    name, depth = kind, 0
    while name in types and depth < MOST_ALIASES:
        name, depth = " ".join(types[name].split()), depth + 1
    return name if Parameter("", name, False, False).dtype else kind
