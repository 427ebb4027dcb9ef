"""Arrays and queues of pyopencl, as a launch takes them."""

from typing import Any

import pyopencl as cl

from tuner.devices.arguments import ArrayLayout, ArraySpec, check_array
from tuner.errors import ArgumentError

QUEUE = "kernel.device.queue"  # what arrays are made on
KERNEL = '`kernel` is what `tuner.load`, or `tuner.dispatch` with `device="opencl"`, has given'


def layout_of(spec: ArraySpec, array: Any) -> ArrayLayout:
    """The layout of a pyopencl array. Raises ArgumentError for any other."""
    from pyopencl.array import Array as ClArray  # slow to import; whoever has such an array has imported it

    if not isinstance(array, ClArray):
        raise ArgumentError(
            f"{spec.argument.name}: of type {type(array).__name__}; pass a pyopencl array, such as "
            f"pyopencl.array.to_device({QUEUE}, {spec.argument.name}) makes of NumPy's; {KERNEL}"
        )
    return ArrayLayout(array.shape, array.dtype, array.strides)


def buffer_of(spec: ArraySpec, array: Any, context: cl.Context) -> cl.Buffer:
    """The buffer of a pyopencl array in this context; of a view, a region of it. A buffer is aligned for every type.
    Raises ArgumentError."""
    name = spec.argument.name
    check_array(spec, layout_of(spec, array))
    if array.context != context:
        raise ArgumentError(f"{name}: lies in another OpenCL context; make it on the queue `{QUEUE}`; {KERNEL}")
    if array.offset and not spec.argument.strides:
        raise ArgumentError(f"{name}: begins {array.offset} bytes inside another array; pass a copy of it")
    buffer, is_output = array.base_data, spec.argument.role != "in"
    if not isinstance(buffer, cl.Buffer):
        raise ArgumentError(f"{name}: lies in a buffer of type {type(buffer).__name__}; pass an array in a buffer")
    if buffer.size < array.offset + spec.nbytes:
        raise ArgumentError(f"{name}: its buffer has {buffer.size} bytes; {array.offset + spec.nbytes} are needed")
    if buffer.flags & (cl.mem_flags.READ_ONLY if is_output else cl.mem_flags.WRITE_ONLY):
        access = "read" if is_output else "written"
        raise ArgumentError(f"{name}: its buffer may only be {access}; pass one made with READ_WRITE")
    return _region(spec, buffer, array.offset) if array.offset else buffer


def _region(spec: ArraySpec, buffer: cl.Buffer, offset: int) -> cl.Buffer:
    """The part of a buffer in which an array lies. Raises ArgumentError where the device has no region that begins
    there."""
    (device,) = buffer.context.devices
    unit, (whole, start) = device.mem_base_addr_align // 8, _place(buffer)
    if (start + offset) % unit:
        raise ArgumentError(
            f"{spec.argument.name}: begins {start + offset} bytes inside a buffer; this device takes what begins at "
            f"a multiple of {unit} bytes; pass a view that does, or a copy"
        )
    return whole.get_sub_region(start + offset, spec.nbytes)


def queue_of(stream: Any, array: Any, own: cl.CommandQueue) -> cl.CommandQueue:
    """`stream`, else the array's queue, else `own`. Raises ArgumentError for a queue of another context, and for one
    that runs out of order."""
    queue = (array.queue or own) if stream is None else stream
    if queue is own:
        return own
    if not isinstance(queue, cl.CommandQueue) or queue.context != own.context:
        raise ArgumentError(f"stream: of type {type(stream).__name__}; pass a queue made in `kernel.device.context`")
    if queue.properties & cl.command_queue_properties.OUT_OF_ORDER_EXEC_MODE_ENABLE:
        raise ArgumentError("stream: a queue that runs out of order; pass one that runs in order")
    return queue


def distance(first: cl.Buffer, second: cl.Buffer) -> int | None:
    """How many bytes after `first` the `second` begins; None unless both are regions of the same buffer."""
    (whole, start), (other, other_start) = _place(first), _place(second)
    return other_start - start if whole == other else None


def _place(buffer: cl.Buffer) -> tuple[cl.Buffer, int]:
    """The buffer that this one is a region of, or is, and the byte where it begins there."""
    whole: Any = buffer.get_info(cl.mem_info.ASSOCIATED_MEMOBJECT) or buffer
    start: Any = buffer.get_info(cl.mem_info.OFFSET)
    return whole, start
