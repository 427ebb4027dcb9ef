"""cuBLAS on the caller's arrays, by ctypes: bindings in Python take longer than the driver does for a launch."""

from __future__ import annotations

import ctypes
import functools
import threading
from collections.abc import Callable, Sequence
from typing import Any

from tuner.devices.arguments import ArraySpec, address_check
from tuner.devices.cuda import driver
from tuner.devices.cuda.arrays import Readers, stream_handle
from tuner.devices.cuda.blas import gemm
from tuner.devices.product import Matrices, MatrixProduct, ProductLaunch
from tuner.errors import DeviceError, LaunchError

# cudaDataType, cublasComputeType_t, cublasOperation_t and cublasGemmAlgo_t. TF32 is never used.
_TYPES = {"float32": 0, "float64": 1, "float16": 2, "bfloat16": 14}
_SUMMED_32F, _SUMMED_64F, _DEFAULT = 68, 70, -1
_PLAIN, _TRANSPOSED = 0, 1
PER_THREAD = 2  # CU_STREAM_PER_THREAD: another stream in each thread
MOST_KEPT = 64  # sets of addresses that a launch remembers as checked, and pairs of factors


def launch(
    product: MatrixProduct, specs: Sequence[ArraySpec], readers: Readers, context: driver.Context
) -> ProductLaunch | None:
    """The call that enqueues `product` in a context on arrays that `specs` allow and `readers` read. All are summed in
    float32, but doubles. None where cuBLAS lacks it for these types and sizes, or where it is not installed."""
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
    """cuBLAS; None where it is not installed. One that another package has loaded is taken."""
    try:
        from cuda.pathfinder import load_nvidia_dynamic_lib
    except ImportError:
        return None
    try:
        return ctypes.CDLL(str(load_nvidia_dynamic_lib("cublas").abs_path))
    except (RuntimeError, OSError):  # it is not found, or needs what is not there
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
        kept = factors[(alpha, beta)] = *map(ctypes.byref, cells), cells
        return kept

    def call(arrays: Sequence[Any], stream: Any, alpha: float, beta: float) -> None:
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


class _Own(dict[int, ctypes.c_void_p]):
    """The handles of one thread by stream. When it ends, they are `left` to the next one that works on their streams:
    each has memory of the device, and to destroy one waits for all that runs."""

    def __init__(self, left: dict[int, list[ctypes.c_void_p]]) -> None:
        super().__init__()
        self.left = left

    def __del__(self) -> None:
        for stream, handle in self.items():
            if stream != PER_THREAD:
                self.left.setdefault(stream, []).append(handle)


class _Handles(threading.local):
    """The handles of each thread in one context, by stream: a handle's workspace must not serve two streams at once.
    They live as long as the process."""

    def __init__(self, left: dict[int, list[ctypes.c_void_p]]) -> None:
        self._by_stream = _Own(left)

    def at(self, stream: int, context: driver.Context) -> ctypes.c_void_p:
        """The handle for a stream. Raises DeviceError where cuBLAS cannot begin."""
        handle = self._by_stream.get(stream)
        if handle is None:
            try:
                handle = self._by_stream.left[stream].pop()
            except LookupError:
                handle = _begun(stream, context)
            self._by_stream[stream] = handle
        return handle


def _begun(stream: int, context: driver.Context) -> ctypes.c_void_p:
    cublas: Any = _library()
    handle = ctypes.c_void_p()
    with context.apart_from_capture(), context.active():
        status = cublas.cublasCreate_v2(ctypes.byref(handle))
        status = status or cublas.cublasSetStream_v2(handle, ctypes.c_void_p(stream))
    if status:
        raise DeviceError(f"cuBLAS: status {status}; is there memory left on cuda:{context.number}?")
    return handle


@functools.cache
def _handles(context: int) -> _Handles:
    return _Handles({})
