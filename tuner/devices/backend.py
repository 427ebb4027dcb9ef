"""A backend: what the rest of the package knows of a kind of device before one is opened."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tuner.space.model import Limits

if TYPE_CHECKING:
    from tuner.devices.base import Device
    from tuner.devices.compiler import Compiler

_ANY = 2**31 - 1


def unknown_limits(architecture: str) -> Limits:
    """The limits of a device that is not here and of whose architecture nothing is known."""
    return Limits()


def widest_processor(architecture: str) -> Limits:
    """Limits that no OpenCL device or processor exceeds: Intel's CPUs run 8192 work-items per group, and local memory
    may be plain memory."""
    return Limits(max_threads=8192, max_shared_memory=1 << 30, max_block=(_ANY,) * 3, max_grid=(_ANY,) * 3)


@dataclass(frozen=True)
class Backend:
    """A kind of device. Its functions import what drives it only when they are called.

    kind: how its devices are named, as in `cuda:0`.
    language: the name of the language that it compiles.
    count: how many of its devices this machine has; asked only where `package` is installed.
    open: the device with a number, ready for use. Raises DeviceError.
    compiler: what builds for an architecture without a device, or raises DeviceError; None where only an open device
        compiles.
    needs: what a machine without such a device lacks, for people.
    package: what drives it, as pip calls it.
    remedy: what to do where there is none of its devices and `package` is not at fault.
    limits_of: what is known of the limits of an architecture whose device is not here.
    widest: limits that no device of an architecture exceeds: what is not valid there is valid nowhere.
    runs_device_check: whether a kernel of ours compares outputs where they lie; else the host reads and compares them.
    may_be_processor: whether a device of this kind may be the processor that compiles, too.
    follows_context: whether it is opened anew for every caller, in the context that is current just then.
    toolchain: how the names of its toolchains begin, where they all begin alike.
    binaries: the suffix of its binaries, where they run on every device of their architecture; else None.
    """

    kind: str
    language: str
    count: Callable[[], int]
    open: Callable[[int], Device]
    compiler: Callable[[str], Compiler] | None
    needs: str
    package: str | None = None
    remedy: str | None = None
    limits_of: Callable[[str], Limits] = unknown_limits
    widest: Callable[[str], Limits] = widest_processor
    runs_device_check: bool = True
    may_be_processor: bool = False
    follows_context: bool = False
    toolchain: str | None = None
    binaries: str | None = None

    @property
    def is_installed(self) -> bool:
        """Whether the package that drives it is there."""
        return self.package is None or importlib.util.find_spec(self.package) is not None
