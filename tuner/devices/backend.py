"""Describes a backend, that is, one kind of device, without opening a device."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from tuner.classes import dataclass
from tuner.space.scope import Limits

if TYPE_CHECKING:
    from tuner.devices.base import Device
    from tuner.devices.builds.compiler import Compiler
    from tuner.space.model import Space

UNLIMITED = 2**31 - 1


def unknown_limits(architecture: str) -> Limits:
    """Default limits, for an absent device whose architecture implies none."""
    return Limits()


def widest_processor(architecture: str) -> Limits:
    """Limits that no OpenCL device or CPU exceeds: Intel's CPUs run 8192 work-items per group, and their local memory
    is main memory."""
    return Limits(max_threads=8192, max_shared_memory=1 << 30, max_block=(UNLIMITED,) * 3, max_grid=(UNLIMITED,) * 3)


def deferred(module: str, function: str) -> Callable[..., Any]:
    """A function that imports `module` when it is called, then calls the module's `function`."""
    return lambda *arguments: getattr(importlib.import_module(module), function)(*arguments)


@dataclass(frozen=True)
class Backend:
    """A kind of device. Its functions import the kind's software only when they are called (see `deferred`).

    kind: the word before the number in its devices' names, as in `cuda:0`.
    language: the name of the language that it compiles.
    count: the number of its devices on this machine. Called only if one of `modules` is installed. Raises DeviceError
        if an environment variable selects missing software.
    open: opens the device with a number. Raises DeviceError.
    start_apart: has the threads of a processor's devices run each on a processor of its own where that is possible. Has
        an effect only before a device is opened in this process.
    compiler: the compiler for an architecture, without a device; raises DeviceError if it is missing. None if compiling
        needs an open device.
    needs: the software that its devices need, as text for messages.
    package: pip name of the Python package to install for it.
    modules: Python modules, any one of which drives it; empty if it needs none.
    load_library: loads the vendor library, which is slow, ahead of its first use.
    remedy: what to do if there is no device although `package` is installed.
    lacks: returns what, other than a package, this machine lacks for such devices; None if it lacks nothing.
    limits_of: the limits of an architecture, as far as they are known without a device.
    widest: limits that no device of an architecture exceeds. A configuration that exceeds them is valid nowhere.
    may_be_processor: whether a device of this kind may be the CPU that also runs the compilers.
    follows_context: whether each caller opens the device anew, in the context that is current at that time.
    surrounding: returns a digest of the headers and libraries that a space uses from folders of the user's, on which
        its studies depend; empty if it uses none, or if unknown.
    compiler_modules: returns the modules of the compiler that a space chooses which may be imported before a fork, so
        that a fork compiles at once.
    toolchains: the prefixes of its toolchains' names.
    common: the architectures to compile for if no device is present.
    binaries: the suffix of its binaries if they run on every device of their architecture, else None.
    """

    kind: str
    language: str
    count: Callable[[], int]
    open: Callable[[int], Device]
    compiler: Callable[[str], Compiler] | None
    needs: str
    start_apart: Callable[[], None] = lambda: None
    package: str | None = None
    modules: tuple[str, ...] = ()
    load_library: Callable[[], object] = lambda: None
    remedy: str | None = None
    lacks: Callable[[], str | None] = lambda: None
    limits_of: Callable[[str], Limits] = unknown_limits
    widest: Callable[[str], Limits] = widest_processor
    may_be_processor: bool = False
    follows_context: bool = False
    surrounding: Callable[[Space], str] = lambda space: ""
    compiler_modules: Callable[[Space], Sequence[str]] = lambda space: ()
    toolchains: tuple[str, ...] = ()
    common: tuple[str, ...] = ("",)
    binaries: str | None = None

    @property
    def is_installed(self) -> bool:
        """Whether a package that drives this kind is installed."""
        return not self.modules or any(map(_is_module, self.modules))


def _is_module(name: str) -> bool:
    """Whether a module can be found; it is not imported."""
    try:
        return importlib.util.find_spec(name) is not None
    except ImportError:  # its parent package is missing
        return False
