"""The CUDA driver by ctypes: contexts, modules, launches, memory, events.

Whatever depends on a context goes through here. PyCUDA keeps a stack of contexts of its own for each thread: it does
not see what CuPy or torch make current, frees memory only in the thread that made its context, ends the process where
a thread ends with a context on its stack, and launches only into streams that it made.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import math
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from tuner.errors import LaunchError
from tuner.space.model import Geometry

NOT_READY = 600
# What a launch is refused with, before anything is enqueued, where no context is current on the thread, or another one
# than the function or the stream belongs to.
WRONG_CONTEXT = (201, 400)
_REASONS = {2: "out of memory", 700: "illegal memory access", 701: "too many resources", 716: "misaligned address"}
_MAX_THREADS, _DYNAMIC_SHARED_MEMORY = 0, 8  # of CUfunction_attribute
_CONTEXT, _DEVICE_ORDINAL = 1, 9  # of CUpointer_attribute
_RELAXED = 2  # of CUstreamCaptureMode


@functools.cache
def library() -> ctypes.CDLL:
    """The driver."""
    return ctypes.CDLL("libcuda.so.1")


def failed(what: str, status: int) -> LaunchError:
    """The error for a status of the driver's, with a reason of its own where a kernel did it."""
    text = ctypes.c_char_p()
    library().cuGetErrorString(status, ctypes.byref(text))
    said = (text.value or b"unknown error").decode()
    return LaunchError(f"{what}: {said} (CUDA error {status})", _REASONS.get(status))


class Context:
    """A context of one GPU. Most calls of the driver work in the one that is current on the calling thread."""

    def __init__(self, handle: int, number: int) -> None:
        self.handle, self.number = ctypes.c_void_p(handle), number
        self.cuda = library()

    @contextlib.contextmanager
    def active(self, stay: bool = False) -> Iterator[None]:
        """This one is current within; then again what was before, whoever made it so. With `stay`, a thread that had
        none keeps it. Raises LaunchError where the context is gone."""
        before, status = current_context(), 0
        pushed = before != self.handle.value and not (stay and before is None)
        if pushed:
            status = self.cuda.cuCtxPushCurrent_v2(self.handle)
        elif before is None:
            status = self.cuda.cuCtxSetCurrent(self.handle)
        if status:
            raise failed("making the context current", status)
        try:
            yield
        finally:
            if pushed:
                self.cuda.cuCtxPopCurrent_v2(ctypes.byref(ctypes.c_void_p()))

    def call(self, what: str, name: str, *arguments: Any) -> None:
        """The driver's function `name` in this context. Raises LaunchError that says `what` failed."""
        with self.active():
            status = getattr(self.cuda, name)(*arguments)
        if status:
            raise failed(what, status)

    def again(self, what: str, status: int, enqueue: Callable[[], int]) -> None:
        """Do in this context what was refused with `status`, if that was because another one is current.

        Raises LaunchError otherwise, and where it is refused again.
        """
        if status in WRONG_CONTEXT:
            # A thread's first call of CUDA's runtime leaves the context of GPU 0 current, and so does this, to spare
            # the next launch the same. That of another GPU would change where CuPy and torch work.
            with self.active(stay=self.number == 0):
                status = enqueue()
        if status:
            raise failed(what, status)

    def drop(self, name: str, handle: ctypes.c_void_p | ctypes.c_uint64) -> None:
        """Give back what `handle` names, unless the process is ending, or the context is gone.

        It may come to that at any time, and must not break a capture of a graph that is under way.
        """
        if handle.value and not sys.is_finalizing():
            mode = ctypes.c_int(_RELAXED)
            self.cuda.cuThreadExchangeStreamCaptureMode(ctypes.byref(mode))
            with contextlib.suppress(LaunchError):
                self.call("giving back", name, handle)
            self.cuda.cuThreadExchangeStreamCaptureMode(ctypes.byref(mode))


class Module:
    """A cubin on the device, for as long as this lives, and its kernel."""

    def __init__(self, context: Context, binary: bytes, kernel: str, geometry: Geometry) -> None:
        """Raises LaunchError where the binary is not for this GPU, or a block needs more than it has."""
        self.context, self.handle, self.function = context, ctypes.c_void_p(), ctypes.c_void_p()
        what, most = f"loading {kernel}", ctypes.c_int()
        context.call(what, "cuModuleLoadData", ctypes.byref(self.handle), binary)
        context.call(what, "cuModuleGetFunction", ctypes.byref(self.function), self.handle, kernel.encode())
        if geometry.shared_memory:
            # Refused where it and the static shared memory are more than a block may have.
            context.call(what, "cuFuncSetAttribute", self.function, _DYNAMIC_SHARED_MEMORY, geometry.shared_memory)
        context.call(what, "cuFuncGetAttribute", ctypes.byref(most), _MAX_THREADS, self.function)
        threads = math.prod(geometry.block)
        if threads > most.value:
            raise LaunchError(f"{what}: {threads} threads a block, of {most.value} at most", "too many resources")

    def __del__(self) -> None:
        self.context.drop("cuModuleUnload", self.handle)


class Memory:
    """Bytes on the device, contents undefined, for as long as this lives. int() gives the address."""

    def __init__(self, context: Context, nbytes: int) -> None:
        """Raises LaunchError where they do not fit."""
        self.context, self.address = context, ctypes.c_uint64()
        context.call("allocating", "cuMemAlloc_v2", ctypes.byref(self.address), ctypes.c_size_t(nbytes))

    def __int__(self) -> int:
        return self.address.value

    def __del__(self) -> None:
        self.context.drop("cuMemFree_v2", self.address)


class Event:
    """A mark in the default stream."""

    def __init__(self, context: Context) -> None:
        self.context, self.handle = context, ctypes.c_void_p()
        context.call("timing", "cuEventCreate", ctypes.byref(self.handle), 0)
        self._record = functools.partial(context.cuda.cuEventRecord, self.handle, None)

    def record(self) -> None:
        """Put the mark after all that has been enqueued."""
        if status := self._record():
            self.context.again("timing", status, self._record)

    def passed(self) -> bool:
        """Whether the device has passed it. Raises LaunchError where it has failed on the way."""
        status = self.context.cuda.cuEventQuery(self.handle)
        if status not in (0, NOT_READY):
            raise failed("running", status)
        return bool(status == 0)

    def milliseconds_since(self, earlier: Event) -> float:
        """Time between two marks that the device has passed, in ms."""
        time = ctypes.c_float()
        self.context.call("timing", "cuEventElapsedTime", ctypes.byref(time), earlier.handle, self.handle)
        return time.value

    def __del__(self) -> None:
        self.context.drop("cuEventDestroy_v2", self.handle)


class _Config(ctypes.Structure):
    """CUlaunchConfig."""

    _fields_ = (
        *((name, ctypes.c_uint) for name in ("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z", "shared")),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.c_void_p),
        ("attribute_count", ctypes.c_uint),
    )


class Launch:
    """A launch with its arguments where the driver reads them.

    `cells[changing]` are the addresses of the arrays that were left open, `cells[scalars]` the `bits` of the scalars,
    `config.stream` is the stream. One call at a time may set them before it launches; what is not changed may be
    launched by several threads.
    """

    def __init__(self, module: Module, geometry: Geometry, arguments: Sequence[Any], stream: int = 0) -> None:
        """`arguments` are addresses, NumPy scalars, and None for an array that is left open."""
        self.module = module
        self.config = _Config(*geometry.grid, *geometry.block, geometry.shared_memory, stream)
        # A cell of eight bytes holds any one of them. The open arrays lie together, and so do the scalars: one
        # assignment sets all of a kind.
        order = sorted(range(len(arguments)), key=lambda position: _kind(arguments[position]))
        kinds = [_kind(arguments[position]) for position in order]
        self.changing, self.scalars = slice(kinds.count(0)), slice(kinds.count(0), kinds.count(0) + kinds.count(1))
        self.cells = (ctypes.c_uint64 * len(order))()
        parameters = (ctypes.c_void_p * len(order))()
        for cell, position in enumerate(order):
            value = arguments[position]
            self.cells[cell] = bits(value) if isinstance(value, np.generic) else int(value or 0)
            parameters[position] = ctypes.addressof(self.cells) + 8 * cell
        # cuLaunchKernelEx, because its four arguments cost ctypes half of what cuLaunchKernel's eleven do.
        self.enqueue = functools.partial(
            library().cuLaunchKernelEx,
            ctypes.byref(self.config),
            ctypes.c_void_p.from_param(module.function.value),  # converted once
            ctypes.byref(parameters),
            None,
        )


def _kind(argument: Any) -> int:
    """0 for an array that is left open, 1 for a scalar, 2 for any other array."""
    return 0 if argument is None else 1 if isinstance(argument, np.generic) else 2


def bits(scalar: Any) -> int:
    """What a NumPy scalar is in a cell."""
    return int.from_bytes(scalar.tobytes(), sys.byteorder)


def current_context() -> int | None:
    """What is current on the calling thread, whoever made it so."""
    found = ctypes.c_void_p()
    library().cuCtxGetCurrent(ctypes.byref(found))
    return found.value


def device_of(address: int) -> int | None:
    """The number of the GPU whose memory an address is in; None for any other address."""
    found = ctypes.c_int()
    status = library().cuPointerGetAttribute(ctypes.byref(found), _DEVICE_ORDINAL, ctypes.c_uint64(address))
    return None if status else found.value


def all_in(context: Context) -> Callable[[Iterable[int]], bool]:
    """A function that says whether all addresses were allocated in `context`; for one call at a time."""
    found, cell, own = ctypes.c_void_p(), ctypes.c_uint64(), context.handle.value
    ask = functools.partial(library().cuPointerGetAttribute, ctypes.byref(found), _CONTEXT, cell)

    def asked(addresses: Iterable[int]) -> bool:
        for address in addresses:
            cell.value = address
            if ask() or found.value != own:
                return False
        return True

    return asked


def context_of(address: int) -> int | None:
    """The context that memory was allocated in; None where it belongs to none, or is no memory of CUDA's."""
    found = ctypes.c_void_p()
    status = library().cuPointerGetAttribute(ctypes.byref(found), _CONTEXT, ctypes.c_uint64(address))
    return None if status else found.value
