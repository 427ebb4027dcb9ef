"""Launches cuBLAS on the caller's arrays by ctypes, since Python bindings take longer than the driver's launch."""

from __future__ import annotations

import ctypes
import functools
import threading
from collections.abc import Callable, Sequence
from typing import Any

from tuner.devices import forking
from tuner.devices.arguments import ArraySpec, address_check
from tuner.devices.cuda import driver
from tuner.devices.cuda.arrays import Readers, stream_handle
from tuner.devices.cuda.blas import gemm
from tuner.devices.product import Matrices, MatrixProduct, ProductLaunch
from tuner.errors import DeviceError, LaunchError

_KIND = "cuda"
# cudaDataType, cublasComputeType_t, cublasOperation_t and cublasGemmAlgo_t. TF32 is never used.
_TYPES = {"float32": 0, "float64": 1, "float16": 2, "bfloat16": 14}
_SUMMED_32F, _SUMMED_64F, _DEFAULT = 68, 70, -1
_PLAIN, _TRANSPOSED = 0, 1
PER_THREAD = 2  # CU_STREAM_PER_THREAD: stands for a different stream in each thread
MOST_KEPT = 256  # prepared calls per thread: sets of addresses with a stream and factors


def launch(
    product: MatrixProduct, specs: Sequence[ArraySpec], readers: Readers, context: driver.Context
) -> ProductLaunch | None:
    """A function that enqueues `product` in `context` on arrays that meet `specs` and that `readers` read. It
    accumulates in float32, or in float64 for doubles. None if cuBLAS does not support these dtypes and sizes, or is not
    installed."""
    if not gemm.has(*product.dtypes) or not gemm.fits(product) or _library() is None:
        return None
    handles = _handles(context.handle.value or 0)
    try:
        handles.at(0, context)
    except DeviceError:
        return None
    return _call(product, address_check(specs), readers, context, handles)


@functools.cache
def _library() -> ctypes.CDLL | None:
    """cuBLAS's shared library; None if it is not installed. If another package has loaded it, that copy is used."""
    try:
        from cuda.pathfinder import load_nvidia_dynamic_lib
    except ImportError:
        return None
    try:
        return ctypes.CDLL(str(load_nvidia_dynamic_lib("cublas").abs_path))
    except (RuntimeError, OSError):  # it or a dependency is missing
        return None


def _call(
    product: MatrixProduct,
    check: Callable[[Sequence[int]], None],
    readers: Readers,
    context: driver.Context,
    handles: _Handles,
) -> ProductLaunch:
    cublas: Any = _library()
    # Arguments in ctypes' own form, which it passes on as they are. Objects such as c_int(1) take 0.4 us more in all.
    pointer, integer, at_handle = ctypes.c_void_p.from_param, ctypes.c_int.from_param, handles.at
    kind: Any = ctypes.c_double if product.dtypes[2] == "float64" else ctypes.c_float
    # cuBLAS is column-major: the row-major C = A B is its C' = B' A'.
    a, b, c = (
        (
            integer(type_),
            integer(matrices.leading),
            *([ctypes.c_longlong.from_param(matrices.stride)] if product.batch > 1 else []),
        )
        for type_, matrices in zip(
            (_TYPES[dtype] for dtype in product.dtypes), (product.A, product.B, product.C), strict=True
        )
    )
    enqueue = cublas.cublasGemmStridedBatchedEx if product.batch > 1 else cublas.cublasGemmEx
    first = [*map(integer, (_operation(product.B), _operation(product.A), product.N, product.M, product.K))]
    batch = (product.batch,) if product.batch > 1 else ()
    last = [*map(integer, (*batch, _SUMMED_64F if kind is ctypes.c_double else _SUMMED_32F, _DEFAULT))]
    threads, live, number = _Prepared(), forking.live(_KIND), context.handle.value

    def prepare(key: tuple[Any, ...]) -> Callable[[], int]:
        """The call for these addresses, stream and factors in this thread, whose arguments are checked once."""
        *addresses, stream, alpha, beta = key
        check(addresses)
        at_c, at_a, at_b = map(pointer, addresses)
        one, other = (ctypes.byref(kind(factor)) for factor in (alpha, beta))
        handle = pointer(at_handle(stream, context).value)
        if len(threads.calls) >= MOST_KEPT:
            threads.calls.clear()
        prepared = threads.calls[key] = functools.partial(
            enqueue, handle, *first, one, at_b, *b, at_a, *a, other, at_c, *c, *last
        )
        return prepared

    def call(arrays: Sequence[Any], stream: Any, alpha: float, beta: float) -> None:
        if not live:
            raise forking.forked(_KIND)
        read, current = readers[type(arrays[0])]
        key = (*read(arrays), current(arrays[0]) if stream is None else stream_handle(stream), alpha, beta)
        enqueue = threads.calls.get(key) or prepare(key)
        if threads.current_context() == number:
            status = enqueue()
        else:
            with context.active(stay=True):
                status = enqueue()
        if status:
            raise LaunchError(f"launching cuBLAS: status {status}")

    return call


class _Prepared(threading.local):
    """The prepared calls of one thread, and its own way to ask for its current context."""

    def __init__(self) -> None:
        self.calls: dict[tuple[Any, ...], Callable[[], int]] = {}
        self.current_context = driver.context_reader()


def _operation(matrices: Matrices) -> int:
    return _TRANSPOSED if matrices.is_transposed else _PLAIN


class _ThreadHandles(dict[int, ctypes.c_void_p]):
    """The cuBLAS handles of one thread, by stream. When the thread ends, they move to `free`, for the next thread that
    uses their streams: a handle holds device memory, and destroying it would synchronise with the device."""

    def __init__(self, free: dict[int, list[ctypes.c_void_p]]) -> None:
        super().__init__()
        self.free = free

    def __del__(self) -> None:
        for stream, handle in self.items():
            if stream != PER_THREAD:
                self.free.setdefault(stream, []).append(handle)


class _Handles(threading.local):
    """The cuBLAS handles in one context, by thread and stream: two streams must not use a handle's workspace at once.
    Handles live as long as the process."""

    def __init__(self, free: dict[int, list[ctypes.c_void_p]]) -> None:
        self._by_stream = _ThreadHandles(free)

    def at(self, stream: int, context: driver.Context) -> ctypes.c_void_p:
        """This thread's handle for a stream. Raises DeviceError if cuBLAS cannot create one."""
        handle = self._by_stream.get(stream)
        if handle is None:
            try:
                handle = self._by_stream.free[stream].pop()
            except LookupError:
                handle = _new_handle(stream, context)
            self._by_stream[stream] = handle
        return handle


def _new_handle(stream: int, context: driver.Context) -> ctypes.c_void_p:
    cublas: Any = _library()
    handle = ctypes.c_void_p()
    with context.apart_from_capture(), context.active():
        status = cublas.cublasCreate_v2(ctypes.byref(handle))
        status = status or cublas.cublasSetStream_v2(handle, ctypes.c_void_p(stream))
    if status:
        raise DeviceError(f"cuBLAS: status {status} when creating a handle; free memory on cuda:{context.number}")
    return handle


@functools.cache
def _handles(context: int) -> _Handles:
    return _Handles({})
