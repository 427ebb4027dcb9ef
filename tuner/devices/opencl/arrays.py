"""Arrays and queues of pyopencl, as a launch takes them."""

from typing import Any

import pyopencl as cl

from tuner.devices.arguments import ArrayLayout, ArraySpec, check_array
from tuner.errors import ArgumentError


def buffer_of(spec: ArraySpec, array: Any, context: cl.Context) -> cl.Buffer:
    """The buffer of a pyopencl array in this context. A buffer is aligned for every type. Raises ArgumentError."""
    from pyopencl.array import Array as ClArray  # slow to import; whoever has such an array has imported it

    name = spec.argument.name
    if not isinstance(array, ClArray):
        raise ArgumentError(f"{name}: of type {type(array).__name__}; pass a pyopencl array")
    check_array(spec, ArrayLayout(array.shape, array.dtype, array.strides))
    if array.context != context:
        raise ArgumentError(f"{name}: lies in another OpenCL context; make it on the queue `kernel.device.queue`")
    if array.offset:
        raise ArgumentError(f"{name}: begins {array.offset} bytes inside another array; pass a copy of it")
    buffer, is_output = array.base_data, spec.argument.role != "in"
    if not isinstance(buffer, cl.Buffer):
        raise ArgumentError(f"{name}: lies in a buffer of type {type(buffer).__name__}; pass an array in a buffer")
    if buffer.size < spec.nbytes:
        raise ArgumentError(f"{name}: its buffer has {buffer.size} bytes; {spec.nbytes} are needed")
    if buffer.flags & (cl.mem_flags.READ_ONLY if is_output else cl.mem_flags.WRITE_ONLY):
        access = "read" if is_output else "written"
        raise ArgumentError(f"{name}: its buffer may only be {access}; pass one made with READ_WRITE")
    return buffer


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


def overlap(a: cl.Buffer, b: cl.Buffer) -> bool:
    """Whether two buffers are regions of the same buffer and share bytes."""
    info = cl.mem_info
    whole_a, whole_b = (buffer.get_info(info.ASSOCIATED_MEMOBJECT) or buffer for buffer in (a, b))
    start_a: Any = a.get_info(info.OFFSET)
    start_b: Any = b.get_info(info.OFFSET)
    return bool(whole_a == whole_b and start_a < start_b + b.size and start_b < start_a + a.size)
