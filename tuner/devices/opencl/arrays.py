"""Checks arrays and queues of pyopencl, and returns the buffers and queues that a launch uses."""

from typing import Any

import pyopencl as cl

from tuner.devices.arguments import ArrayLayout, ArraySpec, check_array
from tuner.errors import ArgumentError

QUEUE = "kernel.device.queue"  # the queue on which users create arrays, for messages
KERNEL = '`kernel` is the result of `tuner.load`, or of `tuner.dispatch` with `device="opencl"`'


def layout_of(spec: ArraySpec, array: Any) -> ArrayLayout:
    """The layout of a pyopencl array. Raises ArgumentError for any other type."""
    from pyopencl.array import Array as ClArray  # slow to import; a caller with such an array has imported it already

    if not isinstance(array, ClArray):
        raise ArgumentError(
            f"{spec.argument.name}: of type {type(array).__name__}; pass a pyopencl array, such as "
            f"pyopencl.array.to_device({QUEUE}, {spec.argument.name}) makes of a NumPy array; {KERNEL}"
        )
    return ArrayLayout(array.shape, array.dtype, array.strides)


def buffer_of(spec: ArraySpec, array: Any, context: cl.Context) -> cl.Buffer:
    """The buffer of a pyopencl array in this context; for a view, the sub-buffer. OpenCL aligns buffers for every type.
    Raises ArgumentError if the array does not meet `spec`."""
    name = spec.argument.name
    check_array(spec, layout_of(spec, array))
    if array.context != context:
        raise ArgumentError(f"{name}: is in another OpenCL context; create it on the queue `{QUEUE}`; {KERNEL}")
    if array.offset and not spec.argument.strides:
        raise ArgumentError(f"{name}: begins {array.offset} bytes inside another array; pass a copy of it")
    buffer, is_output = array.base_data, spec.argument.role != "in"
    if not isinstance(buffer, cl.Buffer):
        raise ArgumentError(
            f"{name}: its memory is of type {type(buffer).__name__}; pass an array in a pyopencl.Buffer"
        )
    if buffer.size < array.offset + spec.nbytes:
        raise ArgumentError(f"{name}: its buffer has {buffer.size} bytes; {array.offset + spec.nbytes} are needed")
    if buffer.flags & (cl.mem_flags.READ_ONLY if is_output else cl.mem_flags.WRITE_ONLY):
        access = "read" if is_output else "written"
        raise ArgumentError(f"{name}: its buffer may only be {access}; pass one made with READ_WRITE")
    return _region(spec, buffer, array.offset) if array.offset else buffer


def _region(spec: ArraySpec, buffer: cl.Buffer, offset: int) -> cl.Buffer:
    """The sub-buffer of an array that begins at byte `offset`. Raises ArgumentError if the device does not support a
    sub-buffer at this offset."""
    (device,) = buffer.context.devices
    unit, (whole, start) = device.mem_base_addr_align // 8, parent(buffer)
    if (start + offset) % unit:
        raise ArgumentError(
            f"{spec.argument.name}: begins {start + offset} bytes inside a buffer; on this device, a view must begin "
            f"at a multiple of {unit} bytes; pass such a view, or a copy"
        )
    return whole.get_sub_region(start + offset, spec.nbytes)


def queue_of(stream: Any, array: Any, own: cl.CommandQueue) -> cl.CommandQueue:
    """`stream`, else the array's queue, else `own`. Raises ArgumentError for a queue of another context, and for an
    out-of-order queue."""
    queue = (getattr(array, "queue", None) or own) if stream is None else stream  # an image has no queue
    if queue is own:
        return own
    if not isinstance(queue, cl.CommandQueue) or queue.context != own.context:
        raise ArgumentError(f"stream: of type {type(stream).__name__}; pass a queue made in `kernel.device.context`")
    if queue.properties & cl.command_queue_properties.OUT_OF_ORDER_EXEC_MODE_ENABLE:
        raise ArgumentError("stream: is an out-of-order queue; pass an in-order queue")
    return queue


def distance(first: cl.Buffer, second: cl.Buffer) -> int | None:
    """The offset of `second` from `first` in bytes; None unless both are parts of the same buffer."""
    (whole, start), (other, other_start) = parent(first), parent(second)
    return other_start - start if whole == other else None


def parent(buffer: cl.Buffer) -> tuple[cl.Buffer, int]:
    """The parent of a sub-buffer, or the buffer itself, and the offset of `buffer` in it in bytes."""
    whole: Any = buffer.get_info(cl.mem_info.ASSOCIATED_MEMOBJECT) or buffer
    start: Any = buffer.get_info(cl.mem_info.OFFSET)
    return whole, start
