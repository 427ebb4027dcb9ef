"""A program of several files: which of them have device code that the kernels need, and a file that includes these."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

from tuner.errors import RequestError, SpaceError
from tuner.quoting import shown
from tuner.space.sources import device_code, includes
from tuner.space.sources.prototype import prototypes
from tuner.space.sources.tokens import definitions, words

_OF_DEVICES = {"__global__", "__device__", "__kernel", "kernel"}
_OF_OPENCL = {".cl", ".clh", ".ocl", ".opencl"}


def including(source: Path, others: Sequence[Path], entry: str | None, output: Path) -> tuple[Path, str]:
    """The file to write beside `output` that includes `source` and those of `others` whose device code the kernels
    `entry` need, with its text; `source` and an empty text if they need none.

    Raises RequestError if a file cannot be read.
    """
    if not others:
        return source, ""
    code = _device_code(source)
    own = {name for _, name, *_ in definitions(words(code))}
    kernels = {prototype.name for prototype in prototypes(code)}
    needed = ({*re.findall(r"\b(\w+)\s*\(", code)} | {*(entry or "").split(",")}) - own - kernels
    used = list[Path]()
    left = {other: _defined(other) for other in others}
    while found := [other for other, defined in left.items() if defined & needed]:
        used += found
        for other in found:
            needed |= {*re.findall(r"\b(\w+)\s*\(", _device_code(other))} - own
            del left[other]
    if not used:
        return source, ""
    whole = output.with_name(f"{output.stem}_files{source.suffix}")
    lines = [os.path.relpath(file.resolve(), whole.resolve().parent) for file in (*reversed(used), source)]
    about = "// The files of one program, with the kernels and the functions that they call.\n"
    return whole, about + "".join(f'#include "{line}"\n' for line in lines)


def _device_code(file: Path) -> str:
    try:
        text = includes.text_of(file)
    except OSError as error:
        raise RequestError(f"{shown(file)}: cannot be read: {error.strerror}; name a file of the program") from None
    if file.suffix in _OF_OPENCL:
        return includes.without_comments(text)
    try:
        return includes.without_comments(device_code.of(text, ()))
    except SpaceError:
        return ""


def _defined(file: Path) -> set[str]:
    """The kernels and device functions that a file defines."""
    found = definitions(words(_device_code(file)))
    return {name for prefix, name, *_ in found if file.suffix in _OF_OPENCL or not _OF_DEVICES.isdisjoint(prefix)}
