"""Any OpenCL device through pyopencl; a CPU through PoCL, so that a laptop and CI run the same kernels as a GPU."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import pyopencl as cl

from tuner.devices.arguments import Given, Wanted, check_array, pairs, shared
from tuner.devices.base import GUARD, Array, Buffer, Device, Function
from tuner.devices.compiler import Build
from tuner.devices.opencl import BACKEND
from tuner.devices.opencl.compiler import OpenCLCompiler, binary_of, built
from tuner.errors import ArgumentError, DeviceError, LaunchError
from tuner.space.model import Limits
from tuner.space.source import Source

_UNLIMITED = 2**31 - 1


def _devices() -> list[cl.Device]:
    try:
        return [device for platform in cl.get_platforms() for device in platform.get_devices()]
    except cl.Error:
        return []


def _type(device: cl.Device) -> str:
    """cpu, gpu or accelerator."""
    kinds = {cl.device_type.CPU: "cpu", cl.device_type.GPU: "gpu"}
    return next((name for kind, name in kinds.items() if device.type & kind), "accelerator")


def count() -> int:
    """How many OpenCL devices there are, over all platforms."""
    return len(_devices())


class OpenCLDevice(Device):
    """One OpenCL device with a context and a profiling queue of its own."""

    backend = BACKEND

    def __init__(self, number: int = 0) -> None:
        devices = _devices()
        if number >= len(devices):
            pocl = "PoCL runs on any CPU: apt-get install pocl-opencl-icd; it needs a home folder, or POCL_CACHE_DIR"
            hint = "see `tune devices`" if devices else pocl
            raise DeviceError(f"device opencl:{number}: this machine has {len(devices)} OpenCL devices; {hint}")
        self._device = device = devices[number]
        self.context = cl.Context([device])
        self.queue = cl.CommandQueue(self.context, properties=cl.command_queue_properties.PROFILING_ENABLE)
        self._launched: list[cl.Event] | None = None
        self.id = f"opencl:{number}"
        self.on_processor = bool(device.type & cl.device_type.CPU)
        self.compiles_at_launch = "PoCL" in device.platform.version
        self.name = device.name.strip()
        self.architecture = f"{_type(device)} {device.vendor.strip()}"
        self.compiler = OpenCLCompiler(self.context, self.architecture, f"{self.toolchain}, {self.name}")
        self.memory = min(device.max_mem_alloc_size * 2, device.global_mem_size)
        x, y, z = (*list(device.max_work_item_sizes), 1, 1)[:3]
        self.limits = Limits(
            max_threads=device.max_work_group_size,
            max_shared_memory=device.local_mem_size,
            warp_size=32,
            max_block=(x, y, z),
            max_grid=(_UNLIMITED, _UNLIMITED, _UNLIMITED),
        )

    @property
    def toolchain(self) -> str:
        return f"{self._device.platform.version.strip()}, driver {self._device.driver_version.strip()}"

    def load(self, build: Build, source: Source) -> Function:
        try:
            unbuilt = cl.Program(self.context, [self._device], [build.binary])
        except cl.Error as error:  # made for another device, or another version of the driver
            raise _failed(f"loading {source.kernel}", error) from None
        program = built(unbuilt, source)
        threads = math.prod(source.geometry.block)
        try:
            most = cl.Kernel(program, source.kernel).get_work_group_info(
                cl.kernel_work_group_info.WORK_GROUP_SIZE, self._device
            )
        except cl.Error as error:
            raise _failed(f"loading {source.kernel}", error) from None
        if threads > most:
            what = f"loading {source.kernel}: {threads} work-items a group; the device can run {most} of it"
            raise LaunchError(what, "too many resources")
        return Function(program, source.kernel, source.geometry)

    def bind(
        self,
        function: Function,
        arguments: Sequence[Any],
        stream: cl.CommandQueue | None = None,
        keep: object = None,
    ) -> Callable[[], None]:
        enqueue, queue = self._enqueue(function, arguments), stream or self.queue

        def call(_keep: object = keep) -> None:
            enqueue((), None, queue)

        return call

    def launcher(
        self, function: Function, arguments: Sequence[Any], wanted: Sequence[Wanted]
    ) -> Callable[[Sequence[Any], Any, Any], None]:
        enqueue = self._enqueue(function, arguments)

        def call(arrays: Sequence[Any], queue: Any, scalars: Any) -> None:
            enqueue(self.handles(wanted, arrays), scalars, self.stream(queue, arrays[0]))

        return call

    def packed(self, function: Function, scalars: Sequence[Any]) -> list[Any]:
        return list(scalars)

    def _enqueue(
        self, function: Function, arguments: Sequence[Any]
    ) -> Callable[[Sequence[Any], Sequence[Any] | None, cl.CommandQueue], None]:
        """A call with the buffers that go where `arguments` has None, the scalars if they are not those of `arguments`,
        and a queue."""
        geometry = function.geometry
        kernel = cl.Kernel(function.handle, function.kernel)  # of its own, because arguments are its state
        if kernel.num_args != len(arguments):
            raise LaunchError(
                f"{function.kernel} takes {kernel.num_args} arguments, and its space declares {len(arguments)}; write "
                f"one for each, in the kernel's order"
            )
        total = tuple(blocks * threads for blocks, threads in zip(geometry.grid, geometry.block, strict=True))
        changing = [position for position, argument in enumerate(arguments) if argument is None]
        scalar = [position for position, argument in enumerate(arguments) if isinstance(argument, np.generic)]
        last: Sequence[Any] | None = None

        def put(positions: Iterable[int], values: Sequence[Any]) -> None:
            position = 0
            try:
                for position, value in zip(positions, values, strict=True):
                    kernel.set_arg(position, value)
            except cl.Error as error:
                raise _failed(f"argument {position + 1} of {function.kernel}", error) from None

        def call(buffers: Sequence[Any], scalars: Sequence[Any] | None, queue: cl.CommandQueue) -> None:
            nonlocal last
            put(changing, buffers)
            if scalars is not last and scalars is not None:
                last = None  # an interrupt may leave some of them put and others not
                put(scalar, scalars)
                last = scalars
            try:
                event = cl.enqueue_nd_range_kernel(queue, kernel, total, geometry.block)
                queue.flush()
            except cl.Error as error:
                raise _failed(f"launching {function.kernel}", error) from None
            if self._launched is not None:
                self._launched.append(event)

        fixed = [position for position in range(len(arguments)) if position not in changing]
        put(fixed, [arguments[position] for position in fixed])
        return call

    def synchronize(self) -> None:
        try:
            self.queue.finish()
        except cl.Error as error:
            raise _failed("running", error) from None

    def timer(self) -> _Timer:
        return _Timer(self)

    def allocate(self, nbytes: int, guard: int = GUARD) -> Buffer:
        if nbytes + 2 * guard > self._device.max_mem_alloc_size:
            most = self._device.max_mem_alloc_size
            raise DeviceError(f"{self.id}: one array of {nbytes} bytes; at most {most} can be had; try a smaller size")
        try:
            whole = cl.Buffer(self.context, cl.mem_flags.READ_WRITE, nbytes + 2 * guard)
            return Buffer(whole.get_sub_region(guard, nbytes), whole, nbytes)
        except cl.Error as error:
            raise DeviceError(f"{self.id}: {nbytes} bytes do not fit ({error}); try a smaller size") from None

    def write(self, target: Any, data: Array) -> None:
        _waited(lambda: cl.enqueue_copy(self.queue, target, data))

    def read(self, target: Any, data: Array, offset: int = 0) -> None:
        _waited(lambda: cl.enqueue_copy(self.queue, data, target, src_offset=offset))

    def fill(self, target: Any, byte: int, nbytes: int) -> None:
        pattern = np.array(byte, np.uint8)
        _waited(lambda: cl.enqueue_fill_buffer(self.queue, target, pattern, 0, nbytes))

    def flush(self) -> None:
        cl.enqueue_fill_buffer(self.queue, self._flushing, np.array(0, np.uint8), 0, self._flushing.size)

    @functools.cached_property
    def _flushing(self) -> cl.Buffer:
        nbytes = min(2 * max(self._device.global_mem_cache_size, 32 << 20), self._device.max_mem_alloc_size)
        return cl.Buffer(self.context, cl.mem_flags.READ_WRITE, nbytes)

    def exported(self, function: Function) -> bytes:
        return binary_of(function.handle)

    def handle(self, wanted: Wanted, array: Any) -> Any:
        """The buffer of a pyopencl array in this device's context. A buffer begins where any type may."""
        from pyopencl.array import Array as ClArray

        name = wanted.argument.name
        if not isinstance(array, ClArray):
            raise ArgumentError(f"{name}: of type {type(array).__name__}; pass a pyopencl array")
        check_array(wanted, Given(array.shape, array.dtype, array.strides))
        if array.context != self.context:
            raise ArgumentError(f"{name}: lies in another OpenCL context; make it on the queue `kernel.device.queue`")
        if array.offset:
            raise ArgumentError(f"{name}: begins {array.offset} bytes inside another array; pass a copy of it")
        buffer, written = array.base_data, wanted.argument.role != "in"
        if not isinstance(buffer, cl.Buffer):
            raise ArgumentError(f"{name}: lies in a buffer of type {type(buffer).__name__}; pass an array in a buffer")
        if buffer.size < wanted.nbytes:
            raise ArgumentError(f"{name}: its buffer has {buffer.size} bytes; {wanted.nbytes} are needed")
        refused = cl.mem_flags.READ_ONLY if written else cl.mem_flags.WRITE_ONLY
        if buffer.flags & refused:
            how = "read" if written else "written"
            raise ArgumentError(f"{name}: its buffer may only be {how}; pass one made with READ_WRITE")
        return buffer

    def stream(self, given: Any, array: Any) -> cl.CommandQueue:
        """A queue of this device's context: what is given, else the array's own, else the device's."""
        queue = (array.queue or self.queue) if given is None else given
        if queue is self.queue:
            return queue
        if not isinstance(queue, cl.CommandQueue) or queue.context != self.context:
            raise ArgumentError(f"stream: of type {type(given).__name__}; pass a queue made in `kernel.device.context`")
        if queue.properties & cl.command_queue_properties.OUT_OF_ORDER_EXEC_MODE_ENABLE:
            raise ArgumentError("stream: a queue that runs out of order; pass one that runs in order")
        return queue

    def check_handles(self, wanted: Sequence[Wanted], handles: Sequence[Any]) -> None:
        for output, other in pairs(wanted):
            if handles[output] == handles[other] or _overlap(handles[output], handles[other]):
                raise shared(wanted[output], wanted[other])

    def close(self) -> None:
        self.queue.finish()


def _overlap(one: cl.Buffer, other: cl.Buffer) -> bool:
    """Whether two buffers are parts of one that have bytes in common."""
    info = cl.mem_info
    first, second = (buffer.get_info(info.ASSOCIATED_MEMOBJECT) or buffer for buffer in (one, other))
    begin: Any = one.get_info(info.OFFSET)
    start: Any = other.get_info(info.OFFSET)
    return bool(first == second and begin < start + other.size and start < begin + one.size)


def _failed(what: str, error: cl.Error) -> LaunchError:
    scarce = (cl.status_code.OUT_OF_RESOURCES, cl.status_code.MEM_OBJECT_ALLOCATION_FAILURE)
    return LaunchError(f"{what}: {error}", "out of memory" if error.code in scarce else None)


def _waited(enqueue: Callable[[], Any]) -> None:
    try:
        enqueue().wait()
    except cl.Error as error:
        raise _failed("copying", error) from None


class _Timer:
    """Reads the profile of the launches between start and stop."""

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
            raise _failed("running", error) from None
        return True

    def milliseconds(self) -> float:
        return float(self._events[-1].profile.end - self._events[0].profile.start) * 1e-6
