"""Contexts of GPUs, in which the driver is called, and the errors that it returns."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import sys
from collections.abc import Callable, Iterator
from typing import Any

from tuner.devices.environment import OTHER
from tuner.errors import LaunchError

# CUDA_ERROR_INVALID_CONTEXT and CUDA_ERROR_INVALID_HANDLE: the driver returns them, and enqueues nothing, if the thread
# has no current context, or if the function or the stream belongs to another context.
WRONG_CONTEXT = (201, 400)
_REASONS = {2: "out of memory", 700: "illegal memory access", 701: "too many resources", 716: "misaligned address"}
# Statuses that speak of a kernel, or of how it is launched. Any other, such as an uncorrectable error of the memory, is
# trouble of the machine.
_OF_KERNEL = frozenset({1, 2, 200, 201, 209, 218, 222, 300, 400, 500, 801, *range(700, 800), *range(900, 1000)} - {999})
RELAXED = 2  # of CUstreamCaptureMode


@functools.cache
def library() -> ctypes.CDLL:
    """The driver's shared library. Raises OSError if it is missing."""
    return ctypes.CDLL("libcuda.so.1")


def initialise() -> None:
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
        mode = ctypes.c_int(RELAXED)
        self.cuda.cuThreadExchangeStreamCaptureMode(ctypes.byref(mode))
        try:
            yield
        finally:
            self.cuda.cuThreadExchangeStreamCaptureMode(ctypes.byref(mode))


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
