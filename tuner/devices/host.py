"""This machine's processor: C11 with OpenMP, compiled by $CC (or cc) into a shared library and called in place."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import platform
import shlex
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tuner.devices import build_cache
from tuner.devices.arguments import Given, Wanted, check_array
from tuner.devices.base import GUARD, Array, Buffer, Device, Function
from tuner.devices.compiler import Build, Compiler
from tuner.errors import ArgumentError, BuildError, DeviceError, LaunchError
from tuner.space.model import Limits
from tuner.space.source import Source

OPTIONS = ("-std=c11", "-O3", "-march=native", "-fopenmp", "-shared", "-fPIC")
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


def count() -> int:
    """1 where there is a C compiler."""
    return int(_command() is not None)


def _command() -> list[str] | None:
    """$CC, or the first compiler on the path, as the start of a command line."""
    words = shlex.split(os.environ.get("CC", "")) or [next((c for c in ("cc", "gcc", "clang") if shutil.which(c)), "")]
    found = shutil.which(words[0]) if words[0] else None
    return [found, *words[1:]] if found else None


@functools.cache
def _processor() -> str:
    """The processor's name as /proc/cpuinfo has it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine())


@functools.cache
def _version(command: tuple[str, ...]) -> str:
    """The first line of the compiler's --version."""
    shown = subprocess.run([*command, "--version"], capture_output=True, text=True, check=False)
    return (shown.stdout.splitlines() or [command[0]])[0]


class HostCompiler(Compiler):
    """A C compiler, given as the start of a command line, making shared libraries for this very processor."""

    kind = "host"

    def __init__(self, command: list[str], processor: str) -> None:
        self.architecture = platform.machine()
        self.command = command
        self._processor = processor

    @staticmethod
    def found() -> HostCompiler:
        """$CC, or the first compiler on the path. Raises DeviceError where there is none."""
        command = _command()
        if command is None:
            raise DeviceError("device host: no C compiler found; install one (apt-get install gcc) or set CC")
        return HostCompiler(command, _processor())

    def name(self) -> str:
        """The compiler's file, size and time of change; asking its version would start it."""
        binary = Path(self.command[0]).resolve()
        status = binary.stat()
        return f"{binary} {status.st_size} {status.st_mtime_ns} {self.command[1:]} {self._processor} {OPTIONS}"

    def compile(self, source: Source) -> Build:
        with tempfile.TemporaryDirectory(prefix="tuner-") as folder:
            text, built = Path(folder, f"{source.kernel}.c"), Path(folder, "kernel.so")
            text.write_text(source.text, encoding="utf-8")
            command = [*self.command, *OPTIONS, *source.options, "-o", str(built), str(text), "-lm"]
            done = subprocess.run(command, capture_output=True, text=True, check=False, errors="replace")
            if done.returncode:
                raise BuildError(done.stderr.replace(f"{folder}/", "").strip() or f"{command[0]} failed")
            return Build(built.read_bytes())


class HostDevice(Device):
    """The processor, with all the cores that OpenMP gives."""

    kind = "host"
    language = "c"
    on_processor = True

    def __init__(self, number: int = 0) -> None:
        if number:
            raise DeviceError(f"device host:{number}: there is one host; write --device host")
        self.compiler: HostCompiler = HostCompiler.found()
        self.id = "host:0"
        self.name = f"{_processor()} x{len(os.sched_getaffinity(0))}"
        self.architecture = platform.machine()
        self.memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES")
        self.limits = Limits()

    @property
    def toolchain(self) -> str:
        return _version(tuple(self.compiler.command))

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

    def bind(self, function: Function, arguments: Sequence[Any], stream: None = None) -> Callable[[], None]:
        run, values = function.handle, _as_c(function, arguments)

        def call() -> None:
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
