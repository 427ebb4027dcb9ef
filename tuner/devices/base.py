"""The interface that every kind of device implements."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np

from tuner.devices.arguments import ArrayLayout, ArraySpec, address_check, check_count
from tuner.devices.info import DeviceInfo, Peak
from tuner.devices.work import Function, Work
from tuner.space.model import Geometry
from tuner.space.scope import Limits

if TYPE_CHECKING:
    from tuner.devices.compiler import Build, Compiler
    from tuner.devices.product import MatrixProduct, ProductLaunch, Tiles
    from tuner.space.sources.source import Source

Array = np.ndarray[Any, np.dtype[Any]]
GUARD = 1 << 20  # bytes on each side of a guarded buffer; a multiple of every alignment that a device asks for


class Timer(Protocol):
    """Measures the time on the device from `start` to `stop`."""

    def start(self) -> None: ...

    def stop(self) -> None: ...

    def finished(self) -> bool:
        """Whether the device has passed `stop`. Raises LaunchError if a launch before it failed."""
        ...

    def milliseconds(self) -> float:
        """Time from start to stop, in ms, on the device's clock."""
        ...


@dataclass(frozen=True)
class Buffer:
    """Device memory for one array, between two guards. The kernel receives `handle`. `whole` includes the guards, and
    owns the memory."""

    handle: Any
    whole: Any
    nbytes: int


class Sensors(Protocol):
    """Readings of a GPU's board; None for one that it does not offer."""

    def clock_mhz(self) -> int | None: ...

    def throttled(self) -> list[str]: ...

    def energy_mj(self) -> int | None: ...


class Library(Protocol):
    """A vendor's routine, bound to buffers of a device. A call enqueues it."""

    name: str

    def __call__(self) -> None: ...


class Device(ABC):
    """One device. Its methods raise TrialError if a configuration is at fault, DeviceError for any other fault."""

    kind: ClassVar[str]  # of its backend, as is the language
    language: ClassVar[str]
    asynchronous = False  # whether a timer also counts the host's delay in launching
    on_processor = False  # whether it is the processor that compilers run on, where they disturb its times
    has_doubles = True  # whether its kernels may compute with doubles
    compiles_at_launch = False  # whether the driver leaves part of compiling to the first launch, and keeps that
    place = ""  # names it to every process of the machine; a processor has none, for builds disturb its times anyway
    package: str | None = None  # the Python package that drives it, by pip's name
    units: int = 1  # multiprocessors, or cores
    peak: Peak | None = None  # in FP32; None if the device does not report enough to compute it
    id: str  # cuda:0
    name: str  # by its vendor
    architecture: str  # that its binaries run on
    compiler: Compiler
    limits: Limits
    memory: int  # bytes that may be allocated

    @property
    def sensors(self) -> Sensors | None:
        """The sensors of clock, throttling and energy; None if there are none."""
        return None

    @property
    @abstractmethod
    def toolchain(self) -> str:
        """Compiler and driver with versions: times depend on them, besides source and device."""

    def build(self, source: Source) -> Build:
        """The build of `source`, from the cache or the compiler. Raises BuildError with the log, DeviceError if there
        is neither a build nor a compiler."""
        return self.compiler.build(source)

    @abstractmethod
    def load(self, build: Build, source: Source) -> Any:
        """The program of a build, with memory of its own for what is global in it. Raises LaunchError."""

    @abstractmethod
    def function(self, program: Any, kernel: str, geometry: Geometry) -> Function:
        """A kernel of a program, by its name in the source, ready to launch. Raises LaunchError."""

    def symbol(self, program: Any, name: str) -> tuple[Any, int] | None:
        """The handle and the bytes of what is global in a program, by its name in the source; None if there is nothing
        of this name. Raises LaunchError."""
        return None

    @abstractmethod
    def bind(
        self, work: Work, handles: Sequence[Any] = (), stream: Any = None, keep: object = None
    ) -> Callable[[], None]:
        """A call without arguments that enqueues `work` once and returns. It keeps `work` and `keep` alive.

        `handles` are those of the arrays that are passed. They are packed here, once: a call then costs no more than
        the driver's launches. `stream` is a value of the method `stream`, or None for the default stream. Threads may
        share the call of work that is one action without memory of its own. Binding and calling raise LaunchError.
        """

    @abstractmethod
    def launcher(self, work: Work, specs: Sequence[ArraySpec]) -> Callable[[Sequence[Any], Any, Any], None]:
        """A call that checks its arrays and enqueues `work` once. It takes the caller's arrays, the caller's stream or
        None, and `packed` scalars.

        Threads must not call it at the same time. It raises ArgumentError and LaunchError.
        """

    @abstractmethod
    def packed(self, scalars: Sequence[Any]) -> Any:
        """All scalars of some work, given as NumPy scalars in its order, in the form that a `launcher`'s call takes."""

    def lane(self, stream: Any, array: Any) -> Hashable:
        """What launches on `array` wait for one another in: a stream. None where a graph records them, which may run
        beside any other. Raises ArgumentError for anything but a stream of this device."""
        return 0

    @abstractmethod
    def synchronize(self) -> None:
        """Wait for everything that was enqueued. Raises LaunchError if any of it failed."""

    @abstractmethod
    def timer(self) -> Timer:
        """A new timer on the device's default queue."""

    @abstractmethod
    def allocate(self, nbytes: int, guard: int = GUARD) -> Buffer:
        """Uninitialized memory with `guard` bytes on each side. Raises OutOfMemory if there is too little."""

    @abstractmethod
    def write(self, target: Any, data: Array, offset: int = 0) -> None:
        """Copy a contiguous array to `target`, a buffer's `handle` or `whole`, from `offset` bytes in, and wait."""

    def upload(self, data: Array) -> Buffer:
        """Unguarded memory that holds `data`, a contiguous array."""
        buffer = self.allocate(data.nbytes, guard=0)
        self.write(buffer.handle, data)
        return buffer

    @abstractmethod
    def read(self, target: Any, data: Array, offset: int = 0) -> None:
        """Copy from `target`, starting `offset` bytes in, to a contiguous array, and wait."""

    @abstractmethod
    def layout(self, spec: ArraySpec, array: Any) -> ArrayLayout:
        """The layout of the caller's array. Raises ArgumentError, which names the argument, if it is no array here."""

    @abstractmethod
    def handle(self, spec: ArraySpec, array: Any) -> Any:
        """The handle of the caller's array. Raises ArgumentError, which names the argument, if it does not meet
        `spec`."""

    def handles(self, specs: Sequence[ArraySpec], arrays: Sequence[Any]) -> Sequence[Any]:
        """The handles of the caller's arrays. Raises ArgumentError if an array does not meet its spec, or an output
        shares memory with another array."""
        check_count(specs, arrays)
        handles = [self.handle(spec, array) for spec, array in zip(specs, arrays, strict=True)]
        self.check_handles(specs, handles)
        return handles

    def check_handles(self, specs: Sequence[ArraySpec], handles: Sequence[Any]) -> None:
        """Raise ArgumentError if an array is misaligned, or an output shares memory with another array. Here, handles
        are addresses."""
        address_check(specs)(handles)

    @abstractmethod
    def stream(self, stream: Any, array: Any) -> Any:
        """The stream for a launch on `array`, as `bind` takes it: the caller's `stream`, or the current one of the
        array's library if that is None. Raises ArgumentError for anything but a stream of this device."""

    @abstractmethod
    def fill(self, target: Any, byte: int, nbytes: int) -> None:
        """Set the first `nbytes` bytes of `target` to `byte`, and wait."""

    def zero(self, buffer: Buffer) -> None:
        """Set a buffer to 0, and wait. A graph that is being captured does not record it."""
        self.fill(buffer.handle, 0, buffer.nbytes)

    def frozen(self, check: Callable[[], bool]) -> bool:
        """The answer of `check` as of this moment, whatever a kernel's own threads go on writing. Here, kernels have
        none."""
        return True

    def occupy(self, ms: float) -> None:
        """Enqueue work that keeps an `asynchronous` device busy for `ms` without touching memory."""

    @abstractmethod
    def flush(self) -> None:
        """Enqueue work that evicts the arrays of earlier launches from the device's caches."""

    @property
    def last_cache(self) -> int | None:
        """Bytes of the cache that lies before memory; None if unknown."""
        return None

    def free_memory(self) -> int | None:
        """Free bytes of the device's own memory; None if it does not report them."""
        return None

    def library(
        self,
        routine: str,
        arguments: Mapping[str, Any],
        dtypes: Mapping[str, str],
        transposed: Collection[str] = (),
    ) -> Library | None:
        """The vendor's `routine` on these arguments (buffers, sizes, options) by name, with the buffers' dtypes, as the
        vendor chooses to run it; None if there is none. Arrays of `transposed` are stored so (`space.routines`)."""
        return None

    def library_algorithms(
        self,
        routine: str,
        arguments: Mapping[str, Any],
        dtypes: Mapping[str, str],
        transposed: Collection[str] = (),
    ) -> Sequence[Library]:
        """The ways in which the vendor can run the same, those first that it expects to be fast. All have the name that
        the fastest of them goes by. A call may raise an error of the vendor's own."""
        return ()

    def product(self, product: MatrixProduct, specs: Sequence[ArraySpec]) -> ProductLaunch | None:
        """The vendor's matrix product as a launch on the caller's arrays C, A and B, which must be as `specs` say; None
        if there is none."""
        return None

    def tiles(self, product: MatrixProduct) -> Tiles | None:
        """How the vendor's library would run a product, which it is asked for and does not run; None if it does not
        tell."""
        return None

    @property
    def info(self) -> DeviceInfo:
        """The description of the device, for processes that do not hold it."""
        return DeviceInfo(**{field.name: getattr(self, field.name) for field in fields(DeviceInfo)})

    def close(self) -> None:
        """Release the process's resources on the device."""
