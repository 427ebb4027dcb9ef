"""What the driver makes in a context, and releases with its object: memory, streams, graphs and events."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable

from tuner.devices.cuda.driver.context import RELAXED, Context, launch_error

NOT_READY = 600
DEFAULT_STREAM = (0, 1)  # CU_STREAM_LEGACY, which no graph captures


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
        context.call(action, "cuStreamBeginCapture_v2", stream.handle, RELAXED)
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


class EventTimer:
    """A pair of events on the default stream."""

    def __init__(self, context: Context) -> None:
        self._start, self._stop = Event(context), Event(context)
        self.start, self.stop = self._start.record, self._stop.record
        self.finished = self._stop.passed

    def milliseconds(self) -> float:
        return self._stop.milliseconds_since(self._start)


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
