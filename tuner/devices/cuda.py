"""NVIDIA GPUs: NVRTC compiles to a cubin for the exact architecture; PyCUDA loads, launches and times it."""

from __future__ import annotations

import atexit
import ctypes
import functools
import struct
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tuner.devices import nvml, nvrtc, peak
from tuner.devices.base import GUARD, Array, Buffer, Build, Device, Function, Given, Library, Sensors, check_array
from tuner.devices.nvrtc import NvrtcCompiler
from tuner.errors import ArgumentError, DeviceError, LaunchError
from tuner.source import Source
from tuner.space import Argument, Limits

try:
    import pycuda.driver as driver
except ImportError as error:  # libcuda.so is missing: there is no driver, so no GPU
    driver = None
    _MISSING = str(error)


def count() -> int:
    """How many GPUs there are; 0 without a driver."""
    if driver is None:
        return 0
    try:
        driver.init()
        return int(driver.Device.count())
    except driver.Error:
        return 0


class CudaDevice(Device):
    """One GPU, in its primary context: the one that CuPy and torch use too."""

    kind = "cuda"
    language = "cuda"
    asynchronous = True

    def __init__(self, number: int = 0) -> None:
        if driver is None:
            raise DeviceError(f"device cuda: no NVIDIA driver ({_MISSING}); use --device opencl or host")
        found = count()
        if number >= found:
            raise DeviceError(f"device cuda:{number}: this machine has {found} NVIDIA GPUs; see `tune devices`")
        self._device = driver.Device(number)
        self._number = number
        self._flushing: Any = None
        self._activate()
        at = driver.device_attribute
        get = self._device.get_attribute
        major, minor = self._device.compute_capability()
        self.id = f"cuda:{number}"
        self.name = self._device.name()
        # From Hopper on, the instructions that make a chip fast exist only in its own architecture, sm_90a.
        self.architecture = f"sm_{major}{minor}" + ("a" if major >= 9 else "")
        self.compiler = NvrtcCompiler(self.architecture)
        self.memory = driver.mem_get_info()[0]
        self.peak = peak.fp32((major, minor), get(at.MULTIPROCESSOR_COUNT), get(at.CLOCK_RATE))
        self.limits = Limits(
            max_threads=get(at.MAX_THREADS_PER_BLOCK),
            max_shared_memory=get(at.MAX_SHARED_MEMORY_PER_BLOCK_OPTIN),
            warp_size=get(at.WARP_SIZE),
            compute_capability=major + minor / 10,
            max_block=(get(at.MAX_BLOCK_DIM_X), get(at.MAX_BLOCK_DIM_Y), get(at.MAX_BLOCK_DIM_Z)),
            max_grid=(get(at.MAX_GRID_DIM_X), get(at.MAX_GRID_DIM_Y), get(at.MAX_GRID_DIM_Z)),
            max_registers=get(at.MAX_REGISTERS_PER_BLOCK),
            multiprocessor_threads=get(at.MAX_THREADS_PER_MULTIPROCESSOR),
            multiprocessor_blocks=get(at.MAX_BLOCKS_PER_MULTIPROCESSOR),
            multiprocessor_registers=get(at.MAX_REGISTERS_PER_MULTIPROCESSOR),
            multiprocessor_shared_memory=get(at.MAX_SHARED_MEMORY_PER_MULTIPROCESSOR),
            reserved_shared_memory=get(at.RESERVED_SHARED_MEMORY_PER_BLOCK),
        )

    def _activate(self) -> None:
        """Make this device's primary context the one that the calling thread works in."""
        if getattr(_thread, "number", None) != self._number:
            if getattr(_thread, "number", None) is not None:
                driver.Context.pop()
            _primary_context(self._number).push()
            _thread.number = self._number

    @property
    def toolchain(self) -> str:
        version = driver.get_driver_version()
        return f"NVRTC {nvrtc.version()}, CUDA driver {version // 1000}.{version % 1000 // 10}"

    def load(self, build: Build, source: Source) -> Function:
        self._activate()
        try:
            module = driver.module_from_buffer(build.binary)
            function = module.get_function(source.kernel)
            if source.geometry.shared_memory > 48 * 1024:
                attribute = driver.function_attribute.MAX_DYNAMIC_SHARED_SIZE_BYTES
                function.set_attribute(attribute, source.geometry.shared_memory)
        except driver.Error as error:
            raise _failed(f"loading {source.kernel}", error) from None
        return Function((module, function), source.kernel, source.geometry)

    def bind(self, function: Function, arguments: Sequence[Any]) -> Callable[[], None]:
        geometry = function.geometry
        for axis, blocks, most in zip("xyz", geometry.grid, self.limits.max_grid, strict=True):
            if blocks > most:
                raise LaunchError(f"{blocks} blocks in {axis}; the device launches at most {most}")
        values = [a if isinstance(a, np.generic) else int(a) for a in arguments]
        codes = [a.dtype.char if isinstance(a, np.generic) else "P" for a in values]
        packed = struct.pack("".join(codes), *values)  # native alignment: as the kernel lays out its parameters
        launch, grid, block, shared = (
            function.handle[1]._launch_kernel,
            geometry.grid,
            geometry.block,
            geometry.shared_memory,
        )

        def call() -> None:
            self._activate()
            try:
                launch(grid, block, packed, shared, None)
            except driver.Error as error:
                raise _failed(f"launching {function.kernel}", error) from None

        return call

    def synchronize(self) -> None:
        self._activate()
        try:
            driver.Context.synchronize()
        except driver.Error as error:
            raise _failed("running", error) from None

    def timer(self) -> _Timer:
        self._activate()
        return _Timer()

    def allocate(self, nbytes: int, guard: int = GUARD) -> Buffer:
        self._activate()
        try:
            whole = driver.mem_alloc(nbytes + 2 * guard)
        except driver.Error:
            free = driver.mem_get_info()[0]
            raise DeviceError(f"{self.id}: {nbytes} bytes do not fit; {free} are free; try a smaller size") from None
        return Buffer(int(whole) + guard, whole, nbytes)

    def write(self, target: Any, data: Array) -> None:
        self._activate()
        _checked(driver.memcpy_htod, int(target), data)

    def read(self, target: Any, data: Array, offset: int = 0) -> None:
        self._activate()
        _checked(driver.memcpy_dtoh, data, int(target) + offset)

    def fill(self, target: Any, byte: int, nbytes: int) -> None:
        self._activate()
        _checked(driver.memset_d8, int(target), byte, nbytes)

    def flush(self) -> None:
        self._activate()
        nbytes = 2 * self._device.get_attribute(driver.device_attribute.L2_CACHE_SIZE)
        if self._flushing is None:
            self._flushing = driver.mem_alloc(nbytes)
        driver.memset_d8_async(int(self._flushing), 0, nbytes)

    def free_memory(self) -> int | None:
        self._activate()
        return int(driver.mem_get_info()[0])

    @functools.cached_property
    def sensors(self) -> Sensors | None:  # type: ignore[override]  # computed when first asked for
        try:
            return nvml.Sensors(self._device.pci_bus_id())
        except OSError:
            return None

    def pointer(self, argument: Argument, value: Any, shape: tuple[int, ...]) -> int:
        """The address in `__cuda_array_interface__`, which PyCUDA, CuPy and torch arrays all have."""
        try:
            interface = value.__cuda_array_interface__
        except (AttributeError, TypeError, RuntimeError):
            kind = type(value).__name__
            raise ArgumentError(f"{argument.name}: a {kind} is not on the GPU; pass an array that is") from None
        address, read_only = interface["data"]
        dtype = np.dtype(interface["typestr"])
        check_array(argument, Given(tuple(interface["shape"]), dtype, interface.get("strides"), not read_only), shape)
        where = _ordinal(int(address))
        if where != self._number:
            place = "no GPU" if where is None else f"cuda:{where}"
            raise ArgumentError(f"{argument.name}: lies on {place}; the kernel was loaded on {self.id}")
        return int(address)

    def library(self, routine: str, arguments: dict[str, Any], dtypes: dict[str, str]) -> Library | None:
        from tuner.devices import cublas

        return cublas.library(routine, arguments, dtypes)


_thread = threading.local()  # number: the device whose context the thread works in, if it is one of ours


@functools.cache
def _primary_context(number: int) -> Any:
    """The context that CuPy and torch use too, retained once for the process."""
    context = driver.Device(number).retain_primary_context()
    atexit.register(_leave)
    return context


def _leave() -> None:
    """A context that is still current at exit aborts the process."""
    if getattr(_thread, "number", None) is not None:
        driver.Context.pop()
        _thread.number = None


def _ordinal(address: int) -> int | None:
    """The number of the GPU whose memory `address` is in; None for any other address. PyCUDA does not ask this."""
    device_ordinal, found = 9, ctypes.c_int(-1)
    status = _libcuda().cuPointerGetAttribute(ctypes.byref(found), device_ordinal, ctypes.c_uint64(address))
    return found.value if status == 0 else None


@functools.cache
def _libcuda() -> ctypes.CDLL:
    return ctypes.CDLL("libcuda.so.1")


_REASONS = ("illegal memory access", "misaligned address", "out of memory", "too many resources")


def _failed(what: str, error: Exception) -> LaunchError:
    """The error for what the driver said, with a reason of its own where a kernel did it."""
    text = str(error)
    return LaunchError(f"{what}: {text}", next((reason for reason in _REASONS if reason in text), None))


def _checked(copy: Callable[..., None], *arguments: Any) -> None:
    try:
        copy(*arguments)
    except driver.Error as error:
        raise _failed("copying", error) from None


class _Timer:
    """A pair of events on the default stream."""

    def __init__(self) -> None:
        self._start, self._stop = driver.Event(), driver.Event()

    def start(self) -> None:
        self._start.record()

    def stop(self) -> None:
        self._stop.record()

    def finished(self) -> bool:
        try:
            return bool(self._stop.query())
        except driver.Error as error:
            raise _failed("running", error) from None

    def milliseconds(self) -> float:
        return float(self._stop.time_since(self._start))
