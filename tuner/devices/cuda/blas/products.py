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
MOST_KEPT = 64  # cached sets of checked addresses, and cached pairs of factors


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
    pointer, at_handle, number = ctypes.c_void_p, handles.at, context.handle.value
    kind: Any = ctypes.c_double if product.dtypes[2] == "float64" else ctypes.c_float
    # cuBLAS is column-major: the row-major C = A B is its C' = B' A'.
    a, b, c = (
        (type_, matrices.leading, *([ctypes.c_longlong(matrices.stride)] if product.batch > 1 else []))
        for type_, matrices in zip(map(_TYPES.get, product.dtypes), (product.A, product.B, product.C), strict=True)
    )
    enqueue = cublas.cublasGemmStridedBatchedEx if product.batch > 1 else cublas.cublasGemmEx
    first = _operation(product.B), _operation(product.A), product.N, product.M, product.K
    batch = (product.batch,) if product.batch > 1 else ()
    last = (*batch, _SUMMED_64F if kind is ctypes.c_double else _SUMMED_32F, _DEFAULT)
    checked: set[tuple[int, ...]] = set()
    factors: dict[tuple[float, float], tuple[Any, ...]] = {}

    def scaled(alpha: float, beta: float) -> tuple[Any, ...]:
        if len(factors) >= MOST_KEPT:
            factors.clear()
        cells = kind(alpha), kind(beta)
        cached = factors[(alpha, beta)] = *map(ctypes.byref, cells), cells
        return cached

    live = forking.live(_KIND)

    def call(arrays: Sequence[Any], stream: Any, alpha: float, beta: float) -> None:
        if not live:
            raise forking.forked(_KIND)
        read, current = readers[type(arrays[0])]
        addresses = tuple(read(arrays))
        if addresses not in checked:
            check(addresses)
            if len(checked) >= MOST_KEPT:
                checked.clear()
            checked.add(addresses)
        one, other, _ = factors.get((alpha, beta)) or scaled(alpha, beta)
        at_c, at_a, at_b = map(pointer, addresses)
        handle = at_handle(current(arrays[0]) if stream is None else stream_handle(stream), context)
        arguments = handle, *first, one, at_b, *b, at_a, *a, other, at_c, *c, *last
        if driver.current_context() == number:
            status = enqueue(*arguments)
        else:
            with context.active(stay=True):
                status = enqueue(*arguments)
        if status:
            raise LaunchError(f"launching cuBLAS: status {status}")

    return call


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
