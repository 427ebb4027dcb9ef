"""NVIDIA GPUs: NVRTC compiles to a cubin for the exact architecture; PyCUDA knows the devices, and the driver itself
loads, launches and times."""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import functools
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tuner.devices.arguments import Given, Wanted, address_check, check_array
from tuner.devices.base import GUARD, Array, Buffer, Device, Function, Library, Sensors
from tuner.devices.compiler import Build
from tuner.devices.cuda import BACKEND, compiler, driver, peak, sensors
from tuner.devices.cuda.arrays import Readers, kept_stream, stream_handle
from tuner.devices.cuda.compiler import NvrtcCompiler
from tuner.errors import ArgumentError, DeviceError, LaunchError
from tuner.space.model import Geometry, Limits
from tuner.space.source import Source

try:
    import pycuda.driver as cuda
except ImportError as error:  # libcuda.so is missing: there is no driver, so no GPU
    cuda = None
    _MISSING = str(error)

MOST_CHECKED = 64  # sets of addresses that a launcher knows to fit


def count() -> int:
    """How many GPUs there are; 0 without a driver."""
    if cuda is None:
        return 0
    try:
        cuda.init()
        return int(cuda.Device.count())
    except cuda.Error:
        return 0


class CudaDevice(Device):
    """One GPU, in the context that the thread which opens it works in, if that is one of this GPU; else in its primary
    one, which CuPy and torch use too."""

    backend = BACKEND
    asynchronous = True

    def __init__(self, number: int = 0) -> None:
        if cuda is None:
            raise DeviceError(f"device cuda: no NVIDIA driver ({_MISSING}); use --device opencl or host")
        found = count()
        if number >= found:
            raise DeviceError(f"device cuda:{number}: this machine has {found} NVIDIA GPUs; see `tune devices`")
        self._device = cuda.Device(number)
        self._number = number
        self._context = _context(self._device, number)
        at = cuda.device_attribute
        get = self._device.get_attribute
        major, minor = self._device.compute_capability()
        self.id = f"cuda:{number}"
        self.name = self._device.name()
        # From Hopper on, the instructions that make a chip fast exist only in its own architecture, sm_90a.
        self.architecture = f"sm_{major}{minor}" + ("a" if major >= 9 else "")
        self.compiler = NvrtcCompiler(self.architecture)
        self.memory = self.free_memory()
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

    @property
    def toolchain(self) -> str:
        version = cuda.get_driver_version()
        return f"NVRTC {compiler.version()}, CUDA driver {version // 1000}.{version % 1000 // 10}"

    def load(self, build: Build, source: Source) -> Function:
        geometry = source.geometry
        for axis, blocks, most in zip("xyz", geometry.grid, self.limits.max_grid, strict=True):
            if blocks > most:
                raise LaunchError(f"{blocks} blocks in {axis}; the device launches at most {most}")
        module = driver.Module(self._context, build.binary, source.kernel, geometry)
        return Function(module, source.kernel, geometry)

    def bind(
        self, function: Function, arguments: Sequence[Any], stream: Any = None, keep: object = None
    ) -> Callable[[], None]:
        where = 0 if stream is None else stream_handle(stream)
        launch = driver.Launch(function.handle, function.geometry, arguments, where)
        enqueue, what = launch.enqueue, f"launching {function.kernel}"

        def call(_keep: object = keep) -> None:
            if status := enqueue():
                self._context.again(what, status, launch.enqueue)  # which also keeps what the driver reads

        return call

    def launcher(
        self, function: Function, arguments: Sequence[Any], wanted: Sequence[Wanted]
    ) -> Callable[[Sequence[Any], Any, Any], None]:
        launch = driver.Launch(function.handle, function.geometry, arguments)
        config, enqueue = launch.config, launch.enqueue
        cells: Any = launch.cells  # takes any sequence in a slice, which its type does not say
        check, is_ours = address_check(wanted), driver.all_in(self._context)
        slow = functools.partial(self.handles, wanted)
        readers = Readers(wanted, self._number, is_ours if count() > 1 else None, slow)
        last: Sequence[int] = ()
        checked: set[tuple[int, ...]] = set()
        put: Any = None
        at = 0

        def call(arrays: Sequence[Any], stream: Any, scalars: Any) -> None:
            nonlocal last, put, at
            first = arrays[0] if arrays else None
            read, current = readers[type(first)]
            addresses = read(arrays)
            if addresses != last:
                these = tuple(addresses)
                if these not in checked:  # else they are aligned and apart again, and hardly ever of another context
                    check(addresses)
                    if not is_ours(addresses):
                        self._check_context(wanted, addresses)
                    if len(checked) >= MOST_CHECKED:
                        checked.clear()
                    checked.add(these)
                cells[launch.changing] = last = addresses
            if scalars is not put:
                cells[launch.scalars] = put = scalars
            where = current(first) if stream is None else stream_handle(stream)
            if where != at:
                config.stream = at = where
            if status := enqueue():
                self._context.again(f"launching {function.kernel}", status, enqueue)

        return call

    def packed(self, function: Function, scalars: Sequence[Any]) -> list[int]:
        return [driver.bits(scalar) for scalar in scalars]

    def _check_context(self, wanted: Sequence[Wanted], addresses: Sequence[int]) -> None:
        """Raise ArgumentError where an array lies in another context than the kernel. Memory of a pool has none."""
        with self._context.active():
            for one, address in zip(wanted, addresses, strict=True):
                if driver.context_of(address) not in (None, self._context.handle.value):
                    raise ArgumentError(
                        f"{one.argument.name}: lies in another context of cuda:{driver.device_of(address)} than the "
                        f"kernel, which was loaded on {self.id}; make that one current first (`import pycuda.autoinit` "
                        f"makes one), then load the kernel"
                    )

    def synchronize(self) -> None:
        self._context.call("running", "cuCtxSynchronize")

    def timer(self) -> _Timer:
        return _Timer(self._context)

    def allocate(self, nbytes: int, guard: int = GUARD) -> Buffer:
        try:
            whole = driver.Memory(self._context, nbytes + 2 * guard)
        except LaunchError as error:
            if error.reason != "out of memory":  # an earlier kernel's fault, a capture of a graph under way
                raise DeviceError(f"{self.id}: {error}") from None
            free = self.free_memory()
            raise DeviceError(f"{self.id}: {nbytes} bytes do not fit; {free} are free; try a smaller size") from None
        return Buffer(int(whole) + guard, whole, nbytes)

    def write(self, target: Any, data: Array) -> None:
        to, nbytes = ctypes.c_uint64(int(target)), ctypes.c_size_t(data.nbytes)
        self._context.call("copying", "cuMemcpyHtoD_v2", to, ctypes.c_void_p(data.ctypes.data), nbytes)

    def read(self, target: Any, data: Array, offset: int = 0) -> None:
        at, nbytes = ctypes.c_uint64(int(target) + offset), ctypes.c_size_t(data.nbytes)
        self._context.call("copying", "cuMemcpyDtoH_v2", ctypes.c_void_p(data.ctypes.data), at, nbytes)

    def fill(self, target: Any, byte: int, nbytes: int) -> None:
        self._context.call("filling", "cuMemsetD8_v2", ctypes.c_uint64(int(target)), byte, ctypes.c_size_t(nbytes))

    def occupy(self, ms: float) -> None:
        self.bind(self._occupying, [np.int64(ms * 1e6)])()

    @functools.cached_property
    def _occupying(self) -> Function:
        text = Path(__file__).with_name("occupy.cu").read_text(encoding="utf-8")
        source = Source(text, "occupy", (), Geometry((1, 1, 1), (1, 1, 1), 0))
        return self.load(self.build(source), source)

    def flush(self) -> None:
        memory, nbytes = self._flushing
        size = ctypes.c_size_t(nbytes)
        self._context.call("filling", "cuMemsetD8Async", ctypes.c_uint64(int(memory)), 0, size, None)

    @functools.cached_property
    def _flushing(self) -> tuple[driver.Memory, int]:
        nbytes = 2 * self._device.get_attribute(cuda.device_attribute.L2_CACHE_SIZE)
        return driver.Memory(self._context, nbytes), nbytes

    def free_memory(self) -> int:
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        self._context.call("asking for memory", "cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
        return free.value

    @functools.cached_property
    def sensors(self) -> Sensors | None:
        try:
            return sensors.Sensors(self._device.pci_bus_id())
        except OSError:
            return None

    def handle(self, wanted: Wanted, array: Any) -> int:
        """The address in `__cuda_array_interface__`, which PyCUDA, CuPy and torch arrays all have."""
        name = wanted.argument.name
        try:
            interface = array.__cuda_array_interface__
        except (AttributeError, TypeError, RuntimeError):
            if getattr(array, "requires_grad", False):
                raise ArgumentError(f"{name}: requires grad, which a launch does not track; pass .detach()") from None
            kind = type(array).__name__
            raise ArgumentError(f"{name}: of type {kind}, which is not on the GPU; pass an array that is") from None
        address, read_only = int(interface["data"][0]), interface["data"][1]
        dtype, strides = np.dtype(interface["typestr"]), interface.get("strides")
        check_array(wanted, Given(tuple(interface["shape"]), dtype, strides, not read_only))
        with self._context.active():
            where = driver.device_of(address)
        if where != self._number:
            place = "no GPU" if where is None else f"cuda:{where}"
            raise ArgumentError(f"{name}: lies on {place}; the kernel was loaded on {self.id}")
        self._check_context([wanted], [address])
        return address

    def stream(self, given: Any, array: Any) -> Any:
        """A stream of any library; without one, that which the array's library works in."""
        if given is None:
            return kept_stream(array, self._number)
        stream_handle(given)
        return given

    def library(self, routine: str, arguments: dict[str, Any], dtypes: dict[str, str]) -> Library | None:
        from tuner.devices.cuda import cublas

        return cublas.library(routine, arguments, dtypes)


def _context(device: Any, number: int) -> driver.Context:
    """The context of `device` that the calling thread works in, if it does, else the primary one.

    Arrays can be used only in the context that they were made in, and `pycuda.autoinit` makes one of its own.
    """
    current, primary = driver.current_context(), _primary(number)
    if current not in (None, primary.handle) and cuda.Context.get_device() == device:
        return driver.Context(current, number)
    if current in (None, primary.handle) and threading.current_thread() is threading.main_thread():
        _tell_pycuda(number)
    return driver.Context(primary.handle, number)


@functools.cache
def _primary(number: int) -> Any:
    """The context that CuPy and torch use too, retained once for the process."""
    return cuda.Device(number).retain_primary_context()


@functools.cache
def _tell_pycuda(number: int) -> None:
    """Put the primary context on PyCUDA's own stack, so that its arrays can be made, and take it off at exit."""
    _primary(number).push()
    atexit.register(_leave)


def _leave() -> None:
    """PyCUDA ends the process noisily where a context is still on its stack at exit."""
    with contextlib.suppress(cuda.Error):
        cuda.Context.pop()


class _Timer:
    """A pair of events on the default stream."""

    def __init__(self, context: driver.Context) -> None:
        self._start, self._stop = driver.Event(context), driver.Event(context)
        self.start, self.stop = self._start.record, self._stop.record
        self.finished = self._stop.passed

    def milliseconds(self) -> float:
        return self._stop.milliseconds_since(self._start)
