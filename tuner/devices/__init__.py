"""Devices: where kernels are built, loaded, launched and timed.

    cuda     an NVIDIA GPU; NVRTC compiles, the driver does the rest
    opencl   any OpenCL device, a CPU through PoCL included; pyopencl
    host     this machine's processor; a C compiler and OpenMP

A device is named `cuda`, `opencl:1`, `host`; without a number it is the first of its kind.
"""

from __future__ import annotations

import importlib
import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from tuner.devices.backend import Backend
from tuner.devices.base import Buffer, Device, DeviceInfo, Function, Library, Timer
from tuner.devices.compiler import Build, Compiler
from tuner.errors import DeviceError

if TYPE_CHECKING:
    from tuner.space.model import Space

__all__ = [
    "BACKENDS",
    "KINDS",
    "Backend",
    "Buffer",
    "Build",
    "Compiler",
    "Device",
    "DeviceInfo",
    "Function",
    "Library",
    "Timer",
    "available",
    "compiler",
    "count",
    "for_space",
    "is_name",
    "kinds_of",
    "open_device",
    "several",
    "shared",
    "split",
]

# The backends: a folder here each, whose package has a BACKEND. The first that a kernel can run on is taken.
KINDS = (
    "cuda",
    "opencl",
    "host",
)
BACKENDS: Mapping[str, Backend] = {kind: importlib.import_module(f"tuner.devices.{kind}").BACKEND for kind in KINDS}


def is_name(text: str) -> bool:
    """Whether `text` begins as the name of a device of this machine does, and not as one that a store may know."""
    return text.partition(":")[0] in BACKENDS


def split(name: str) -> tuple[str, int]:
    """Kind and number of a device's name. Raises DeviceError for anything else."""
    kind, colon, number = name.partition(":")
    if kind not in BACKENDS or (colon and not (number.isdecimal() and len(number) < 5)):
        raise DeviceError(f"device {name!r}: there is no such device; write {', '.join(KINDS)}, or one with :N")
    return kind, int(number or 0)


def open_device(name: str) -> Device:
    """The device called `name`, ready for use. Raises DeviceError where it, or what drives it, is missing."""
    kind, number = split(name)
    backend = BACKENDS[kind]
    if not backend.is_installed:
        raise DeviceError(f"device {name!r}: {backend.package} is not installed; pip install {backend.package}")
    return backend.open(number)


def shared(name: str) -> Device:
    """The device called `name`, for kernels that are to share arrays: opened once, unless it follows the context that
    is current. Raises DeviceError."""
    if BACKENDS[split(name)[0]].follows_context:
        return open_device(name)
    with _opening:
        if name not in _opened:
            _opened[name] = open_device(name)
        return _opened[name]


_opened: dict[str, Device] = {}
_opening = threading.Lock()


def compiler(kind: str, architecture: str) -> Compiler:
    """What builds for another process's device without opening one. Raises DeviceError for a kind that cannot."""
    make = BACKENDS[kind].compiler
    if make is None:
        raise DeviceError(f"{kind} compiles only where its device is open")
    return make(architecture)


def count(kind: str) -> int:
    """How many devices of a kind this machine has; 0 where what drives them is missing."""
    return BACKENDS[kind].count() if BACKENDS[kind].is_installed else 0


def available() -> list[str]:
    """The names of all devices of this machine."""
    return [f"{kind}:{number}" for kind in KINDS for number in range(count(kind))]


def kinds_of(space: Space) -> list[str]:
    """The kinds of device that speak one of the languages of `space`."""
    return [kind for kind, backend in BACKENDS.items() if backend.language in space.languages]


def for_space(space: Space, name: str | None) -> str:
    """The device to use for `space`: `name` if given, else the first there is that speaks one of its languages."""
    kinds = kinds_of(space)
    if name is None:
        name = next((f"{kind}:0" for kind in kinds if count(kind)), None)
        if name is None:
            raise DeviceError(
                f"{space.name} runs on {' or '.join(kinds)}, which this machine does not have; {_remedy(kinds)}see "
                "`tune devices`"
            )
    kind, number = split(name)
    if kind not in kinds:
        raise DeviceError(
            f"{space.name} is written in {_and(space.languages)}: it runs on {_and(kinds)}, not on {kind}"
        )
    return f"{kind}:{number}"


def _remedy(kinds: Sequence[str]) -> str:
    """What to do where this machine has no device of these kinds, as the beginning of a list."""
    backends = [BACKENDS[kind] for kind in kinds]
    missing = [str(backend.package) for backend in backends if not backend.is_installed]
    remedies = [backend.remedy for backend in backends if backend.remedy]
    return "".join(f"{what}, or " for what in remedies or ([f"pip install {' '.join(missing)}"] if missing else []))


def several(space: Space, names: str | None) -> list[str]:
    """The devices to use for `space`: one or more names with commas between, or `all` of the first kind that there is.
    Raises DeviceError."""
    if names == "all":
        kind, _ = split(for_space(space, None))
        return [f"{kind}:{number}" for number in range(count(kind))]
    if names is None:
        return [for_space(space, None)]
    chosen = [for_space(space, name.strip()) for name in names.split(",")]
    twice = next((name for name in chosen if chosen.count(name) > 1), None)
    if twice:
        raise DeviceError(f"device {names!r}: {twice} is there twice")
    kinds = {split(name)[0] for name in chosen}
    if len(kinds) > 1:
        raise DeviceError(f"device {names!r}: {_and(sorted(kinds))} do not share a study; tune on each by itself")
    return chosen


def _and(words: Sequence[str]) -> str:
    return " and ".join(words)
