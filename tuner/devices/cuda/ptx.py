"""Reads the interface of kernels from PTX: parameter sizes, constant-memory variables, and dynamic shared memory; and
their figures from the verbose output of its assembler, ptxas."""

import math
import re
from collections.abc import Mapping

from tuner.devices.builds.figures import Figures
from tuner.devices.builds.interface import Interface

_ENTRY = re.compile(r"\.entry\s+([\w$.]+)\s*(?:\(([^)]*)\))?")
_CLUSTER = re.compile(_ENTRY.pattern + r"[^{]*?\.reqnctapercluster\s+([\d, ]+)")
_FUNCTION = re.compile(r"\.func\b[^;{]*?([\w$.]+)\s*\(")
_DATA = re.compile(r"\.[a-z]+(\d+)(?:x(\d+))?\s[^,]*?(?:\[(\d+)\])?\s*$", re.DOTALL)
_CONSTANT = re.compile(r"\.const\s+(?:\.align\s+\d+\s+)?\.[a-z]+(\d+)\s+([\w$.]+)\s*((?:\[\d+\])*)\s*[;=]")
_TABLE = re.compile(r"\.(?:global|const)\b[^;={]*?([\w$.]+)\s*(?:\[\d*\])*\s*=\s*([^;]*);")
_PROPERTIES = re.compile(r"Function properties for (\S+)\n[^\n]*?(\d+) bytes spill stores, (\d+) bytes spill loads")
_DYNAMIC = re.compile(r"\.extern\s+\.shared\s[^;]*?([\w$.]+)\s*\[\s*\]\s*;")


def interface(ptx: str, entries: Mapping[str, str]) -> Interface:
    """The interface of the kernels in `ptx`. `entries` maps a kernel's name in the source to its name in the PTX."""
    bodies = _bodies(ptx)
    parameters = {
        name: tuple(map(_bytes, filter(str.strip, (declared or "").split(","))))
        for name, declared in _ENTRY.findall(ptx)
    }
    dynamic = set(_DYNAMIC.findall(ptx))
    clusters = {name: tuple(map(int, extents.split(","))) for name, _, extents in _CLUSTER.findall(ptx)}
    return Interface(
        {kernel: parameters[name] for kernel, name in entries.items() if name in parameters},
        {name: int(bits) // 8 * _elements(extents) for bits, name, extents in _CONSTANT.findall(ptx)},
        tuple(kernel for kernel, name in entries.items() if dynamic and _names(bodies, name) & dynamic),
        {kernel: clusters[name] for kernel, name in entries.items() if name in clusters},
    )


def called(ptx: str, entry: str) -> set[str]:
    """The functions of `ptx` that the kernel `entry` may call, and the kernel itself; also by pointers in tables."""
    bodies = _bodies(ptx)
    return {entry} | (_names({**dict(_TABLE.findall(ptx)), **bodies}, entry) & bodies.keys())


def figures(log: str, kernel: str, assembly: str) -> Figures:
    """The figures of `kernel` from ptxas's verbose output, which also lists functions that are not inlined.

    The spills of the functions that the kernel calls are added to its own. Its registers and stack already include
    theirs. `assembly` is the PTX, which shows the called functions; without it, all functions in the output count.
    """
    section = log.partition(f"Compiling entry function '{kernel}'")[2].partition("Compiling entry function")[0]
    registers = re.search(r"Used (\d+) registers", section)
    shared = re.search(r"(\d+) bytes smem", section)
    stack = re.search(r"(\d+) bytes cumulative stack size", section) or re.search(r"(\d+) bytes stack frame", section)
    spills = {name: int(stored) + int(loaded) for name, stored, loaded in _PROPERTIES.findall(log)}
    entries = set(re.findall(r"Compiling entry function '([^']+)'", log))
    counted = called(assembly, kernel) if assembly else {kernel, *(spills.keys() - entries)}
    return Figures(
        registers=int(registers[1]) if registers else None,
        spills=sum(spills[name] for name in counted & spills.keys()) if kernel in spills else None,
        shared_memory=int(shared[1]) if shared else 0 if registers else None,
        local_memory=int(stack[1]) if stack else None,
    )


def _bodies(ptx: str) -> dict[str, str]:
    """The text of each kernel and function, by its name in `ptx`."""
    bodies = dict[str, str]()
    for part in re.split(r"^(?=[^\n;]*\.(?:entry|func)\b)", ptx, flags=re.MULTILINE)[1:]:
        if found := _ENTRY.search(part.partition("{")[0]) or _FUNCTION.search(part):
            bodies[found[1]] = _body(part)
    return bodies


def _body(function: str) -> str:
    """The text between a function's braces. The closing brace is at the beginning of a line."""
    return function.partition("{")[2].partition("\n}")[0]


def _bytes(parameter: str) -> int:
    """The size of a parameter in bytes: 16 for `.param .align 8 .b8 name[16]`."""
    data = _DATA.search(parameter)
    return int(data[1]) // 8 * int(data[3] or 1) if data else 0


def _elements(extents: str) -> int:
    return math.prod(map(int, re.findall(r"\d+", extents)))


def _names(bodies: Mapping[str, str], first: str) -> set[str]:
    """The names in the body of the function `first`, and in the bodies of all functions that it calls."""
    names, pending = set[str](), [first]
    while pending:
        new = set(re.findall(r"[\w$.]+", bodies.get(pending.pop(), ""))) - names
        names |= new
        pending += [name for name in new if name in bodies]
    return names
