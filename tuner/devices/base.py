"""The abstract interface of devices: builds, launches, memory, timers and vendor libraries."""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import fields
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np

from tuner.classes import dataclass
from tuner.devices.arguments import ArrayLayout, ArraySpec, address_check, check_count
from tuner.devices.conditions import DEFAULT, Conditions
from tuner.devices.forking import Isolation, NoIsolation
from tuner.devices.info import DeviceInfo, Peak
from tuner.devices.work import Function, Work
from tuner.errors import LaunchError
from tuner.space.scope import Limits
from tuner.space.step import Geometry

if TYPE_CHECKING:
    from pathlib import Path

    from tuner.devices.builds.build import Build
    from tuner.devices.builds.compiler import Compiler
    from tuner.devices.product import HostTimes, MatrixProduct, ProductLaunch, Tiles
    from tuner.space.sources.source import Source

Array = np.ndarray[Any, np.dtype[Any]]
GUARD = 1 << 20  # bytes before and after a guarded buffer; a multiple of every alignment that a device requires


class Timer(Protocol):
    """Measures the device time between `start` and `stop`."""

    def start(self) -> None: ...

    def stop(self) -> None: ...

    def finished(self) -> bool:
        """Whether the device has passed `stop`. Raises LaunchError if a launch before it failed."""
        ...

    def milliseconds(self) -> float:
        """The time between `start` and `stop` on the device's clock, in ms."""
        ...


@dataclass(frozen=True)
class Buffer:
    """Device memory for one array of `nbytes`, between two guards. Kernels receive `handle`. `whole` includes the
    guards and owns the memory."""

    handle: Any
    whole: Any
    nbytes: int


class Sensors(Protocol):
    """The sensors of a GPU. A reading is None if the board or its driver does not offer it."""

    def clock_mhz(self) -> int | None: ...

    def throttled(self) -> list[str]: ...

    def energy_mj(self) -> int | None: ...


@dataclass(frozen=True)
class RoutineCall:
    """A call of a vendor library's routine (see `space.routines`). `arguments` are handles, sizes and options by name,
    and `dtypes` the arrays' dtypes. The arrays named in `transposed` are stored transposed."""

    routine: str
    arguments: Mapping[str, Any]
    dtypes: Mapping[str, str]
    transposed: Collection[str] = ()


class Library(Protocol):
    """A routine of a vendor library, bound to buffers of a device. A call enqueues it."""

    name: str

    def __call__(self) -> None: ...


class Device(ABC):
    """One device. Its methods raise TrialError if a configuration is at fault, DeviceError for any other fault."""

    kind: ClassVar[str]  # the kind of its backend
    language: ClassVar[str]  # the language of its backend
    isolation: Isolation = NoIsolation()  # where measured kernels run
    asynchronous = False  # whether a timer also counts the host's launch delay
    runs_in_process = False  # whether kernels run in the calling thread, whose state they may change
    on_processor = False  # whether it is the CPU that also runs the compilers, which then disturb its times
    has_doubles = True  # whether its kernels may compute with doubles
    compiles_at_launch = False  # whether the driver completes compilation at the first launch, and caches the result
    # Identifies the device in all processes of the machine, so that they can take turns to measure on it. Empty for a
    # CPU, where turns would not help: builds disturb its times anyway.
    place = ""
    package: str | None = None  # pip name of the Python package that drives it
    units: int = 1  # multiprocessors or CPU cores
    conditions: Conditions = DEFAULT  # of its trials, as they were when it was opened
    peak: Peak | None = None  # FP32; None if the device does not report enough to compute it
    id: str  # such as cuda:0
    name: str  # given by the vendor
    architecture: str  # target of its binaries, such as sm_90a
    compiler: Compiler
    limits: Limits
    memory: int  # bytes that can be allocated
    builds_folder: Path | None = None  # where builds are unpacked by a process that has no cache

    @property
    def sensors(self) -> Sensors | None:
        """The sensors of clock, throttling and energy; None if the device has none."""
        return None

    @property
    @abstractmethod
    def toolchain(self) -> str:
        """Compiler and driver with their versions, on which times depend besides source and device."""

    def toolchain_of(self, compiler: str) -> str:
        """The toolchain of kernels whose space file chooses this compiler; empty for the default. Raises DeviceError if
        it is missing."""
        return self.toolchain

    def build(self, source: Source) -> Build:
        """The build of `source`, from the cache or the compiler. Raises BuildError with the compiler's log, DeviceError
        if the cache has no build and the compiler is missing."""
        return self.compiler.build(source)

    @abstractmethod
    def load(self, build: Build, source: Source) -> Any:
        """Load a build as a new program, with its own copy of the global variables. Raises LaunchError."""

    @abstractmethod
    def function(self, program: Any, kernel: str, geometry: Geometry) -> Function:
        """The kernel of a program, ready to launch; `kernel` is its name in the source. Raises LaunchError."""

    def sample_grid(self, _: Geometry) -> tuple[int, int, int]:
        """A small part of the grid whose launch makes the driver compile the code that the whole grid runs."""
        return 1, 1, 1

    def self_timed(self, function: Function) -> Function:
        """The same function; it returns its time in ms as a float, and this device's timers then report that time.

        Raises LaunchError on a device whose kernels return nothing.
        """
        raise LaunchError(f"{self.kind}: a kernel returns nothing; remove `timing: returned`")

    def symbol(self, program: Any, name: str) -> tuple[Any, int] | None:
        """The handle and the size in bytes of a program's global variable; `name` is its name in the source. None if
        the program has no such variable. Raises LaunchError."""
        return None

    @abstractmethod
    def bind(
        self, work: Work, handles: Sequence[Any] = (), stream: Any = None, keep: object = None
    ) -> Callable[[], None]:
        """A function without arguments that enqueues `work` once and returns. It keeps `work` and `keep` alive.

        `handles` are the handles of the caller's arrays (`Passed`). `bind` packs them once, so a call costs no more
        than the driver's launches. `stream` is a result of the method `stream`, or None for the default stream. Threads
        may share the function if `work` is a single action without its own scratch memory. `bind` and the function
        raise LaunchError.
        """

    def bind_whole(self, work: Work, handles: Sequence[Any], most: int) -> Callable[[], None]:
        """Like `bind`, for measurements on the default stream. If `work` has more than `most` launches, the device
        enqueues all of them in one call, if it can: it would otherwise wait for the host."""
        return self.bind(work, handles)

    def bind_graph(self, work: Work, handles: Sequence[Any], count: int) -> Callable[[], None]:
        """Like `bind`, for measurements: a call that launches a graph of `count` times `work` on the default stream.

        Raises LaunchError if the device has no graphs, or if the host decides between launches.
        """
        raise LaunchError(f"{self.kind}: has no graphs")

    @abstractmethod
    def launcher(self, work: Work, specs: Sequence[ArraySpec]) -> Callable[[Sequence[Any], Any, Any], None]:
        """A function that checks its arrays and enqueues `work` once. It takes the caller's arrays, the caller's stream
        or None, and scalars from `packed`.

        Threads must not call it at the same time. It raises ArgumentError and LaunchError.
        """

    @abstractmethod
    def packed(self, scalars: Sequence[Any]) -> Any:
        """Convert all scalars of a work to the form that the function of `launcher` takes. `scalars` are NumPy scalars,
        in the order of the work."""

    def lane(self, stream: Any, array: Any) -> Hashable:
        """Identify the stream that orders launches on `array`. None if a graph captures the launches, since the graph
        may later run concurrently with any other launch. Raises ArgumentError if `stream` is no stream of this device.
        """
        return 0

    @abstractmethod
    def synchronize(self) -> None:
        """Wait for all enqueued work. Raises LaunchError if any of it failed."""

    @abstractmethod
    def timer(self) -> Timer:
        """A new timer on the device's default queue."""

    @abstractmethod
    def allocate(self, nbytes: int, guard: int = GUARD) -> Buffer:
        """Allocate uninitialised memory with `guard` bytes before and after it. Raises OutOfMemory."""

    @abstractmethod
    def write(self, target: Any, data: Array, offset: int = 0) -> None:
        """Copy a contiguous array to `target` (a buffer's `handle` or `whole`) at byte `offset`, and wait."""

    def over(self, memory: Array) -> Buffer:
        """A buffer over bytes of this process's memory, on which kernels work in place. Raises LaunchError if the
        device is no processor."""
        raise LaunchError(f"{self.kind}: kernels do not work on the memory of a process")

    def upload(self, data: Array) -> Buffer:
        """Copy `data`, a contiguous array, to a new buffer without guards."""
        buffer = self.allocate(data.nbytes, guard=0)
        self.write(buffer.handle, data)
        return buffer

    @abstractmethod
    def read(self, target: Any, data: Array, offset: int = 0) -> None:
        """Copy from `target` at byte `offset` to a contiguous array, and wait."""

    @abstractmethod
    def layout(self, spec: ArraySpec, array: Any) -> ArrayLayout:
        """The layout of the caller's array. Raises ArgumentError, which names the argument, if this device cannot use
        an array of this type."""

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
        """Raise ArgumentError if an array is misaligned, or an output shares memory with another array. This default
        requires that handles are addresses."""
        address_check(specs)(handles)

    @abstractmethod
    def stream(self, stream: Any, array: Any) -> Any:
        """The stream for a launch on `array`, for `bind`: the caller's `stream`, or the current stream of the array's
        library if that is None. Raises ArgumentError if `stream` is no stream of this device."""

    @abstractmethod
    def fill(self, target: Any, byte: int, nbytes: int) -> None:
        """Set the first `nbytes` bytes of `target` to `byte`, and wait."""

    def zero(self, buffer: Buffer) -> None:
        """Set a buffer to 0, and wait. A graph capture in progress does not record it."""
        self.fill(buffer.handle, 0, buffer.nbytes)

    def frozen(self, check: Callable[[], bool]) -> bool:
        """Whether `check` holds for a snapshot of memory, even if a kernel has left threads that still write. This
        default returns True without a check: only host kernels can start threads."""
        return True

    def adopt(self) -> None:
        """Use the device in this process, which was forked from the one that opened it and has run no kernel. Only for
        a device that `runs_in_process`."""

    def plain_arithmetic(self) -> AbstractContextManager[None]:
        """A block in which this thread computes as if no kernel had run in it. This default does nothing: only host
        kernels run in the calling thread."""
        return contextlib.nullcontext()

    def vacate(self, buffer: Buffer) -> None:
        """Give the memory of a buffer back until it is written again, if the device can. Its content is lost."""

    def occupy(self, ms: float) -> None:
        """Enqueue work that keeps an `asynchronous` device busy for `ms` milliseconds without touching memory."""

    @property
    def last_cache(self) -> int | None:
        """The size of the last-level cache, in bytes; None if unknown."""
        return None

    def free_memory(self) -> int | None:
        """Free bytes of the device's memory; None if the device does not report them."""
        return None

    def library(self, call: RoutineCall) -> Library | None:
        """The vendor library's routine, with the algorithm that the library chooses. None if it has no such routine."""
        return None

    def library_algorithms(self, call: RoutineCall) -> Sequence[Library]:
        """The vendor library's algorithms for the same routine, those first that it expects to be fastest. All have the
        same name, under which the fastest is reported. A call may raise an error of the vendor library."""
        return ()

    def product(
        self, product: MatrixProduct, specs: Sequence[ArraySpec], algorithm: int | None = None
    ) -> ProductLaunch | None:
        """The vendor library's matrix product as a launch on the caller's arrays C, A and B, which must meet `specs`.
        It runs the `algorithm` with this number among those that the library offers for it; by default, the library
        chooses. None if there is none."""
        return None

    def host_times(self) -> HostTimes | None:
        """The host's times of calls, measured on this machine; None if a launch takes no time beside its kernel, or if
        there is no vendor library."""
        return None

    def tiles(self, product: MatrixProduct) -> Tiles | None:
        """The tiling that the vendor library would choose for a product. Runs nothing. None if unknown."""
        return None

    def ask_ahead(self, product: MatrixProduct) -> None:
        """Let the vendor library prepare, in the background, what its first answer to `tiles` needs."""

    @property
    def info(self) -> DeviceInfo:
        """The description of the device, for processes that do not hold it."""
        return DeviceInfo(**{field.name: getattr(self, field.name) for field in fields(DeviceInfo)})

    def close(self) -> None:
        """Release this process's resources on the device."""
