"""A program of several files: which of them have device code that the kernels need, and a file that includes these."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

from tuner.drafting.knobs import singly
from tuner.errors import RequestError, SpaceError
from tuner.quoting import shown
from tuner.space.sources import device_code, includes
from tuner.space.sources.prototype import prototypes
from tuner.space.sources.tokens import definitions, words

_OF_DEVICES = {"__global__", "__device__", "__kernel", "kernel"}
_OF_OPENCL = {".cl", ".clh", ".ocl", ".opencl"}
_MACRO_OR_TYPE = re.compile(
    r"^[ \t]*#[ \t]*define[ \t]+(\w+)|\btypedef\b[^;{}]*\b(\w+)\s*;|\}\s*(\w+)\s*;"
    r"|\b(?:struct|union|enum)\s+(\w+)\s*\{",
    re.MULTILINE,
)


def including(source: Path, others: Sequence[Path], entry: str | None, output: Path) -> tuple[Path, str]:
    """The file to write beside `output` that includes `source` and those of `others` whose device code the kernels
    `entry` need, with its text; `source` and an empty text if they need none.

    Raises RequestError if a file cannot be read.
    """
    if not others:
        return source, ""
    code = _device_code(source)
    own = {name for _, name, *_ in definitions(words(code))} | _declared(source, code)
    kernels = {prototype.name for prototype in prototypes(code)}
    needed = (_read(source, code) | {*(entry or "").split(",")}) - own - kernels
    used = list[Path]()
    left = {other: _defined(other) for other in others if not _includes(code, other)}
    while found := [other for other, defined in left.items() if defined & needed]:
        used += found
        for other in found:
            needed |= _read(other, _device_code(other)) - own
            del left[other]
    if not used:
        return source, ""
    whole = output.with_name(f"{output.stem}_files{source.suffix}")
    lines = [os.path.relpath(file.resolve(), whole.resolve().parent) for file in (*_ordered(used), source)]
    about = "// The files of one program, with the kernels and the functions that they call.\n"
    return whole, about + "".join(f'#include "{line}"\n' for line in lines)


def _ordered(files: Sequence[Path]) -> list[Path]:
    """The files, each after those that define what it reads, as far as they do not need each other."""
    defined, left, found = {file: _defined(file) for file in files}, [*reversed(files)], list[Path]()
    read = {file: _read(file, _device_code(file)) - defined[file] for file in files}
    while left:
        free = (file for file in left if not any(defined[other] & read[file] for other in left if other != file))
        found.append(next(free, left[0]))
        left.remove(found[-1])
    return found


def _device_code(file: Path) -> str:
    try:
        text = includes.text_of(file)
    except OSError as error:
        raise RequestError(f"{shown(file)}: cannot be read: {error.strerror}; name a file of the program") from None
    if file.suffix in _OF_OPENCL:
        return singly.declared(text)
    try:
        return singly.declared(device_code.of(text, ()))
    except SpaceError:
        return ""


def _defined(file: Path) -> set[str]:
    """The kernels and device functions that a file defines, and in OpenCL also its macros and types."""
    code = _device_code(file)
    found = definitions(words(code))
    functions = {name for prefix, name, *_ in found if file.suffix in _OF_OPENCL or not _OF_DEVICES.isdisjoint(prefix)}
    return functions | _declared(file, code)


def _declared(file: Path, code: str) -> set[str]:
    """The macros and types of a file in OpenCL, whose host may join it to others; of another file none, because that
    includes its headers."""
    return (
        {name for pair in _MACRO_OR_TYPE.findall(code) for name in pair if name} if file.suffix in _OF_OPENCL else set()
    )


def _read(file: Path, code: str) -> set[str]:
    """The names of the functions that a file calls, and in OpenCL all its names."""
    return {*re.findall(r"\b[A-Za-z_]\w*" if file.suffix in _OF_OPENCL else r"\b(\w+)\s*\(", code)}


def _includes(code: str, other: Path) -> bool:
    """Whether a text includes a file of this name itself."""
    return (
        re.search(rf'^[ \t]*#[ \t]*include[ \t]*["<](?:[^">\n]*/)?{re.escape(other.name)}[">]', code, re.MULTILINE)
        is not None
    )
