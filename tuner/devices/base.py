"""What every kind of device can do."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from tuner.devices import builds
from tuner.errors import ArgumentError
from tuner.source import Source
from tuner.space import Argument, Geometry, Limits

Array = np.ndarray[Any, np.dtype[Any]]
GUARD = 1 << 20  # bytes on each side of a guarded buffer; a multiple of every alignment that a device asks for


class Timer(Protocol):
    """Times what is enqueued between its two calls."""

    def start(self) -> None: ...

    def stop(self) -> None: ...

    def finished(self) -> bool:
        """Whether the device has passed `stop`. Raises LaunchError where it has failed on the way."""
        ...

    def milliseconds(self) -> float:
        """Time from start to stop, in ms, on the device's clock."""
        ...


@dataclass(frozen=True)
class Function:
    """A loaded kernel. `handle` is the device layer's own."""

    handle: Any
    kernel: str
    geometry: Geometry


@dataclass(frozen=True)
class Buffer:
    """Device memory for one array, between two guards. `handle` goes to the kernel; `whole` covers the guards too."""

    handle: Any
    whole: Any
    nbytes: int


class Library(Protocol):
    """A vendor's routine on buffers of a device, called like a kernel."""

    name: str

    def __call__(self) -> None: ...


@dataclass(frozen=True)
class Given:
    """An array that a caller gave, whatever library it is of. `strides` are in bytes; None means contiguous."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    strides: tuple[int, ...] | None
    writable: bool = True


def check_array(argument: Argument, given: Given, shape: tuple[int, ...]) -> None:
    """Raise ArgumentError unless `given` has the argument's dtype, is of `shape`, contiguous in C order, and writable
    where the kernel writes to it."""
    name, dtype = argument.name, np.dtype(argument.dtype)
    if tuple(given.shape) != shape or given.dtype != dtype:
        raise ArgumentError(
            f"{name}: has shape {tuple(given.shape)} and dtype {given.dtype}; needed are {shape} and {dtype}"
        )
    expected = dtype.itemsize
    for extent, stride in zip(reversed(shape), reversed(given.strides or ()), strict=False):
        if extent > 1 and stride != expected:
            raise ArgumentError(f"{name}: has strides {given.strides} (bytes); it must be contiguous in C order")
        expected *= extent
    if argument.role != "in" and not given.writable:
        raise ArgumentError(f"{name}: is read-only, and the kernel writes to it; pass an array that may be written")


class Compiler(ABC):
    """Makes binaries for one kind and architecture of device; needs no device of that kind unless it says so."""

    kind: str
    architecture: str

    @abstractmethod
    def name(self) -> str:
        """The compiler and its version: whatever else than the source changes what it makes. Must be cheap to ask,
        since a launch from the cache asks it too."""

    @abstractmethod
    def compile(self, source: Source) -> bytes:
        """The binary of `source`, from the compiler. Raises BuildError with its log."""

    def key(self, source: Source) -> str:
        """The name of a build: covers everything that changes what `compile` returns."""
        return builds.key(self.kind, self.architecture, self.name(), *source.options, source.kernel, source.text)

    def build(self, source: Source) -> bytes:
        """The binary of `source`, from the cache of builds where it is there. Raises BuildError with the log."""
        return builds.get(self.key(source), lambda: self.compile(source))


class Device(ABC):
    """One device. Its methods raise TrialError for what one configuration did, DeviceError for the rest."""

    kind: str
    language: str
    asynchronous = False  # whether a timer also sees the host's delay in launching
    id: str  # cuda:0
    name: str  # as its maker writes it
    architecture: str  # what its binaries run on
    compiler: Compiler
    limits: Limits
    memory: int  # bytes that may be allocated

    @property
    @abstractmethod
    def toolchain(self) -> str:
        """Compiler and driver, with versions: what a time depends on besides source and device."""

    def build(self, source: Source) -> bytes:
        """The binary of `source`, from the cache of builds or the compiler. Raises BuildError with the log."""
        return self.compiler.build(source)

    @abstractmethod
    def load(self, binary: bytes, source: Source) -> Function:
        """A launchable function. Raises LaunchError."""

    @abstractmethod
    def bind(self, function: Function, arguments: Sequence[Any]) -> Callable[[], None]:
        """A call without arguments that enqueues one launch and returns.

        `arguments` are buffers' handles and NumPy scalars, in the kernel's order; they are packed here, once, so that
        the call costs what the driver's launch costs. Binding and calling raise LaunchError.
        """

    @abstractmethod
    def synchronize(self) -> None:
        """Wait for all that was enqueued. Raises LaunchError where any of it failed."""

    @abstractmethod
    def timer(self) -> Timer:
        """A new timer on the device's default queue."""

    @abstractmethod
    def allocate(self, nbytes: int) -> Buffer:
        """Guarded memory, contents undefined. Raises DeviceError where there is too little."""

    @abstractmethod
    def write(self, target: Any, data: Array) -> None:
        """Copy a contiguous array to the start of `target`, a buffer's `handle` or `whole`; returns when done."""

    @abstractmethod
    def read(self, target: Any, data: Array, offset: int = 0) -> None:
        """Fill a contiguous array from `target`, starting `offset` bytes in; returns when done."""

    @abstractmethod
    def pointer(self, argument: Argument, value: Any, shape: tuple[int, ...]) -> Any:
        """The handle of an array that a caller of a launch gave. Raises ArgumentError that names the argument."""

    @abstractmethod
    def fill(self, target: Any, byte: int, nbytes: int) -> None:
        """Set the first `nbytes` bytes of `target` to `byte`; returns when done."""

    def library(self, routine: str, arguments: dict[str, Any], dtypes: dict[str, str]) -> Library | None:
        """The vendor's `routine` on these buffers, sizes and options by name, with the buffers' dtypes; None where
        there is none."""
        return None

    def describe(self) -> dict[str, Any]:
        """The device for people and for JSON."""
        return {
            "device": self.id,
            "name": self.name,
            "architecture": self.architecture,
            "toolchain": self.toolchain,
            "memory": self.memory,
            "max_threads": self.limits.max_threads,
            "max_shared_memory": self.limits.max_shared_memory,
        }

    def close(self) -> None:
        """Give back what the process holds of the device."""
