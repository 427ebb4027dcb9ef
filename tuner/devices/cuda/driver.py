"""Calls the CUDA driver by ctypes: contexts, memory, streams and events.

This module and `launches` (modules and launches) make every call that depends on a context. PyCUDA is unsuitable,
because it keeps its own stack of contexts per thread: it ignores contexts that CuPy or torch make current, frees memory
only in the thread that created the context, aborts the process if a thread ends with a context on its stack, and
launches only into its own streams. cuda-bindings is suitable, but creates Python objects for the arguments of each
launch, which is slow.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from tuner.devices.environment import OTHER
from tuner.errors import LaunchError

NOT_READY = 600
DEFAULT_STREAM = (0, 1)  # CU_STREAM_LEGACY, which no graph captures
# CUDA_ERROR_INVALID_CONTEXT and CUDA_ERROR_INVALID_HANDLE: the driver returns them, and enqueues nothing, if the thread
# has no current context, or if the function or the stream belongs to another context.
WRONG_CONTEXT = (201, 400)
_REASONS = {2: "out of memory", 700: "illegal memory access", 701: "too many resources", 716: "misaligned address"}
# Statuses that speak of a kernel, or of how it is launched. Any other, such as an uncorrectable error of the memory, is
# trouble of the machine.
_OF_KERNEL = frozenset({1, 2, 200, 201, 209, 218, 222, 300, 400, 500, 801, *range(700, 800), *range(900, 1000)} - {999})
_CONTEXT, _DEVICE_ORDINAL = 1, 9  # of CUpointer_attribute
_RELAXED = 2  # of CUstreamCaptureMode


@functools.cache
def library() -> ctypes.CDLL:
    """The driver's shared library. Raises OSError if it is missing."""
    return ctypes.CDLL("libcuda.so.1")


def start() -> None:
    """Initialise the driver, which is slow, without blocking other threads. A later initialisation by any package
    returns at once, or fails with the same error."""
    library().cuInit(0)


def launch_error(action: str, status: int) -> LaunchError:
    """The error for a status of the driver, with a failure reason if the status implies one."""
    text = ctypes.c_char_p()
    library().cuGetErrorString(status, ctypes.byref(text))
    description = (text.value or b"unknown error").decode()
    return LaunchError(f"{action}: {description} (CUDA error {status})", reason_of(status))


def reason_of(status: int) -> str | None:
    """The failure reason that a status of the driver implies; None for the reason of every LaunchError."""
    return _REASONS.get(status) if status in _OF_KERNEL else OTHER


class Context:
    """A context of one GPU. Most driver calls use the calling thread's current context."""

    # Objects that outlive the modules are deleted when `sys` is None here.
    _process_is_ending = staticmethod(sys.is_finalizing)

    def __init__(self, handle: int, number: int) -> None:
        self.handle, self.number = ctypes.c_void_p(handle), number
        self.cuda = library()

    @contextlib.contextmanager
    def active(self, stay: bool = False) -> Iterator[None]:
        """Make this context current, and restore the previous one afterwards. With `stay`, this context remains current
        if the thread had none. Raises LaunchError if this context has been destroyed."""
        previous, status = current_context(), 0
        push = previous != self.handle.value and not (stay and previous is None)
        if push:
            status = self.cuda.cuCtxPushCurrent_v2(self.handle)
        elif previous is None:
            status = self.cuda.cuCtxSetCurrent(self.handle)
        if status:
            raise launch_error("making the context current", status)
        try:
            yield
        finally:
            if push:
                self.cuda.cuCtxPopCurrent_v2(ctypes.byref(ctypes.c_void_p()))

    def call(self, action: str, name: str, *arguments: Any) -> None:
        """Call the driver's function `name` in this context. Raises LaunchError, whose message begins with `action`."""
        with self.active():
            status = getattr(self.cuda, name)(*arguments)
        if status:
            raise launch_error(action, status)

    def retry(self, action: str, status: int, enqueue: Callable[[], int]) -> None:
        """Call `enqueue` again, in this context, if its first call returned a `status` in WRONG_CONTEXT.

        Raises LaunchError for any other status, and if the second call fails.
        """
        if status in WRONG_CONTEXT:
            # For GPU 0, leave the context current, as a thread's first call of the CUDA runtime does: the next launch
            # then needs no retry. The context of another GPU would change the current device of CuPy and torch.
            with self.active(stay=self.number == 0):
                status = enqueue()
        if status:
            raise launch_error(action, status)

    def release(self, name: str, handle: ctypes.c_void_p | ctypes.c_uint64) -> None:
        """Release `handle` by the driver's function `name`, unless the process is ending or the context is gone.

        Garbage collection may call this at any time.
        """
        if handle.value and not self._process_is_ending():
            with self.apart_from_capture(), contextlib.suppress(LaunchError):
                self.call("releasing", name, handle)

    @contextlib.contextmanager
    def apart_from_capture(self) -> Iterator[None]:
        """Within this block, calls of this thread do not invalidate a graph capture in progress."""
        mode = ctypes.c_int(_RELAXED)
        self.cuda.cuThreadExchangeStreamCaptureMode(ctypes.byref(mode))
        try:
            yield
        finally:
            self.cuda.cuThreadExchangeStreamCaptureMode(ctypes.byref(mode))


class Memory:
    """Uninitialised device memory, freed with this object. int() returns its address."""

    def __init__(self, context: Context, nbytes: int) -> None:
        """Raises LaunchError if there is too little memory."""
        self.context, self.address = context, ctypes.c_uint64()
        with context.apart_from_capture():
            context.call("allocating", "cuMemAlloc_v2", ctypes.byref(self.address), ctypes.c_size_t(nbytes))

    def __int__(self) -> int:
        return self.address.value

    def __del__(self) -> None:
        self.context.release("cuMemFree_v2", self.address)


class Stream:
    """A stream that does not synchronise with the default stream."""

    def __init__(self, context: Context) -> None:
        self.context, self.handle = context, ctypes.c_void_p()
        non_blocking = 1
        context.call("making a stream", "cuStreamCreate", ctypes.byref(self.handle), non_blocking)

    def zero(self, address: int, nbytes: int) -> None:
        """Set memory to 0, and wait. A graph capture in progress does not record it. Raises LaunchError."""
        with self.context.apart_from_capture():
            arguments = ctypes.c_uint64(address), 0, ctypes.c_size_t(nbytes), self.handle
            self.context.call("zeroing", "cuMemsetD8Async", *arguments)
            self.context.call("zeroing", "cuStreamSynchronize", self.handle)

    def __del__(self) -> None:
        self.context.release("cuStreamDestroy_v2", self.handle)


class Captured:
    """What a call enqueues on a stream, captured instead of run."""

    def __init__(self, context: Context, stream: Stream, call: Callable[[], object], action: str) -> None:
        """Raises LaunchError, whose message begins with `action`, and the errors of `call`."""
        self.context, self.handle = context, ctypes.c_void_p()
        context.call(action, "cuStreamBeginCapture_v2", stream.handle, _RELAXED)
        try:
            with context.active():
                call()
        finally:
            context.call(action, "cuStreamEndCapture", stream.handle, ctypes.byref(self.handle))

    def __del__(self) -> None:
        self.context.release("cuGraphDestroy", self.handle)


class Executable:
    """A graph that can be launched."""

    def __init__(self, context: Context, graph: Captured, action: str) -> None:
        """Raises LaunchError, whose message begins with `action`."""
        self.handle, self.context = ctypes.c_void_p(), context
        context.call(
            action, "cuGraphInstantiateWithFlags", ctypes.byref(self.handle), graph.handle, ctypes.c_ulonglong(0)
        )

    def __del__(self) -> None:
        self.context.release("cuGraphExecDestroy", self.handle)


class Graph(Executable):
    """A graph of what a call enqueues on a stream, which is launched on the default stream."""

    def __init__(self, context: Context, stream: Stream, call: Callable[[], None], action: str) -> None:
        """Raises LaunchError, whose message begins with `action`, and the errors of `call`."""
        super().__init__(context, Captured(context, stream, call, action), action)
        self._action = action
        context.call(action, "cuGraphUpload", self.handle, stream.handle)  # the first launch would do it
        context.call(action, "cuStreamSynchronize", stream.handle)
        self._launch = functools.partial(context.cuda.cuGraphLaunch, self.handle, None)

    def launch(self) -> None:
        """Enqueue everything. Raises LaunchError."""
        if status := self._launch():
            self.context.retry(self._action, status, self._launch)


class Event:
    """An event on the default stream."""

    def __init__(self, context: Context) -> None:
        self.context, self.handle = context, ctypes.c_void_p()
        context.call("timing", "cuEventCreate", ctypes.byref(self.handle), 0)
        self._record = functools.partial(context.cuda.cuEventRecord, self.handle, None)

    def record(self) -> None:
        """Record the event after all work that is already enqueued."""
        if status := self._record():
            self.context.retry("timing", status, self._record)

    def passed(self) -> bool:
        """Whether the device has reached the event. Raises LaunchError if an earlier launch failed."""
        status = self.context.cuda.cuEventQuery(self.handle)
        if status not in (0, NOT_READY):
            raise launch_error("running", status)
        return bool(status == 0)

    def milliseconds_since(self, earlier: Event) -> float:
        """The time between two events that the device has reached, in ms."""
        time = ctypes.c_float()
        self.context.call("timing", "cuEventElapsedTime", ctypes.byref(time), earlier.handle, self.handle)
        return time.value

    def __del__(self) -> None:
        self.context.release("cuEventDestroy_v2", self.handle)


def current_context() -> int | None:
    """The handle of the calling thread's current context, whichever library set it; None if it has none."""
    context = ctypes.c_void_p()
    library().cuCtxGetCurrent(ctypes.byref(context))
    return context.value


def context_reader() -> Callable[[], int | None]:
    """A function like `current_context` for one thread, which takes a third of its time."""
    cuda = library()
    # Without releasing the interpreter's lock, which takes longer than the call.
    read: Any = ctypes.PyDLL(cuda._name, handle=cuda._handle).cuCtxGetCurrent
    cell = ctypes.c_void_p()
    reference = ctypes.byref(cell)

    def current() -> int | None:
        read(reference)
        return cell.value

    return current


def is_current(number: int) -> bool:
    """Whether the calling thread's current context belongs to the GPU with this number."""
    current, device = ctypes.c_int(-1), ctypes.c_int()
    library().cuCtxGetDevice(ctypes.byref(current))
    library().cuDeviceGet(ctypes.byref(device), number)
    return current.value == device.value


def stream_id(context: Context, stream: int) -> int | None:
    """The identifier of a stream, unique for the life of the process; None while a graph captures the stream. Raises
    LaunchError if it is no stream of the context."""
    capturing, number, handle = ctypes.c_int(), ctypes.c_ulonglong(), ctypes.c_void_p(stream)
    cuda = context.cuda

    def ask() -> int:
        status: int = cuda.cuStreamIsCapturing(handle, ctypes.byref(capturing))
        return status or (0 if capturing.value else cuda.cuStreamGetId(handle, ctypes.byref(number)))

    if status := ask():
        context.retry("launching", status, ask)
    return None if capturing.value else number.value


def device_of(address: int) -> int | None:
    """The number of the GPU whose memory holds an address; None if no GPU's does."""
    number = ctypes.c_int()
    status = library().cuPointerGetAttribute(ctypes.byref(number), _DEVICE_ORDINAL, ctypes.c_uint64(address))
    return None if status else number.value


def membership(context: Context) -> Callable[[Iterable[int]], bool]:
    """A predicate: whether all addresses were allocated in `context`. Threads must not share it."""
    owner, cell, own = ctypes.c_void_p(), ctypes.c_uint64(), context.handle.value
    query = functools.partial(library().cuPointerGetAttribute, ctypes.byref(owner), _CONTEXT, cell)

    def contains(addresses: Iterable[int]) -> bool:
        for address in addresses:
            cell.value = address
            if query() or owner.value != own:
                return False
        return True

    return contains


def context_of(address: int) -> int | None:
    """The handle of the context in which memory was allocated; None for memory of a CUDA memory pool, and for memory
    that CUDA did not allocate."""
    context = ctypes.c_void_p()
    status = library().cuPointerGetAttribute(ctypes.byref(context), _CONTEXT, ctypes.c_uint64(address))
    return None if status else context.value
