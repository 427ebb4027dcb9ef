"""The device class of this machine's CPU, which loads shared libraries and calls them in this process."""

from __future__ import annotations

import contextlib
import ctypes
import math
import mmap
import os
import platform
import re
import signal
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np

from tuner import paths
from tuner.children import processors
from tuner.devices import caches, environment, forking, pages, settings
from tuner.devices.arguments import ArrayLayout, ArraySpec, check_array
from tuner.devices.base import GUARD, Array, Buffer, Device
from tuner.devices.builds import build_cache
from tuner.devices.builds.build import Build
from tuner.devices.builds.compiler import missing_kernel
from tuner.devices.conditions import Conditions
from tuner.devices.host import BACKEND, arithmetic, calls, openmp
from tuner.devices.host.compiler import CODE, HostCompiler, default, processor, version
from tuner.devices.settings import MEMORY
from tuner.devices.work import Function, Passed, Work
from tuner.errors import ArgumentError, DeviceError, EnvironmentTrouble, LaunchError, OutOfMemory
from tuner.space.scope import Limits
from tuner.space.sources.source import Source
from tuner.space.step import Geometry

_ALIGNMENT = 64  # bytes of a cache line
_LARGE = 4 << 20  # bytes from which on NumPy asks for huge pages
_DONT_NEED = 4  # MADV_DONTNEED
_PARALLEL = b"GOMP_parallel"  # a function that a library with OpenMP's parallel regions calls
# What the loader says of a kernel; anything else that it says is of files, folders and memory.
_OF_KERNEL = re.compile(r"undefined symbol|static TLS|executable stack|unsupported version|relocation|not found")
_bound_by = set[int]()  # the processes whose libgomp has bound its threads, which holds for their forks, too


class HostDevice(Device):
    """The CPU, with all cores that OpenMP uses."""

    kind, language = BACKEND.kind, BACKEND.language
    runs_in_process = on_processor = True

    def __init__(self, number: int = 0) -> None:
        if number:
            raise DeviceError(f"device {self.kind}:{number}: the only one is {self.kind}:0; write --device {self.kind}")
        self.compiler: HostCompiler = default()
        self.id = f"{self.kind}:0"
        self.units = len(processors.allowed())
        self.name = f"{processor()} x{self.units}"
        self.architecture = platform.machine()
        self.memory = environment.available_memory()
        self.limits = Limits()
        self.conditions = self._conditions()
        self._process = os.getpid()
        self._returned_ms: list[float] = []  # the times that kernels have returned since a timer was started

    def _conditions(self) -> Conditions:
        threads, defaults = openmp.effective(self.units, self.compiler.is_gnu)
        others = {**MEMORY, **CODE}
        return Conditions.of({**threads, **settings.effective(others)}, {**defaults, **others})

    @property
    def toolchain(self) -> str:
        return version(tuple(self.compiler.command))

    def load(self, build: Build, source: Source) -> ctypes.CDLL:
        forking.use(self.kind)
        if self.builds_folder is not None:
            return self._unpacked(build, source, self.builds_folder)
        name = self.compiler.key(source)
        if build_cache.read(name) == build.binary:  # a damaged library would crash the process
            with contextlib.suppress(LaunchError, EnvironmentTrouble):  # another process may have deleted it
                return self._open(build_cache.folder() / name, build, source)
        return self._unpacked(build, source, paths.temporary())

    def _unpacked(self, build: Build, source: Source, folder: Path) -> ctypes.CDLL:
        try:
            with tempfile.NamedTemporaryFile(suffix=".so", dir=folder) as file:
                file.write(build.binary)
                file.flush()
                return self._open(Path(file.name), build, source)
        except OSError as error:
            raise environment.of_error(error) from None

    def _open(self, path: Path, build: Build, source: Source) -> ctypes.CDLL:
        try:
            with processors.binding(), self._threads_apart() if _PARALLEL in build.binary else contextlib.nullcontext():
                library = ctypes.CDLL(str(path))
        except OSError as error:
            what = f"loading {source.kernel}: {str(error).replace(str(path), path.name)}"
            if _OF_KERNEL.search(what):
                raise LaunchError(what) from None
            trouble = environment.of_log(str(error), f"loading {source.kernel}", [path.parent])
            raise trouble or environment.trouble(environment.OTHER, what) from None
        for kernel in source.kernels:
            if not hasattr(library, kernel):
                how = 'a kernel in C is neither static nor inline; in C++, it is extern "C"'
                raise LaunchError(missing_kernel(source, kernel, how))
        return library

    @contextlib.contextmanager
    def _threads_apart(self) -> Iterator[None]:
        """A block that loads a library with parallel regions. Where kernels run in forks of this process, because they
        are timed, each thread of OpenMP then runs on a processor of its own.

        Otherwise the system often wakes two threads up on one processor while another one is idle, where they stay for
        as long as a short kernel takes. A libgomp that was loaded earlier, as by another library, binds no thread. Then
        the first thread stays free, too: all others would run where it does.
        """
        if isinstance(self.isolation, forking.NoIsolation) or not self.compiler.is_gnu:
            yield
            return
        before = os.sched_getaffinity(0)
        with openmp.apart() as is_apart:
            yield
        if not is_apart:
            return
        if os.getpid() == self._process:  # what it starts later may run everywhere
            if os.sched_getaffinity(0) != before:
                _bound_by.add(self._process)
                os.sched_setaffinity(0, before)
        elif self._process in _bound_by:  # as libgomp does when it is loaded, which it was before this fork
            os.sched_setaffinity(0, {min(before)})

    def function(self, program: ctypes.CDLL, kernel: str, geometry: Geometry) -> Function:
        function = program[kernel]
        function.restype = None
        return Function(function, kernel, geometry)

    def self_timed(self, function: Function) -> Function:
        function.handle.restype = ctypes.c_float

        def call(*values: Any) -> None:
            milliseconds = function.handle(*values)
            if not 0 < milliseconds < math.inf:
                raise LaunchError(f"{function.kernel} returned {milliseconds:g} as its time in ms; return its time")
            self._returned_ms.append(milliseconds)

        return Function(call, function.kernel, function.geometry)

    def bind(
        self, work: Work, handles: Sequence[Any] = (), stream: None = None, keep: object = None
    ) -> Callable[[], None]:
        values = calls.c_values(work.arguments)
        for position, handle in zip(work.positions(Passed), handles, strict=True):
            values[position] = ctypes.c_void_p(calls.address(handle))
        actions = [calls.prepared(action)(values) for action in work.actions]
        live = forking.live(self.kind)

        def call(_keep: object = (work, keep)) -> None:
            if not live:
                raise forking.forked(self.kind)
            process = os.getpid()
            for action in actions:
                action()
            if os.getpid() != process:  # the kernel forked, and this is the child: it must not continue the run
                os._exit(0)

        return call

    def launcher(self, work: Work, specs: Sequence[ArraySpec]) -> Callable[[Sequence[Any], Any, Any], None]:
        fixed = calls.c_values(work.arguments)
        changing, scalar = work.positions(Passed), work.scalars
        actions = [*map(calls.prepared, work.actions)]
        live = forking.live(self.kind)

        def call(arrays: Sequence[Any], stream: Any, scalars: Any, _keep: object = work) -> None:
            if not live:
                raise forking.forked(self.kind)
            addresses = self.handles(specs, arrays)
            self.stream(stream, arrays[0] if arrays else None)
            values = fixed.copy()
            for position, address in zip(changing, addresses, strict=True):
                values[position] = ctypes.c_void_p(address)
            for position, value in zip(scalar, scalars, strict=True):
                values[position] = value
            for action in actions:
                action(values)()

        return call

    def packed(self, scalars: Sequence[Any]) -> list[Any]:
        return calls.c_values(scalars)

    def synchronize(self) -> None:
        """Does nothing: a call has finished when it returns."""

    def frozen(self, check: Callable[[], bool]) -> bool:
        try:
            copy = os.fork()  # the child has only this thread, so threads of a kernel cannot write there
        except OSError:
            return True
        if copy == 0:
            for number in (signal.SIGSEGV, signal.SIGBUS):  # a kernel's handler could compute when its output is read
                signal.signal(number, signal.SIG_DFL)
            self.adopt()
            with contextlib.suppress(BaseException):
                os._exit(int(not check()))
            os._exit(0)
        return os.waitstatus_to_exitcode(os.waitpid(copy, 0)[1]) in (0, -signal.SIGKILL)

    def timer(self) -> _ClockTimer:
        return _ClockTimer(self._returned_ms)

    def allocate(self, nbytes: int, guard: int = GUARD) -> Buffer:
        size = nbytes + 2 * guard + _ALIGNMENT
        try:
            whole = pages.mapped(size, size >= _LARGE) if guard else np.empty(size, dtype=np.uint8)
        except (MemoryError, OSError):
            raise OutOfMemory(f"host: {nbytes} bytes do not fit; try a smaller size") from None
        skip = -whole.ctypes.data % _ALIGNMENT or _ALIGNMENT * bool(guard)
        guarded = whole[skip : skip + nbytes + 2 * guard]
        return Buffer(guarded.ctypes.data + guard, guarded, nbytes)

    def over(self, memory: Array) -> Buffer:
        return Buffer(memory.ctypes.data, memory, memory.nbytes)

    def vacate(self, buffer: Buffer) -> None:
        """Give the pages of a guarded buffer back to the system."""
        first = -(-calls.address(buffer.whole) // mmap.PAGESIZE) * mmap.PAGESIZE
        size = calls.address(buffer.whole) + buffer.nbytes + 2 * GUARD - first
        ctypes.CDLL(None).madvise(ctypes.c_void_p(first), ctypes.c_size_t(size), _DONT_NEED)

    def adopt(self) -> None:
        forking.adopt(self.kind)
        arithmetic.reset()

    def plain_arithmetic(self) -> AbstractContextManager[None]:
        return arithmetic.plain()

    def write(self, target: Any, data: Array, offset: int = 0) -> None:
        ctypes.memmove(calls.address(target) + offset, data.ctypes.data, data.nbytes)

    def read(self, target: Any, data: Array, offset: int = 0) -> None:
        ctypes.memmove(data.ctypes.data, calls.address(target) + offset, data.nbytes)

    def fill(self, target: Any, byte: int, nbytes: int) -> None:
        ctypes.memset(calls.address(target), byte, nbytes)

    @property
    def last_cache(self) -> int | None:
        return caches.last_level()

    def layout(self, spec: ArraySpec, array: Any) -> ArrayLayout:
        """The layout of a NumPy array."""
        if not isinstance(array, np.ndarray):
            raise ArgumentError(f"{spec.argument.name}: of type {type(array).__name__}; pass a NumPy array")
        if type(array) is not np.ndarray and hasattr(array, "mask"):  # numpy.ma itself is slow to import
            raise ArgumentError(f"{spec.argument.name}: is masked, but kernels ignore masks; pass .filled()")
        return ArrayLayout(array.shape, array.dtype, array.strides, array.flags.writeable)

    def handle(self, spec: ArraySpec, array: Any) -> int:
        """The address of a NumPy array."""
        check_array(spec, self.layout(spec, array))
        return int(array.ctypes.data)

    def stream(self, stream: Any, array: Any) -> None:
        """None: the host has no streams."""
        if stream is not None:
            raise ArgumentError("stream: the host has no streams; leave it out")


class _ClockTimer:
    """Measures with the monotonic clock, because a call on the host has finished when it returns.

    returned_ms: the times that kernels return; if there are any, they are what is measured.
    """

    def __init__(self, returned_ms: list[float]) -> None:
        self._elapsed_ms = self._start = 0.0
        self._returned_ms = returned_ms

    def start(self) -> None:
        self._returned_ms.clear()
        self._start = time.perf_counter()

    def stop(self) -> None:
        self._elapsed_ms = (time.perf_counter() - self._start) * 1e3
        if self._returned_ms:
            self._elapsed_ms = sum(self._returned_ms)

    def finished(self) -> bool:
        return True

    def milliseconds(self) -> float:
        return self._elapsed_ms
