"""The device class of OpenCL devices, which compiles and launches through pyopencl.

With PoCL, a CPU is an OpenCL device too, so a laptop and CI can run the same kernels as a GPU.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyopencl as cl

from tuner.devices import caches, environment, forking, pages
from tuner.devices.arguments import ArrayLayout, ArraySpec, output_pairs, overlap_error, share_elements
from tuner.devices.backend import UNLIMITED
from tuner.devices.base import GUARD, Array, Buffer, Device
from tuner.devices.builds.build import Build
from tuner.devices.opencl import BACKEND, arrays, images, platforms, processor_settings
from tuner.devices.opencl.compiler import OpenCLCompiler, build_program
from tuner.devices.opencl.enqueue import Enqueue, launch_error, plain
from tuner.devices.work import Function, Work
from tuner.errors import DeviceError, LaunchError, OutOfMemory
from tuner.space.kinds.image import Image
from tuner.space.scope import Limits
from tuner.space.sources.source import Source
from tuner.space.step import Geometry

# Work-items on an axis from which PoCL runs other code (3.1, `grid_width_specialization_limit`).
POCL_LARGE_GRID = 65_535

if TYPE_CHECKING:
    from tuner.space.kinds.image import Texels
    from tuner.space.kinds.sampler import Sampler


def _type(device: cl.Device) -> str:
    """The type of a device: cpu, gpu or accelerator."""
    kinds = {cl.device_type.CPU: "cpu", cl.device_type.GPU: "gpu"}
    return next((name for kind, name in kinds.items() if device.type & kind), "accelerator")


class OpenCLDevice(Device):
    """One OpenCL device, with its own context and profiling queue."""

    kind, language = BACKEND.kind, BACKEND.language
    package = BACKEND.package

    def __init__(self, number: int = 0) -> None:
        forking.use(self.kind)
        devices = platforms.devices()
        if number >= len(devices):
            pocl = "PoCL runs on any CPU: apt-get install pocl-opencl-icd; it needs a home folder, or POCL_CACHE_DIR"
            hint = "see `tune devices`" if devices else pocl
            raise DeviceError(f"device opencl:{number}: OpenCL devices of this machine: {len(devices)}; {hint}")
        self._device = device = devices[number]
        self.context = cl.Context([device])
        self.queue = cl.CommandQueue(self.context, properties=cl.command_queue_properties.PROFILING_ENABLE)
        self._launched: list[cl.Event] | None = None
        self.id = f"opencl:{number}"
        self.on_processor = bool(device.type & cl.device_type.CPU)
        self.has_doubles = bool(device.double_fp_config)
        self.compiles_at_launch = "PoCL" in device.platform.version
        self.name = device.name.strip()
        self.place = "" if self.on_processor else f"{self.id} {self.name}"
        self.architecture = f"{_type(device)} {device.vendor.strip()}"
        toolchain, code = f"{self.toolchain}, {self.name}", processor_settings.code(self.compiles_at_launch)
        self.compiler: OpenCLCompiler = OpenCLCompiler(
            self.context, self.architecture, toolchain, self.compiles_at_launch, code
        )
        self.conditions = processor_settings.conditions(device, self.compiles_at_launch).and_also(code)
        # NVIDIA's driver says that each kernel allows 256 work-items in a group, and runs groups of 1,024: see
        # findings/nvidia-opencl-understates-the-work-group.sh.
        self._understates_groups = device.platform.vendor.startswith("NVIDIA")
        self.memory = min(device.max_mem_alloc_size * 2, device.global_mem_size)
        if self.on_processor:
            self.memory = min(self.memory, environment.available_memory())
        x, y, z = (*list(device.max_work_item_sizes), 1, 1)[:3]
        self.units = device.max_compute_units
        self.limits = Limits(
            max_threads=device.max_work_group_size,
            max_shared_memory=device.local_mem_size,
            warp_size=32,
            max_block=(x, y, z),
            max_grid=(UNLIMITED,) * 3,
        )

    @property
    def toolchain(self) -> str:
        return f"{self._device.platform.version.strip()}, driver {self._device.driver_version.strip()}"

    def load(self, build: Build, source: Source) -> cl.Program:
        forking.use(self.kind)
        action = f"loading {source.kernel}"
        try:
            if self.compiles_at_launch:  # PoCL finds what it compiled by the same text and options
                return self.compiler.loaded(build.binary.decode(), source)
            return build_program(cl.Program(self.context, [self._device], [build.binary]), source)
        except cl.Error as error:  # built for another device, or by another version of the driver
            raise launch_error(action, error) from None
        except UnicodeDecodeError:
            message = f"{action}: its build was exported by an earlier version of tuner; export it again"
            raise LaunchError(message) from None

    def function(self, program: cl.Program, kernel: str, geometry: Geometry) -> Function:
        try:
            most = cl.Kernel(program, kernel).get_work_group_info(
                cl.kernel_work_group_info.WORK_GROUP_SIZE, self._device
            )
        except cl.Error as error:
            raise launch_error(f"loading {kernel}", error) from None
        threads = math.prod(geometry.block)
        if threads > most and not self._understates_groups:
            message = f"loading {kernel}: {threads} work-items per group; this kernel allows at most {most}"
            raise LaunchError(message, "too many resources")
        return Function(program, kernel, geometry)

    def sample_grid(self, geometry: Geometry) -> tuple[int, int, int]:
        if self.compiles_at_launch:
            for axis in range(2):
                block = geometry.block[axis]
                if geometry.grid[axis] * block >= POCL_LARGE_GRID:
                    blocks = -(-POCL_LARGE_GRID // block)
                    return (blocks, 1, 1) if axis == 0 else (1, blocks, 1)
        return 1, 1, 1

    def bind(
        self, work: Work, handles: Sequence[Any] = (), stream: cl.CommandQueue | None = None, keep: object = None
    ) -> Callable[[], None]:
        enqueue, queue = Enqueue(work, self._note), stream or self.queue
        enqueue.set_arrays(handles)
        live = forking.live(self.kind)

        def call(_keep: object = (work, keep)) -> None:
            if not live:
                raise forking.forked(self.kind)
            enqueue(queue)

        return call

    def launcher(self, work: Work, specs: Sequence[ArraySpec]) -> Callable[[Sequence[Any], Any, Any], None]:
        enqueue, live = Enqueue(work, self._note), forking.live(self.kind)
        last: Any = None

        def call(arrays: Sequence[Any], queue: Any, scalars: Any) -> None:
            nonlocal last
            if not live:
                raise forking.forked(self.kind)
            handles, queue = self.handles(specs, arrays), self.stream(queue, arrays[0] if arrays else None)
            enqueue.set_arrays(handles)
            if scalars is not last:
                last = None  # an interrupt may leave only some scalars set
                enqueue.set_scalars(scalars)
                last = scalars
            enqueue(queue)

        return call

    def packed(self, scalars: Sequence[Any]) -> list[Any]:
        return [plain(scalar) for scalar in scalars]

    def lane(self, stream: Any, array: Any) -> Hashable:
        return self.stream(stream, array).int_ptr

    def _note(self, event: cl.Event) -> None:
        if self._launched is not None:
            self._launched.append(event)

    def synchronize(self) -> None:
        try:
            self.queue.finish()
        except cl.Error as error:
            raise launch_error("running", error) from None

    def timer(self) -> _ProfileTimer:
        return _ProfileTimer(self)

    def allocate(self, nbytes: int, guard: int = GUARD) -> Buffer:
        if nbytes + 2 * guard > self._device.max_mem_alloc_size:
            most = self._device.max_mem_alloc_size
            raise OutOfMemory(
                f"{self.id}: an array of {nbytes} bytes; one allocation has at most {most}; try a smaller size"
            )
        try:
            if guard and self.on_processor:
                whole = self.over(pages.aligned(nbytes + 2 * guard)).whole
            else:
                whole = cl.Buffer(self.context, cl.mem_flags.READ_WRITE, nbytes + 2 * guard)
            return Buffer(whole.get_sub_region(guard, nbytes), whole, nbytes)
        except (cl.Error, OSError) as error:
            raise OutOfMemory(f"{self.id}: {nbytes} bytes do not fit ({error}); try a smaller size") from None

    def over(self, memory: Array) -> Buffer:
        flags = cl.mem_flags.READ_WRITE | cl.mem_flags.USE_HOST_PTR
        whole = cl.Buffer(self.context, flags, hostbuf=memory)
        return Buffer(whole, whole, memory.nbytes)

    def write(self, target: Any, data: Array, offset: int = 0) -> None:
        _wait(lambda: cl.enqueue_copy(self.queue, target, data, dst_offset=offset))

    def read(self, target: Any, data: Array, offset: int = 0) -> None:
        _wait(lambda: cl.enqueue_copy(self.queue, data, target, src_offset=offset))

    def fill(self, target: Any, byte: int, nbytes: int) -> None:
        pattern = np.array(byte, np.uint8)
        _wait(lambda: cl.enqueue_fill_buffer(self.queue, target, pattern, 0, nbytes))

    def image(self, texels: Texels) -> cl.Image:
        """A new image. Raises LaunchError if the device lacks its format, OutOfMemory if it does not fit."""
        return images.created(self.context, texels)

    def sampler(self, wanted: Sampler) -> cl.Sampler:
        """A sampler with these settings. Raises LaunchError."""
        return images.sampler(self.context, wanted)

    def copy_to_image(self, image: cl.Image, buffer: Any, texels: Texels) -> None:
        """Enqueue a copy of a whole buffer to an image."""
        images.copy_in(self.queue, image, buffer, texels.extents)

    def copy_from_image(self, buffer: Any, image: cl.Image, texels: Texels) -> None:
        """Enqueue a copy of an image to a whole buffer."""
        images.copy_out(self.queue, buffer, image, texels.extents)

    @property
    def last_cache(self) -> int | None:
        own = self._device.global_mem_cache_size
        known = caches.last_level() if self.on_processor else own
        return max(known, own) if known else None

    def layout(self, spec: ArraySpec, array: Any) -> ArrayLayout:
        """The layout of a pyopencl array."""
        return arrays.layout_of(spec, array)

    def handle(self, spec: ArraySpec, array: Any) -> Any:
        """The buffer of a pyopencl array in this device's context, or the image that the kernel takes."""
        kind = spec.argument.kind
        if isinstance(kind, Image):
            return images.image_of(spec, kind, array, self.context)
        return arrays.buffer_of(spec, array, self.context)

    def stream(self, stream: Any, array: Any) -> cl.CommandQueue:
        """A queue in this device's context: `stream`, else the array's queue, else the device's."""
        return arrays.queue_of(stream, array, self.queue)

    def check_handles(self, specs: Sequence[ArraySpec], handles: Sequence[Any]) -> None:
        for output, other in output_pairs(specs):
            distance = arrays.distance(handles[output], handles[other])
            if distance is not None and share_elements(specs[output], specs[other], distance):
                raise overlap_error(specs[output], specs[other])

    def close(self) -> None:
        self.queue.finish()


def _wait(enqueue: Callable[[], Any]) -> None:
    try:
        enqueue().wait()
    except cl.Error as error:
        raise launch_error("copying", error) from None


class _ProfileTimer:
    """Measures with the profiling events of the launches between `start` and `stop`."""

    def __init__(self, device: OpenCLDevice) -> None:
        self._owner = device
        self._events: list[cl.Event] = []

    def start(self) -> None:
        self._owner._launched = self._events = []

    def stop(self) -> None:
        self._owner._launched = None

    def finished(self) -> bool:
        try:
            for event in self._events:
                if event.command_execution_status < 0:
                    raise LaunchError(f"running: OpenCL status {event.command_execution_status}")
                if event.command_execution_status != cl.command_execution_status.COMPLETE:
                    return False
        except cl.Error as error:
            raise launch_error("running", error) from None
        return True

    def milliseconds(self) -> float:
        return float(self._events[-1].profile.end - self._events[0].profile.start) * 1e-6
