"""This machine's processor: a shared library is loaded, and called in place."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import platform
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tuner.devices import build_cache
from tuner.devices.arguments import Given, Wanted, check_array
from tuner.devices.base import GUARD, Array, Buffer, Device, Function
from tuner.devices.compiler import Build
from tuner.devices.host import BACKEND
from tuner.devices.host.compiler import HostCompiler, processor, version
from tuner.errors import ArgumentError, DeviceError, LaunchError
from tuner.space.model import Limits
from tuner.space.source import Source

_ALIGNMENT = 64  # a cache line
_FLUSHED, _SMALLEST_CACHE = 2, 32 << 20  # how many times the last cache is written to; its bytes, if not known
_C_TYPES = {
    "float32": ctypes.c_float,
    "float64": ctypes.c_double,
    "int8": ctypes.c_int8,
    "uint8": ctypes.c_uint8,
    "int16": ctypes.c_int16,
    "int32": ctypes.c_int32,
    "uint32": ctypes.c_uint32,
    "int64": ctypes.c_int64,
    "uint64": ctypes.c_uint64,
}


class HostDevice(Device):
    """The processor, with all the cores that OpenMP gives."""

    backend = BACKEND
    on_processor = True

    def __init__(self, number: int = 0) -> None:
        if number:
            raise DeviceError(f"device host:{number}: there is one host; write --device host")
        self.compiler: HostCompiler = HostCompiler.found()
        self.id = "host:0"
        self.name = f"{processor()} x{len(os.sched_getaffinity(0))}"
        self.architecture = platform.machine()
        self.memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES")
        self.limits = Limits()

    @property
    def toolchain(self) -> str:
        return version(tuple(self.compiler.command))

    def load(self, build: Build, source: Source) -> Function:
        name = self.compiler.key(source)
        if build_cache.read(name) == build.binary:  # whole, and no other's: a damaged library takes the process down
            with contextlib.suppress(LaunchError):  # another process may have swept it
                return self._opened(build_cache.folder() / name, source)
        with tempfile.NamedTemporaryFile(suffix=".so") as file:
            file.write(build.binary)
            file.flush()
            return self._opened(Path(file.name), source)

    def _opened(self, path: Path, source: Source) -> Function:
        try:
            library = ctypes.CDLL(str(path))
            function = library[source.kernel]
        except (OSError, AttributeError) as error:
            raise LaunchError(f"loading {source.kernel}: {error}") from None
        function.restype = None
        return Function(function, source.kernel, source.geometry)

    def bind(
        self, function: Function, arguments: Sequence[Any], stream: None = None, keep: object = None
    ) -> Callable[[], None]:
        run, values = function.handle, _as_c(function, arguments)

        def call(_keep: object = keep) -> None:
            run(*values)

        return call

    def launcher(
        self, function: Function, arguments: Sequence[Any], wanted: Sequence[Wanted]
    ) -> Callable[[Sequence[Any], Any, Any], None]:
        fixed = _as_c(function, arguments)
        changing = [position for position, argument in enumerate(arguments) if argument is None]
        scalar = [position for position, argument in enumerate(arguments) if isinstance(argument, np.generic)]

        def call(arrays: Sequence[Any], stream: Any, scalars: Any) -> None:
            addresses = self.handles(wanted, arrays)
            self.stream(stream, arrays[0])
            given = fixed.copy()
            for position, address in zip(changing, addresses, strict=True):
                given[position] = ctypes.c_void_p(address)
            for position, value in zip(scalar, scalars, strict=True):
                given[position] = value
            function.handle(*given)

        return call

    def packed(self, function: Function, scalars: Sequence[Any]) -> list[Any]:
        return _as_c(function, scalars)

    def synchronize(self) -> None:
        """A call returns when it is done."""

    def timer(self) -> _Timer:
        return _Timer()

    def allocate(self, nbytes: int, guard: int = GUARD) -> Buffer:
        try:
            whole = np.empty(nbytes + 2 * guard + _ALIGNMENT, dtype=np.uint8)
        except MemoryError:
            raise DeviceError(f"host: {nbytes} bytes do not fit; try a smaller size") from None
        skip = -whole.ctypes.data % _ALIGNMENT
        guarded = whole[skip : skip + nbytes + 2 * guard]
        return Buffer(guarded.ctypes.data + guard, guarded, nbytes)

    def write(self, target: Any, data: Array) -> None:
        address = target if isinstance(target, int) else target.ctypes.data
        ctypes.memmove(address, data.ctypes.data, data.nbytes)

    def read(self, target: Any, data: Array, offset: int = 0) -> None:
        address = target if isinstance(target, int) else target.ctypes.data
        ctypes.memmove(data.ctypes.data, address + offset, data.nbytes)

    def fill(self, target: Any, byte: int, nbytes: int) -> None:
        ctypes.memset(target if isinstance(target, int) else target.ctypes.data, byte, nbytes)

    def flush(self) -> None:
        self._flushing.fill(0)

    @functools.cached_property
    def _flushing(self) -> Array:
        try:
            last_level = os.sysconf("SC_LEVEL3_CACHE_SIZE")
        except ValueError:  # not a name that this system knows
            last_level = 0
        return np.empty(_FLUSHED * max(last_level, _SMALLEST_CACHE), np.uint8)

    def handle(self, wanted: Wanted, array: Any) -> int:
        """The address of a NumPy array."""
        if not isinstance(array, np.ndarray):
            raise ArgumentError(f"{wanted.argument.name}: of type {type(array).__name__}; pass a NumPy array")
        if type(array) is not np.ndarray and hasattr(array, "mask"):  # numpy.ma itself is slow to import
            raise ArgumentError(f"{wanted.argument.name}: is masked, which a kernel does not see; pass .filled()")
        check_array(wanted, Given(array.shape, array.dtype, array.strides, array.flags.writeable))
        return int(array.ctypes.data)

    def stream(self, given: Any, array: Any) -> None:
        """None: a call on the host returns when it is done."""
        if given is not None:
            raise ArgumentError("stream: the host has none; leave it out")


def _as_c(function: Function, arguments: Sequence[Any]) -> list[Any]:
    """Addresses and scalars as C has them; None stays. Raises LaunchError for a scalar that C does not have."""
    try:
        return [
            _C_TYPES[a.dtype.name](a.item()) if isinstance(a, np.generic) else a if a is None else ctypes.c_void_p(a)
            for a in arguments
        ]
    except KeyError as error:
        raise LaunchError(f"arguments of {function.kernel}: C has no {error.args[0]}") from None


class _Timer:
    """The monotonic clock: a call on the host is over when it returns."""

    def __init__(self) -> None:
        self._start = self._stop = 0.0

    def start(self) -> None:
        self._start = time.perf_counter()

    def stop(self) -> None:
        self._stop = time.perf_counter()

    def finished(self) -> bool:
        return True

    def milliseconds(self) -> float:
        return (self._stop - self._start) * 1e3
