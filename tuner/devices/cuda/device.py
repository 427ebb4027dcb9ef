"""The device class of NVIDIA GPUs, which compiles with NVRTC and launches through the CUDA driver."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import threading
from collections.abc import Callable, Hashable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tuner.classes import cached_property
from tuner.devices import forking
from tuner.devices.arguments import ArrayLayout, ArraySpec, check_array
from tuner.devices.base import GUARD, Array, Buffer, Device, Library, RoutineCall, Sensors
from tuner.devices.builds.build import Build
from tuner.devices.cuda import (
    BACKEND,
    chosen_gpu,
    launch_settings,
    launcher,
    launches,
    peak,
    sensors,
    tensor_maps,
    textures,
)  # fmt: skip
from tuner.devices.cuda.arrays import CurrentStreams, Readers, interface_for, layout_of, stream_handle, stream_of
from tuner.devices.cuda.compiler import NvrtcCompiler
from tuner.devices.cuda.driver.addresses import device_of, membership
from tuner.devices.cuda.driver.context import Context, current_context, is_current
from tuner.devices.cuda.driver.modules import Module
from tuner.devices.cuda.driver.resources import DEFAULT_STREAM, EventTimer, Graph, Memory, Stream, stream_id
from tuner.devices.cuda.gpu import Gpu
from tuner.devices.work import Function, Work
from tuner.errors import ArgumentError, DeviceError, LaunchError, OutOfMemory
from tuner.languages import ALGORITHMS
from tuner.space.scope import Limits
from tuner.space.sources.source import Source
from tuner.space.step import Geometry

if TYPE_CHECKING:
    from tuner.devices.product import HostTimes, MatrixProduct, ProductLaunch, Tiles
    from tuner.space.kinds.tensor_map import Tiled
    from tuner.space.kinds.texture import Sampled

DEFAULT_LANE = -1  # no identifier of a stream


class CudaDevice(Device):
    """One GPU, in the opening thread's current context if that belongs to this GPU, otherwise in the GPU's primary
    context, which CuPy and torch use too."""

    kind, language = BACKEND.kind, BACKEND.language
    asynchronous = True

    def __init__(self, number: int = 0) -> None:
        forking.use(self.kind)
        self._gpu, self._number = _gpu(number), number
        self._context = _context(self._gpu, number)
        self._streams = CurrentStreams(number)
        get = self._gpu.attribute
        major, minor = self._gpu.compute_capability
        self.id, self.place = f"cuda:{number}", self._gpu.bus_id
        self.name = self._gpu.name
        self.package = self._gpu.package
        # From Hopper on, matrix instructions such as wgmma exist only in the architecture-specific target, sm_90a.
        self.architecture = f"sm_{major}{minor}" + ("a" if major >= 9 else "")
        self.compiler: NvrtcCompiler = NvrtcCompiler(self.architecture)
        self.conditions = launch_settings.conditions()
        self.memory = self.free_memory()
        self.units = get("MULTIPROCESSOR_COUNT")
        self.peak = peak.fp32((major, minor), self.units, get("CLOCK_RATE"))
        self.limits = Limits(
            max_threads=get("MAX_THREADS_PER_BLOCK"),
            max_shared_memory=get("MAX_SHARED_MEMORY_PER_BLOCK_OPTIN"),
            warp_size=get("WARP_SIZE"),
            compute_capability=major + minor / 10,
            max_block=(get("MAX_BLOCK_DIM_X"), get("MAX_BLOCK_DIM_Y"), get("MAX_BLOCK_DIM_Z")),
            max_grid=(get("MAX_GRID_DIM_X"), get("MAX_GRID_DIM_Y"), get("MAX_GRID_DIM_Z")),
            max_registers=get("MAX_REGISTERS_PER_BLOCK"),
            multiprocessor_threads=get("MAX_THREADS_PER_MULTIPROCESSOR"),
            multiprocessor_blocks=get("MAX_BLOCKS_PER_MULTIPROCESSOR"),
            multiprocessor_registers=get("MAX_REGISTERS_PER_MULTIPROCESSOR"),
            multiprocessor_shared_memory=get("MAX_SHARED_MEMORY_PER_MULTIPROCESSOR"),
            reserved_shared_memory=get("RESERVED_SHARED_MEMORY_PER_BLOCK"),
        )

    @property
    def toolchain(self) -> str:
        return self.toolchain_of("")

    def toolchain_of(self, compiler: str) -> str:
        version = self._gpu.driver_version()
        chosen = self.compiler.chosen(compiler)
        return f"{chosen.toolchain}, CUDA driver {version // 1000}.{version % 1000 // 10}"

    def load(self, build: Build, source: Source) -> tuple[Any, Build]:
        forking.use(self.kind)
        if source.compiler == ALGORITHMS:
            from tuner.devices.cuda.blas import algorithm_program  # few kernels are algorithms of the library

            return algorithm_program.AlgorithmProgram(self._context, build.binary), build
        return Module(self._context, build.binary, source.kernel), build

    def function(self, program: tuple[Any, Build], kernel: str, geometry: Geometry) -> Function:
        for axis, blocks, most in zip("xyz", geometry.grid, self.limits.max_grid, strict=True):
            if blocks > most:
                raise LaunchError(f"{blocks} blocks in {axis}; the device launches at most {most}")
        module, build = program
        return Function(module.function(build.entry(kernel), kernel, geometry), kernel, geometry)

    def symbol(self, program: tuple[Any, Build], name: str) -> tuple[int, int] | None:
        module, build = program
        found: tuple[int, int] | None = module.symbol(build.variable(name))
        return found

    def bind(
        self, work: Work, handles: Sequence[Any] = (), stream: Any = None, keep: object = None
    ) -> Callable[[], None]:
        launch = launches.Launch(work, 0 if stream is None else stream_handle(stream))
        cells: Any = launch.cells  # slice assignment accepts any sequence, but its type stubs do not
        cells[launch.changing] = addresses = [int(handle) for handle in handles]
        launch.encode(addresses)
        enqueue, action, live = launch.enqueue, f"launching {work.kernel}", forking.live(self.kind)

        def call(_keep: object = keep) -> None:
            if not live:
                raise forking.forked(self.kind)
            if status := enqueue():
                self._context.retry(action, status, launch.enqueue)  # the reference keeps `launch` and its memory alive

        return call

    def bind_whole(self, work: Work, handles: Sequence[Any], most: int) -> Callable[[], None]:
        if work.launches <= most or work.waits:
            return self.bind(work, handles)
        return self.bind_graph(work, handles, 1)

    def bind_graph(self, work: Work, handles: Sequence[Any], count: int) -> Callable[[], None]:
        if work.waits:
            raise LaunchError(f"{work.kernel}: a loop of `while:` waits for its flag, so it cannot be a graph")
        stream = Stream(self._context)
        call = self.bind(work, handles, stream.handle.value)

        def enqueue() -> None:
            for _ in range(count):
                call()

        graph = Graph(self._context, stream, enqueue, f"capturing {work.kernel}")

        def launch(_keep: object = call) -> None:
            graph.launch()

        return launch

    def launcher(self, work: Work, specs: Sequence[ArraySpec]) -> Callable[[Sequence[Any], Any, Any], None]:
        return launcher.launcher(work, specs, self._context, functools.partial(self.handles, specs))

    def packed(self, scalars: Sequence[Any]) -> list[int]:
        return [word for scalar in scalars for word in launches.words(scalar)]

    def lane(self, stream: Any, array: Any) -> Hashable:
        handle = self._streams[type(array)](array) if stream is None else stream_handle(stream)
        if handle in DEFAULT_STREAM:  # without asking the driver, which takes longer than a launch
            return DEFAULT_LANE
        return stream_id(self._context, stream_handle(handle))

    def synchronize(self) -> None:
        self._context.call("running", "cuCtxSynchronize")

    def timer(self) -> EventTimer:
        return EventTimer(self._context)

    def allocate(self, nbytes: int, guard: int = GUARD) -> Buffer:
        try:
            whole = Memory(self._context, nbytes + 2 * guard)
        except LaunchError as error:
            if error.reason != "out of memory":  # an earlier kernel faulted, or a graph capture is in progress
                raise DeviceError(f"{self.id}: {error}") from None
            free = self.free_memory()
            raise OutOfMemory(f"{self.id}: {nbytes} bytes do not fit; {free} are free; try a smaller size") from None
        return Buffer(int(whole) + guard, whole, nbytes)

    def write(self, target: Any, data: Array, offset: int = 0) -> None:
        address, nbytes = ctypes.c_uint64(int(target) + offset), ctypes.c_size_t(data.nbytes)
        self._context.call("copying", "cuMemcpyHtoD_v2", address, ctypes.c_void_p(data.ctypes.data), nbytes)

    def read(self, target: Any, data: Array, offset: int = 0) -> None:
        address, nbytes = ctypes.c_uint64(int(target) + offset), ctypes.c_size_t(data.nbytes)
        self._context.call("copying", "cuMemcpyDtoH_v2", ctypes.c_void_p(data.ctypes.data), address, nbytes)

    def fill(self, target: Any, byte: int, nbytes: int) -> None:
        self._context.call("filling", "cuMemsetD8_v2", ctypes.c_uint64(int(target)), byte, ctypes.c_size_t(nbytes))

    def zero(self, buffer: Buffer) -> None:
        self._zeroing.zero(int(buffer.handle), buffer.nbytes)

    @cached_property
    def _zeroing(self) -> Stream:
        return Stream(self._context)

    def occupy(self, ms: float) -> None:
        self.bind(Work.of(self._occupying, [np.int64(ms * 1e6)]))()

    @cached_property
    def _occupying(self) -> Function:
        text = Path(__file__).with_name("occupy.cu").read_text(encoding="utf-8")
        source = Source(text, ("occupy",), ())
        return self.function(self.load(self.build(source), source), "occupy", Geometry((1, 1, 1), (1, 1, 1), 0))

    @property
    def last_cache(self) -> int:
        return self._gpu.attribute("L2_CACHE_SIZE")

    def free_memory(self) -> int:
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        self._context.call("asking for memory", "cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
        return free.value

    @cached_property
    def sensors(self) -> Sensors | None:
        try:
            return sensors.NvmlSensors(self._gpu.bus_id)
        except OSError:
            return None

    def layout(self, spec: ArraySpec, array: Any) -> ArrayLayout:
        """The layout in `__cuda_array_interface__`, which arrays of PyCUDA, CuPy and torch have."""
        return layout_of(spec, interface_for(spec, array))

    def handle(self, spec: ArraySpec, array: Any) -> int:
        """The address in `__cuda_array_interface__`."""
        name, interface = spec.argument.name, interface_for(spec, array)
        address = int(interface["data"][0])
        check_array(spec, layout_of(spec, interface))
        with self._context.active():
            number = device_of(address)
        if number != self._number:
            gpu = "no GPU" if number is None else f"cuda:{number}"
            raise ArgumentError(f"{name}: is on {gpu}, but the kernel was loaded on {self.id}; copy it to {self.id}")
        launcher.check_context(self._context, [spec], [address])
        return address

    def stream(self, stream: Any, array: Any) -> Any:
        """The caller's stream, of any library, else the current stream of the array's library."""
        if stream is None:
            return stream_of(array, self._number)
        stream_handle(stream)
        return stream

    def tensor_map(self, address: int, tiled: Tiled) -> bytes:
        """The encoded tensor map of the array at this address."""
        return tensor_maps.encoded(address, tiled)

    def texture(self, address: int, sampled: Sampled) -> textures.TextureObject:
        """A texture object of the array at this address."""
        return textures.TextureObject(self._context, address, sampled)

    def library(self, call: RoutineCall) -> Library | None:
        from tuner.devices.cuda.blas import baselines

        return baselines.default(self._context, call)

    def library_algorithms(self, call: RoutineCall) -> Sequence[Library]:
        from tuner.devices.cuda.blas import baselines

        return baselines.algorithms(self._context, call, functools.partial(self.allocate, guard=0))

    def product(
        self, product: MatrixProduct, specs: Sequence[ArraySpec], algorithm: int | None = None
    ) -> ProductLaunch | None:
        from tuner.devices.cuda.blas import products

        is_ours = membership(self._context) if chosen_gpu.count() > 1 else None
        readers = Readers(specs, self._number, is_ours, functools.partial(self.handles, specs))
        return products.launch(product, specs, readers, self._context, algorithm)

    def host_times(self) -> HostTimes | None:
        from tuner.devices.cuda import host_times

        return host_times.of(self, self._context)

    def tiles(self, product: MatrixProduct) -> Tiles | None:
        from tuner.devices.cuda.blas import cublas_tiles

        with self._context.apart_from_capture(), self._context.active():
            return cublas_tiles.of(product, self.units)

    def ask_ahead(self, product: MatrixProduct) -> None:
        def ask() -> None:
            with contextlib.suppress(Exception):  # the caller meets it when it asks
                self.tiles(product)

        threading.Thread(target=ask, daemon=True).start()


def _gpu(number: int) -> Gpu:
    """The GPU with this number. Raises DeviceError if there is none, or if the driver or a Python package is
    missing."""
    gpus = chosen_gpu.chosen()
    if number >= (count := gpus.count()):
        raise DeviceError(f"device cuda:{number}: NVIDIA GPUs of this machine: {count}; see `tune devices`")
    return gpus(number)


def _context(device: Gpu, number: int) -> Context:
    """The calling thread's current context if it belongs to the GPU, else the GPU's primary context.

    An array can be used only in the context in which it was allocated, and `pycuda.autoinit` creates its own context.
    """
    current, primary = current_context(), device.primary_context()
    if current not in (None, primary) and is_current(number):
        return Context(current, number)
    if current in (None, primary) and threading.current_thread() is threading.main_thread():
        device.make_primary_current()
    return Context(primary, number)
