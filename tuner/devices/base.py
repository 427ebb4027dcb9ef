"""What every kind of device can do."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Protocol

import numpy as np

from tuner.devices.arguments import Wanted, address_check, check_count
from tuner.devices.backend import Backend
from tuner.devices.compiler import Build, Compiler
from tuner.space.model import Geometry, Limits
from tuner.space.source import Source

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
    """Device memory for one array, between two guards. `handle` goes to the kernel; `whole` covers the guards too, and
    the memory lives as long as it does."""

    handle: Any
    whole: Any
    nbytes: int


class Sensors(Protocol):
    """What a board says of itself; None where it does not say it."""

    def clock_mhz(self) -> int | None: ...

    def throttled(self) -> list[str]: ...

    def energy_mj(self) -> int | None: ...


class Library(Protocol):
    """A vendor's routine on buffers of a device, called like a kernel."""

    name: str

    def __call__(self) -> None: ...


@dataclass(frozen=True)
class Peak:
    """Peak FP32 rate of a GPU: multiprocessors x lanes of each x clock x 2, since a multiply-add counts as two."""

    multiprocessors: int
    lanes: int
    clock_mhz: float

    @property
    def gflops(self) -> float:
        """GFLOP/s."""
        return 2 * self.multiprocessors * self.lanes * self.clock_mhz / 1e3

    def __str__(self) -> str:
        return (
            f"{self.multiprocessors} multiprocessors x {self.lanes} FP32 lanes x 2 x {self.clock_mhz / 1e3:.4g} GHz = "
            f"{self.gflops / 1e3:.4g} TFLOP/s"
        )


@dataclass(frozen=True)
class DeviceInfo:
    """What a device is: `id` as in `cuda:0`, `name` as its maker writes it, `architecture` that its binaries run on,
    `toolchain` with the versions of compiler and driver, `memory` in bytes that may be allocated."""

    id: str
    kind: str
    language: str
    name: str
    architecture: str
    toolchain: str
    memory: int
    limits: Limits
    peak: Peak | None = None
    on_processor: bool = False

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
            "peak": asdict(self.peak) if self.peak else None,
        }

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> DeviceInfo:
        """What `dataclasses.asdict` made, after its way through JSON."""
        peak = Peak(**data["peak"]) if data["peak"] else None
        return DeviceInfo(**{**data, "limits": Limits.from_json(data["limits"]), "peak": peak})


class Device(ABC):
    """One device. Its methods raise TrialError for what one configuration did, DeviceError for the rest."""

    backend: ClassVar[Backend]
    asynchronous = False  # whether a timer also sees the host's delay in launching
    on_processor = False  # whether it is the processor that compilers run on too, so that they disturb its times
    compiles_at_launch = False  # whether the driver leaves part of compiling to the first launch
    peak: Peak | None = None  # in FP32, where the device says enough to compute it
    id: str  # cuda:0
    name: str  # as its maker writes it
    architecture: str  # what its binaries run on
    compiler: Compiler
    limits: Limits
    memory: int  # bytes that may be allocated

    @property
    def kind(self) -> str:
        return self.backend.kind

    @property
    def language(self) -> str:
        return self.backend.language

    @property
    def sensors(self) -> Sensors | None:
        """What reads clock, throttling and energy; None where nothing does."""
        return None

    @property
    @abstractmethod
    def toolchain(self) -> str:
        """Compiler and driver, with versions: what a time depends on besides source and device."""

    def build(self, source: Source) -> Build:
        """`source` built, from the cache or by the compiler. Raises BuildError with the log, DeviceError where there is
        neither build nor compiler."""
        return self.compiler.build(source)

    @abstractmethod
    def load(self, build: Build, source: Source) -> Function:
        """A launchable function. Raises LaunchError."""

    @abstractmethod
    def bind(
        self, function: Function, arguments: Sequence[Any], stream: Any = None, keep: object = None
    ) -> Callable[[], None]:
        """A call without arguments that enqueues one launch and returns; `keep` lives as long as it does.

        `arguments` are buffers' handles and NumPy scalars, in the kernel's order; they are packed here, once, so that
        the call costs what the driver's launch costs. `stream` is what the method of that name gives; the default one
        if omitted. Threads may share the call. Binding and calling raise LaunchError.
        """

    @abstractmethod
    def launcher(
        self, function: Function, arguments: Sequence[Any], wanted: Sequence[Wanted]
    ) -> Callable[[Sequence[Any], Any, Any], None]:
        """A call that takes arrays as a caller gives them, a stream or None, and `packed` scalars, checks the arrays
        and enqueues one launch.

        `arguments` are as for `bind`, with None where the arrays go. One call at a time. It raises ArgumentError and
        LaunchError.
        """

    @abstractmethod
    def packed(self, function: Function, scalars: Sequence[Any]) -> Any:
        """All scalars of a kernel, of NumPy's types and in its order, as a `launcher`'s call takes them."""

    @abstractmethod
    def synchronize(self) -> None:
        """Wait for all that was enqueued. Raises LaunchError where any of it failed."""

    @abstractmethod
    def timer(self) -> Timer:
        """A new timer on the device's default queue."""

    @abstractmethod
    def allocate(self, nbytes: int, guard: int = GUARD) -> Buffer:
        """Memory with `guard` bytes on each side, contents undefined. Raises DeviceError where there is too little."""

    @abstractmethod
    def write(self, target: Any, data: Array) -> None:
        """Copy a contiguous array to the start of `target`, a buffer's `handle` or `whole`; returns when done."""

    def upload(self, data: Array) -> Buffer:
        """Unguarded memory that holds `data`, a contiguous array."""
        buffer = self.allocate(data.nbytes, guard=0)
        self.write(buffer.handle, data)
        return buffer

    @abstractmethod
    def read(self, target: Any, data: Array, offset: int = 0) -> None:
        """Fill a contiguous array from `target`, starting `offset` bytes in; returns when done."""

    @abstractmethod
    def handle(self, wanted: Wanted, array: Any) -> Any:
        """The handle of an array that a caller gave. Raises ArgumentError that names the argument which it does not
        fit."""

    def handles(self, wanted: Sequence[Wanted], arrays: Sequence[Any]) -> Sequence[Any]:
        """The handles of arrays that a caller gave. Raises ArgumentError where one does not fit, or where the kernel
        writes to one that shares memory with another."""
        check_count(wanted, arrays)
        found = [self.handle(one, array) for one, array in zip(wanted, arrays, strict=True)]
        self.check_handles(wanted, found)
        return found

    def check_handles(self, wanted: Sequence[Wanted], handles: Sequence[Any]) -> None:
        """Raise ArgumentError where arrays begin where they may not, or share memory. Handles are addresses here."""
        address_check(wanted)(handles)

    @abstractmethod
    def stream(self, given: Any, array: Any) -> Any:
        """Where to enqueue a launch on `array`, as `bind` takes it: what the caller gave, or where the array's library
        works if that is None. Raises ArgumentError for what is no stream of this device."""

    @abstractmethod
    def fill(self, target: Any, byte: int, nbytes: int) -> None:
        """Set the first `nbytes` bytes of `target` to `byte`; returns when done."""

    def occupy(self, ms: float) -> None:
        """Enqueue what keeps an `asynchronous` device busy for `ms` and touches no memory; no other needs it."""

    @abstractmethod
    def flush(self) -> None:
        """Enqueue what pushes the arrays of earlier launches out of the device's caches."""

    def free_memory(self) -> int | None:
        """Bytes of the device's own memory that are left; None where it does not say."""
        return None

    def exported(self, function: Function) -> bytes:
        """The binary of a loaded function, with what its launches have added; for devices that compile at launch."""
        raise NotImplementedError

    def library(self, routine: str, arguments: dict[str, Any], dtypes: dict[str, str]) -> Library | None:
        """The vendor's `routine` on these buffers, sizes and options by name, with the buffers' dtypes; None where
        there is none."""
        return None

    @property
    def info(self) -> DeviceInfo:
        """What the device is, for processes that do not hold it."""
        return DeviceInfo(
            id=self.id,
            kind=self.kind,
            language=self.language,
            name=self.name,
            architecture=self.architecture,
            toolchain=self.toolchain,
            memory=self.memory,
            limits=self.limits,
            peak=self.peak,
            on_processor=self.on_processor,
        )

    def close(self) -> None:
        """Give back what the process holds of the device."""
