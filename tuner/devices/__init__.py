"""Devices: where kernels are built, loaded, launched and timed.

    cuda     an NVIDIA GPU; NVRTC compiles, the driver does the rest
    opencl   any OpenCL device, a CPU through PoCL included; pyopencl
    host     this machine's processor; a C compiler and OpenMP

A device is named `cuda`, `opencl:1`, `host`; without a number it is the first of its kind.
"""

from __future__ import annotations

import importlib.util
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tuner.devices.base import Buffer, Device, Function, Library, Timer
from tuner.devices.compiler import Build, Compiler
from tuner.errors import DeviceError

if TYPE_CHECKING:
    from tuner.space.model import Space

__all__ = [
    "KINDS",
    "LANGUAGES",
    "Buffer",
    "Build",
    "Compiler",
    "Device",
    "Function",
    "Library",
    "Timer",
    "available",
    "for_space",
    "open",
    "shared",
]

LANGUAGES = {"cuda": "cuda", "opencl": "opencl", "host": "c"}
KINDS = tuple(LANGUAGES)
_EXTRA = {"cuda": "pycuda", "opencl": "pyopencl"}


def split(name: str) -> tuple[str, int]:
    """Kind and number of a device's name. Raises DeviceError for anything else."""
    kind, colon, number = name.partition(":")
    if kind not in KINDS or (colon and not (number.isdecimal() and len(number) < 5)):
        raise DeviceError(f"device {name!r}: there is no such device; write {', '.join(KINDS)}, or one with :N")
    return kind, int(number or 0)


def open(name: str) -> Device:
    """The device called `name`, ready for use. Raises DeviceError where it, or what drives it, is missing."""
    kind, number = split(name)
    if kind in _EXTRA and importlib.util.find_spec(_EXTRA[kind]) is None:
        raise DeviceError(f"device {name!r}: {_EXTRA[kind]} is not installed; pip install {_EXTRA[kind]}")
    if kind == "cuda":
        from tuner.devices.cuda.device import CudaDevice

        return CudaDevice(number)
    if kind == "opencl":
        from tuner.devices.opencl.device import OpenCLDevice

        return OpenCLDevice(number)
    from tuner.devices.host import HostDevice

    return HostDevice(number)


def shared(name: str) -> Device:
    """The device called `name`, for kernels that are to share arrays: on all but cuda, whose context is the one that is
    current, it is opened once. Raises DeviceError."""
    if split(name)[0] == "cuda":
        return open(name)
    with _opening:
        if name not in _opened:
            _opened[name] = open(name)
        return _opened[name]


_opened: dict[str, Device] = {}
_opening = threading.Lock()


def compiler(kind: str, architecture: str) -> Compiler:
    """What builds for another process's device without opening one. Raises DeviceError for a kind that cannot."""
    if kind == "cuda":
        from tuner.devices.cuda.compiler import NvrtcCompiler

        return NvrtcCompiler(architecture)
    if kind == "host":
        from tuner.devices.host import HostCompiler

        return HostCompiler.found()
    raise DeviceError(f"{kind} compiles only where its device is open")


def count(kind: str) -> int:
    """How many devices of a kind this machine has; 0 where what drives them is missing."""
    if kind in _EXTRA and importlib.util.find_spec(_EXTRA[kind]) is None:
        return 0
    if kind == "cuda":
        from tuner.devices.cuda import device

        return device.count()
    if kind == "opencl":
        from tuner.devices.opencl import device as opencl_device

        return opencl_device.count()
    from tuner.devices import host

    return host.count()


def available() -> list[str]:
    """The names of all devices of this machine."""
    return [f"{kind}:{number}" for kind in KINDS for number in range(count(kind))]


def for_space(space: Space, name: str | None) -> str:
    """The device to use for `space`: `name` if given, else the first there is that speaks one of its languages."""
    kinds = [kind for kind in KINDS if LANGUAGES[kind] in space.languages]
    if name is None:
        name = next((f"{kind}:0" for kind in kinds if count(kind)), None)
        if name is None:
            missing = [_EXTRA[kind] for kind in kinds if importlib.util.find_spec(_EXTRA.get(kind, "sys")) is None]
            hint = f"pip install {' '.join(missing)}, or " if missing else ""
            hint = "install a C compiler, or name one by CC, or " if "host" in kinds else hint
            raise DeviceError(
                f"{space.name} runs on {' or '.join(kinds)}, which this machine does not have; {hint}see `tune devices`"
            )
    kind, number = split(name)
    if kind not in kinds:
        raise DeviceError(
            f"{space.name} is written in {_and(space.languages)}: it runs on {_and(kinds)}, not on {kind}"
        )
    return f"{kind}:{number}"


def several(space: Space, names: str | None) -> list[str]:
    """The devices to use for `space`: one or more names with commas between, or `all` of the first kind that there is.
    Raises DeviceError."""
    if names == "all":
        kind = for_space(space, None).partition(":")[0]
        return [f"{kind}:{number}" for number in range(count(kind))]
    if names is None:
        return [for_space(space, None)]
    found = [for_space(space, name.strip()) for name in names.split(",")]
    twice = next((name for name in found if found.count(name) > 1), None)
    if twice:
        raise DeviceError(f"device {names!r}: {twice} is there twice")
    kinds = {name.partition(":")[0] for name in found}
    if len(kinds) > 1:
        raise DeviceError(f"device {names!r}: {_and(sorted(kinds))} do not share a study; tune on each by itself")
    return found


def _and(words: Sequence[str]) -> str:
    return " and ".join(words)
