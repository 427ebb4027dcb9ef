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
from tuner.space import Geometry, Limits

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


def check_array(
    argument: str,
    given: tuple[tuple[int, ...], Any],
    needed: tuple[tuple[int, ...], str],
    strides: tuple[int, ...] | None,
) -> None:
    """Raise ArgumentError unless (shape, dtype) are those `needed` and `strides`, in bytes, are contiguous in C order.

    `strides` of None means contiguous, as in `__cuda_array_interface__`.
    """
    if tuple(given[0]) != needed[0] or np.dtype(given[1]) != np.dtype(needed[1]):
        raise ArgumentError(
            f"{argument}: has shape {tuple(given[0])} and dtype {np.dtype(given[1])}; shape {needed[0]} and dtype "
            f"{needed[1]} are needed"
        )
    expected = np.dtype(needed[1]).itemsize
    for extent, stride in zip(reversed(needed[0]), reversed(strides or ()), strict=False):
        if extent > 1 and stride != expected:
            raise ArgumentError(f"{argument}: has strides {strides} (bytes); it must be contiguous in C order")
        expected *= extent


class Device(ABC):
    """One device. Its methods raise TrialError for what one configuration did, DeviceError for the rest."""

    kind: str
    language: str
    asynchronous = False  # whether a timer also sees the host's delay in launching
    id: str  # cuda:0
    name: str  # as its maker writes it
    architecture: str  # what its binaries run on
    toolchain: str  # compiler and driver, with versions: what else a time depends on
    limits: Limits
    memory: int  # bytes that may be allocated

    def build(self, source: Source) -> bytes:
        """The binary of `source`, from the cache of builds or the compiler. Raises BuildError with the log."""
        return builds.get(self.build_key(source), lambda: self.compile(source))

    def build_key(self, source: Source) -> str:
        """Names everything that changes what `compile` returns."""
        return builds.key(self.kind, self.architecture, self.compiler(), *source.options, source.kernel, source.text)

    @abstractmethod
    def compiler(self) -> str:
        """Name and version of the compiler, found without running it where the cache is warm."""

    @abstractmethod
    def compile(self, source: Source) -> bytes:
        """The binary of `source`, always from the compiler. Raises BuildError with its log."""

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
    def pointer(self, argument: str, value: Any, shape: tuple[int, ...], dtype: str) -> Any:
        """The handle of an array that a caller of a launch gave. Raises ArgumentError that names the argument."""

    @abstractmethod
    def fill(self, target: Any, byte: int, nbytes: int) -> None:
        """Set the first `nbytes` bytes of `target` to `byte`; returns when done."""

    def library(self, routine: str, arguments: dict[str, Any]) -> Library | None:
        """The vendor's `routine` on these buffers, sizes and options by name; None where there is none."""
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
