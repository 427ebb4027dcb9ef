"""A backend: a kind of device, as the package knows it before a device is opened."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tuner.space.scope import Limits

if TYPE_CHECKING:
    from tuner.devices.base import Device
    from tuner.devices.compiler import Compiler

UNLIMITED = 2**31 - 1


def unknown_limits(architecture: str) -> Limits:
    """Default limits, for a device that is not here and whose architecture tells nothing."""
    return Limits()


def widest_processor(architecture: str) -> Limits:
    """Limits that no OpenCL device or processor exceeds: Intel's CPUs run 8192 work-items per group, and local memory
    may be plain memory."""
    return Limits(max_threads=8192, max_shared_memory=1 << 30, max_block=(UNLIMITED,) * 3, max_grid=(UNLIMITED,) * 3)


def deferred(module: str, function: str) -> Callable[..., Any]:
    """A function of a module that is imported only when the function is called."""
    return lambda *arguments: getattr(importlib.import_module(module), function)(*arguments)


@dataclass(frozen=True)
class Backend:
    """A kind of device. Its functions import the kind's software only when they are called: see `deferred`.

    kind: the word before the number in its devices' names, as in `cuda:0`.
    language: the name of the language that it compiles.
    count: how many of its devices this machine has. Called only if one of `modules` is installed. Raises DeviceError
        if the environment asks for what is missing.
    open: opens the device with a number. Raises DeviceError.
    compiler: the compiler for an architecture, without a device; raises DeviceError if it is missing. None if only an
        open device compiles.
    needs: the software that its devices need, for people.
    package: the Python package to install for it, by pip's name.
    modules: the modules of Python packages any one of which drives it; none if it needs none.
    library_modules: the modules through which its vendor's routines are called; they take long to import.
    remedy: what to do if there is no device although `package` is installed.
    lacks: says what else than a package keeps the machine from having such devices; None where nothing does.
    limits_of: the limits of an architecture, as far as they are known without a device.
    widest: limits that no device of an architecture exceeds. A configuration that breaks them is valid nowhere.
    may_be_processor: whether a device of this kind may be the processor that compiles, too.
    follows_context: whether each caller opens it anew, in the context that is current at that time.
    toolchain: the common beginning of its toolchains' names, or None.
    common: architectures that are compiled for where there is no device.
    binaries: the suffix of its binaries if they run on every device of their architecture, else None.
    """

    kind: str
    language: str
    count: Callable[[], int]
    open: Callable[[int], Device]
    compiler: Callable[[str], Compiler] | None
    needs: str
    package: str | None = None
    modules: tuple[str, ...] = ()
    library_modules: tuple[str, ...] = ()
    remedy: str | None = None
    lacks: Callable[[], str | None] = lambda: None
    limits_of: Callable[[str], Limits] = unknown_limits
    widest: Callable[[str], Limits] = widest_processor
    may_be_processor: bool = False
    follows_context: bool = False
    toolchain: str | None = None
    common: tuple[str, ...] = ("",)
    binaries: str | None = None

    @property
    def is_installed(self) -> bool:
        """Whether a package that drives it is installed."""
        return not self.modules or any(map(_is_module, self.modules))


def _is_module(name: str) -> bool:
    """Whether a module could be imported, as far as can be told without importing it."""
    try:
        return importlib.util.find_spec(name) is not None
    except ImportError:  # a package that it would lie in is missing
        return False
