"""What PTX tells of the kernels in it: the sizes of their parameters, and the memory that the host provides."""

import math
import re
from collections.abc import Mapping

from tuner.devices.interface import Interface

_ENTRY = re.compile(r"\.entry\s+([\w$.]+)\s*(?:\(([^)]*)\))?")
_FUNCTION = re.compile(r"\.func\b[^;{]*?([\w$.]+)\s*\(")
_DATA = re.compile(r"\.[a-z]+(\d+)(?:x(\d+))?\s[^,]*?(?:\[(\d+)\])?\s*$", re.DOTALL)
_CONSTANT = re.compile(r"\.const\s+(?:\.align\s+\d+\s+)?\.[a-z]+(\d+)\s+([\w$.]+)\s*((?:\[\d+\])*)\s*[;=]")
_DYNAMIC = re.compile(r"\.extern\s+\.shared\s[^;]*?([\w$.]+)\s*\[\s*\]\s*;")


def interface(ptx: str, entries: Mapping[str, str]) -> Interface:
    """The interface of the kernels that have these names in `ptx`, by their names in the source."""
    bodies = dict[str, str]()
    parameters = dict[str, tuple[int, ...]]()
    for part in re.split(r"^(?=[^\n;]*\.(?:entry|func)\b)", ptx, flags=re.MULTILINE)[1:]:
        if entry := _ENTRY.search(part.partition("{")[0]):
            parameters[entry[1]] = tuple(map(_bytes, filter(str.strip, (entry[2] or "").split(","))))
            bodies[entry[1]] = _body(part)
        elif function := _FUNCTION.search(part):
            bodies[function[1]] = _body(part)
    dynamic = set(_DYNAMIC.findall(ptx))
    return Interface(
        {kernel: parameters[name] for kernel, name in entries.items() if name in parameters},
        {name: int(bits) // 8 * _elements(extents) for bits, name, extents in _CONSTANT.findall(ptx)},
        tuple(kernel for kernel, name in entries.items() if dynamic and _names(bodies, name) & dynamic),
    )


def _body(function: str) -> str:
    """What stands in its braces, of which the last stands alone at the beginning of a line."""
    return function.partition("{")[2].partition("\n}")[0]


def _bytes(parameter: str) -> int:
    """Of `.param .align 8 .b8 name[16]`, 16."""
    data = _DATA.search(parameter)
    return int(data[1]) // 8 * int(data[3] or 1) if data else 0


def _elements(extents: str) -> int:
    return math.prod(map(int, re.findall(r"\d+", extents)))


def _names(bodies: Mapping[str, str], first: str) -> set[str]:
    """The names in a body, and in those of the functions that it calls."""
    found, waiting = set[str](), [first]
    while waiting:
        new = set(re.findall(r"[\w$.]+", bodies.get(waiting.pop(), ""))) - found
        found |= new
        waiting += [name for name in new if name in bodies]
    return found
