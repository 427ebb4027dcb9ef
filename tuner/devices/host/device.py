"""The device class of this machine's CPU, which loads shared libraries and calls them in this process."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import math
import mmap
import os
import platform
import re
import signal
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np

from tuner import paths
from tuner.devices import build_cache, caches, environment, forking, settings
from tuner.devices.arguments import ArrayLayout, ArraySpec, check_array
from tuner.devices.base import GUARD, Array, Buffer, Device
from tuner.devices.compiler import Build, missing_kernel
from tuner.devices.conditions import Conditions
from tuner.devices.host import BACKEND, arithmetic, openmp
from tuner.devices.host.compiler import CODE, HostCompiler, default, processor, version
from tuner.devices.settings import MEMORY
from tuner.devices.work import Action, Copy, Function, Move, Passed, Run, Series, While, Work, Zero
from tuner.errors import ArgumentError, DeviceError, EnvironmentTrouble, LaunchError, OutOfMemory
from tuner.space import dtypes
from tuner.space.scope import Limits
from tuner.space.sources.source import Source
from tuner.space.step import Geometry

_ALIGNMENT = 64  # bytes of a cache line
_LARGE = 4 << 20  # bytes from which on NumPy asks for large pages
_DONT_NEED = 4  # MADV_DONTNEED
_memmove: Callable[[int, int, int], Any] = ctypes.memmove
_memset: Callable[[int, int, int], Any] = ctypes.memset
# What the loader says of a kernel; anything else that it says is of files, folders and memory.
_OF_KERNEL = re.compile(r"undefined symbol|static TLS|executable stack|unsupported version|relocation|not found")
_REALS = {4: ctypes.c_float, 8: ctypes.c_double}  # by size in bytes


def _pair(kind: type) -> type[ctypes.Structure]:
    """A struct of two numbers, which the C calling convention passes like a complex number."""
    return type("Pair", (ctypes.Structure,), {"_fields_": [("real", kind), ("imaginary", kind)]})


_PAIRS = {8: _pair(ctypes.c_float), 16: _pair(ctypes.c_double)}


class HostDevice(Device):
    """The CPU, with all cores that OpenMP uses."""

    kind, language = BACKEND.kind, BACKEND.language
    runs_in_process = on_processor = True

    def __init__(self, number: int = 0) -> None:
        if number:
            raise DeviceError(f"device {self.kind}:{number}: the only one is {self.kind}:0; write --device {self.kind}")
        self.compiler: HostCompiler = default()
        self.id = f"{self.kind}:0"
        self.units = len(os.sched_getaffinity(0))
        self.name = f"{processor()} x{self.units}"
        self.architecture = platform.machine()
        self.memory = environment.available_memory()
        self.limits = Limits()
        self.conditions = self._conditions()
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
        name = self.compiler.key(source)
        if build_cache.read(name) == build.binary:  # a damaged library would crash the process
            with contextlib.suppress(LaunchError, EnvironmentTrouble):  # another process may have deleted it
                return self._open(build_cache.folder() / name, source)
        try:
            with tempfile.NamedTemporaryFile(suffix=".so", dir=paths.temporary()) as file:
                file.write(build.binary)
                file.flush()
                return self._open(Path(file.name), source)
        except OSError as error:
            raise environment.of_error(error) from None

    def _open(self, path: Path, source: Source) -> ctypes.CDLL:
        try:
            library = ctypes.CDLL(str(path))
        except OSError as error:
            what = f"loading {source.kernel}: {str(error).replace(str(path), path.name)}"
            if _OF_KERNEL.search(what):
                raise LaunchError(what) from None
            trouble = environment.of_log(str(error), f"loading {source.kernel}", [path.parent])
            raise trouble or environment.trouble(environment.OTHER, what) from None
        for kernel in source.kernels:
            if not hasattr(library, kernel):
                raise LaunchError(missing_kernel(source, kernel))
        return library

    def function(self, program: ctypes.CDLL, kernel: str, geometry: Geometry) -> Function:
        function = program[kernel]
        function.restype = None
        return Function(function, kernel, geometry)

    def self_timed(self, function: Function) -> Function:
        function.handle.restype = ctypes.c_float

        def call(*values: Any) -> None:
            milliseconds = function.handle(*values)
            if not 0 <= milliseconds < math.inf:
                raise LaunchError(f"{function.kernel} returned {milliseconds:g} as its time in ms; return its time")
            self._returned_ms.append(milliseconds)

        return Function(call, function.kernel, function.geometry)

    def bind(
        self, work: Work, handles: Sequence[Any] = (), stream: None = None, keep: object = None
    ) -> Callable[[], None]:
        values = _c_values(work.arguments)
        for position, handle in zip(work.positions(Passed), handles, strict=True):
            values[position] = ctypes.c_void_p(_address(handle))
        actions = [_prepared(action)(values) for action in work.actions]
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
        fixed = _c_values(work.arguments)
        changing, scalar = work.positions(Passed), work.scalars
        actions = [*map(_prepared, work.actions)]
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
        return _c_values(scalars)

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
            whole = _mapped(size) if guard else np.empty(size, dtype=np.uint8)
        except (MemoryError, OSError):
            raise OutOfMemory(f"host: {nbytes} bytes do not fit; try a smaller size") from None
        skip = -whole.ctypes.data % _ALIGNMENT or _ALIGNMENT * bool(guard)
        guarded = whole[skip : skip + nbytes + 2 * guard]
        return Buffer(guarded.ctypes.data + guard, guarded, nbytes)

    def vacate(self, buffer: Buffer) -> None:
        """Give the pages of a guarded buffer back to the system."""
        first = -(-_address(buffer.whole) // mmap.PAGESIZE) * mmap.PAGESIZE
        size = _address(buffer.whole) + buffer.nbytes + 2 * GUARD - first
        ctypes.CDLL(None).madvise(ctypes.c_void_p(first), ctypes.c_size_t(size), _DONT_NEED)

    def adopt(self) -> None:
        forking.adopt(self.kind)
        arithmetic.reset()

    def plain_arithmetic(self) -> AbstractContextManager[None]:
        return arithmetic.plain()

    def write(self, target: Any, data: Array, offset: int = 0) -> None:
        ctypes.memmove(_address(target) + offset, data.ctypes.data, data.nbytes)

    def read(self, target: Any, data: Array, offset: int = 0) -> None:
        ctypes.memmove(data.ctypes.data, _address(target) + offset, data.nbytes)

    def fill(self, target: Any, byte: int, nbytes: int) -> None:
        ctypes.memset(_address(target), byte, nbytes)

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


def _mapped(size: int) -> Array:
    """Memory in a mapping of its own. So a forked process that is the first to write it has pages of its own, and large
    ones as NumPy's arrays have them. Raises OSError if it does not fit."""
    mapping = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if size >= _LARGE and hasattr(mmap, "MADV_HUGEPAGE"):
        with contextlib.suppress(OSError):  # the system has no large pages
            mapping.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(mapping, np.uint8)


def _address(target: Any) -> int:
    """The address of a buffer's `handle`, which is an address already, or of its `whole`."""
    return target if isinstance(target, int) else int(target.ctypes.data)


def _c_values(arguments: Sequence[Any]) -> list[Any]:
    """Convert addresses and scalars to C types. Passed arguments remain, for `bind` or a launch to replace."""
    return [
        _c_scalar(a) if isinstance(a, np.generic) else a if isinstance(a, Passed) else ctypes.c_void_p(_address(a))
        for a in arguments
    ]


def _prepared(action: Action) -> Callable[[Sequence[Any]], Callable[[], None]]:
    """A function from the C values of the work's arguments to a function that runs one action."""
    match action:
        case Run(function, arguments):
            return lambda values: functools.partial(function.handle, *(values[position] for position in arguments))
        case Copy(target, source, nbytes):
            return lambda values: functools.partial(_memmove, _address(target), values[source].value, nbytes)
        case Zero(target, nbytes):
            return lambda values: functools.partial(_memset, _address(target), 0, nbytes)
        case Move(to, source, nbytes):
            return lambda values: functools.partial(_memmove, values[to].value, values[source].value, nbytes)
        case Series():
            return _prepared_series(action)
        case While():
            return _prepared_while(action)


def _prepared_series(series: Series) -> Callable[[Sequence[Any]], Callable[[], None]]:
    changes = series.changes(_c_scalar)  # once, because there may be many

    def bound(values: Sequence[Any]) -> Callable[[], None]:
        runs = [(run.function.handle, [values[position] for position in run.arguments]) for run in series.runs]

        def call() -> None:
            for number in series.order:
                run, own = changes[number]
                handle, arguments = runs[run]
                for index, value in own:
                    arguments[index] = value
                handle(*arguments)

        return call

    return bound


def _prepared_while(action: While) -> Callable[[Sequence[Any]], Callable[[], None]]:
    passes, moves = [*map(_prepared_series, action.passes)], [*map(_prepared, action.moves)]

    def bound(values: Sequence[Any]) -> Callable[[], None]:
        starts, moving = [each(values) for each in passes], [each(values) for each in moves]
        number = ctypes.c_int32.from_address(values[action.flag].value)

        def start(which: int) -> bool:
            number.value = 0
            starts[which]()
            return bool(number.value)

        def move() -> None:
            for each in moving:
                each()

        return lambda: action.run(start, move)

    return bound


@functools.cache
def _c_type(dtype: np.dtype[Any]) -> Any:
    """The ctypes type of a struct or of one of its fields, with C's own layout."""
    if dtype.subdtype is not None:
        element, shape = dtype.subdtype
        return _c_type(element) * math.prod(shape)
    if dtype.fields is None:
        return _PAIRS[dtype.itemsize] if dtype.kind == "c" else np.ctypeslib.as_ctypes_type(dtype)
    fields = [(name, _c_type(dtype.fields[name][0])) for name in dtype.names or ()]
    return type("Struct", (ctypes.Structure,), {"_fields_": fields})


def _c_scalar(scalar: np.generic) -> Any:
    """Convert a scalar to a ctypes value that the C calling convention passes like the scalar's type."""
    if isinstance(scalar, np.void):
        return _c_type(scalar.dtype).from_buffer_copy(scalar.tobytes())
    dtype, content = dtypes.of(scalar.dtype), scalar.tobytes()
    if dtype.kind == "complex":
        return _PAIRS[dtype.itemsize].from_buffer_copy(content)
    if dtype.kind == "real" and not dtype.foreign:  # float16 is passed in the low bits of a float's register
        kind = _REALS.get(dtype.itemsize, ctypes.c_float)
        return kind.from_buffer_copy(content.ljust(ctypes.sizeof(kind), b"\0"))
    return np.ctypeslib.as_ctypes_type(dtype.bits if dtype.foreign else dtype.numpy).from_buffer_copy(content)


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
