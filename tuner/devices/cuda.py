"""NVIDIA GPUs: NVRTC compiles to a cubin for the exact architecture; PyCUDA loads, launches and times it."""

from __future__ import annotations

import atexit
import ctypes
import functools
import struct
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tuner.devices import nvrtc
from tuner.devices.base import GUARD, Array, Buffer, Device, Function, Library, check_array
from tuner.errors import ArgumentError, DeviceError, LaunchError
from tuner.source import Source
from tuner.space import Limits

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
        self._context = self._device.retain_primary_context()
        self._context.push()
        atexit.register(self.close)  # a context that is still current at exit aborts the process
        at = driver.device_attribute
        get = self._device.get_attribute
        major, minor = self._device.compute_capability()
        self._number = number
        self.id = f"cuda:{number}"
        self.name = self._device.name()
        # From Hopper on, the instructions that make a chip fast exist only in its own architecture, sm_90a.
        self.architecture = f"sm_{major}{minor}" + ("a" if major >= 9 else "")
        self.memory = driver.mem_get_info()[0]
        self.limits = Limits(
            max_threads=get(at.MAX_THREADS_PER_BLOCK),
            max_shared_memory=get(at.MAX_SHARED_MEMORY_PER_BLOCK_OPTIN),
            warp_size=get(at.WARP_SIZE),
            compute_capability=major + minor / 10,
            max_block=(get(at.MAX_BLOCK_DIM_X), get(at.MAX_BLOCK_DIM_Y), get(at.MAX_BLOCK_DIM_Z)),
            max_grid=(get(at.MAX_GRID_DIM_X), get(at.MAX_GRID_DIM_Y), get(at.MAX_GRID_DIM_Z)),
        )

    @property
    def toolchain(self) -> str:  # type: ignore[override]
        version = driver.get_driver_version()
        return f"{self.compiler()}, CUDA driver {version // 1000}.{version % 1000 // 10}"

    def compiler(self) -> str:
        return f"NVRTC {nvrtc.version()}"

    def compile(self, source: Source) -> bytes:
        return nvrtc.compile_cubin(source, self.architecture)

    def load(self, binary: bytes, source: Source) -> Function:
        try:
            module = driver.module_from_buffer(binary)
            function = module.get_function(source.kernel)
            if source.geometry.shared_memory > 48 * 1024:
                attribute = driver.function_attribute.MAX_DYNAMIC_SHARED_SIZE_BYTES
                function.set_attribute(attribute, source.geometry.shared_memory)
        except driver.Error as error:
            raise LaunchError(f"loading {source.kernel}: {error}") from None
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
            try:
                launch(grid, block, packed, shared, None)
            except driver.Error as error:
                raise LaunchError(f"launching {function.kernel}: {error}") from None

        return call

    def synchronize(self) -> None:
        try:
            driver.Context.synchronize()
        except driver.Error as error:
            raise LaunchError(f"running: {error}") from None

    def timer(self) -> _Timer:
        return _Timer()

    def allocate(self, nbytes: int) -> Buffer:
        try:
            whole = driver.mem_alloc(nbytes + 2 * GUARD)
        except driver.Error:
            free = driver.mem_get_info()[0]
            raise DeviceError(f"{self.id}: {nbytes} bytes do not fit; {free} are free; try a smaller size") from None
        return Buffer(int(whole) + GUARD, whole, nbytes)

    def write(self, target: Any, data: Array) -> None:
        _checked(driver.memcpy_htod, int(target), data)

    def read(self, target: Any, data: Array, offset: int = 0) -> None:
        _checked(driver.memcpy_dtoh, data, int(target) + offset)

    def fill(self, target: Any, byte: int, nbytes: int) -> None:
        _checked(driver.memset_d8, int(target), byte, nbytes)

    def pointer(self, argument: str, value: Any, shape: tuple[int, ...], dtype: str) -> int:
        """The address in `__cuda_array_interface__`, which PyCUDA, CuPy and torch arrays all have."""
        try:
            interface = value.__cuda_array_interface__
        except (AttributeError, TypeError):
            raise ArgumentError(
                f"{argument}: a {type(value).__name__} is not on the GPU; pass an array that is"
            ) from None
        check_array(argument, (interface["shape"], interface["typestr"]), (shape, dtype), interface.get("strides"))
        address = int(interface["data"][0])
        where = _ordinal(address)
        if where != self._number:
            place = "no GPU" if where is None else f"cuda:{where}"
            raise ArgumentError(f"{argument}: lies on {place}; the kernel was loaded on {self.id}")
        return address

    def library(self, routine: str, arguments: dict[str, Any]) -> Library | None:
        from tuner.devices import cublas

        return cublas.library(routine, arguments)

    def close(self) -> None:
        atexit.unregister(self.close)
        if self._context is not None:
            self._context.pop()
            self._context = None


def _ordinal(address: int) -> int | None:
    """The number of the GPU whose memory `address` is in; None for any other address. PyCUDA does not ask this."""
    device_ordinal, found = 9, ctypes.c_int(-1)
    status = _libcuda().cuPointerGetAttribute(ctypes.byref(found), device_ordinal, ctypes.c_uint64(address))
    return found.value if status == 0 else None


@functools.cache
def _libcuda() -> ctypes.CDLL:
    return ctypes.CDLL("libcuda.so.1")


def _checked(copy: Callable[..., None], *arguments: Any) -> None:
    try:
        copy(*arguments)
    except driver.Error as error:
        raise LaunchError(f"copying: {error}") from None


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
            raise LaunchError(f"running: {error}") from None

    def milliseconds(self) -> float:
        return float(self._stop.time_since(self._start))
