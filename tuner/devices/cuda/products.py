"""cuBLAS on the caller's arrays, through nvmath-python's bindings."""

from __future__ import annotations

import ctypes
import functools
import threading
from collections.abc import Sequence
from typing import Any

from tuner.devices.arguments import address_check
from tuner.devices.cuda import gemm
from tuner.devices.cuda.arrays import Readers, stream_handle
from tuner.devices.product import Matrices, MatrixProduct, ProductLaunch
from tuner.errors import LaunchError

MOST_CHECKED = 64  # sets of addresses that a launch remembers as checked


def launch(product: MatrixProduct, readers: Readers, context: Any) -> ProductLaunch | None:
    """The call that enqueues `product` on arrays of `readers` in a context. All are summed in float32 without TF32, but
    doubles. None where cuBLAS lacks it for these types, or where nvmath-python or cuBLAS is not installed."""
    if not gemm.has(*product.dtypes):
        return None
    try:
        with context.active():
            handles = _handles(context.handle.value)
            handles.at(0)
    except (ImportError, RuntimeError):  # nvmath-python is installed, but cuBLAS is not
        return None
    return _call(product, readers, context, handles)


def _call(product: MatrixProduct, readers: Readers, context: Any, handles: _Handles) -> ProductLaunch:
    from nvmath import CudaDataType
    from nvmath.bindings import cublas

    a, b, c = (int(CudaDataType[gemm.TYPES[name]]) for name in product.dtypes)
    kind: Any = ctypes.c_double if product.dtypes[2] == "float64" else ctypes.c_float
    kinds, default = cublas.ComputeType, cublas.GemmAlgo.DFALT
    summed = kinds.COMPUTE_64F if kind is ctypes.c_double else kinds.COMPUTE_32F
    A, B, C, sizes = product.A, product.B, product.C, (product.N, product.M, product.K)
    check = address_check(product.specs)
    checked: set[tuple[int, ...]] = set()
    factors: dict[tuple[float, float], tuple[Any, Any]] = {}

    def operation(matrices: Matrices) -> Any:
        return cublas.Operation.T if matrices.is_transposed else cublas.Operation.N

    left, right = operation(B), operation(A)  # cuBLAS is column-major: the row-major C = A B is its C' = B' A'

    def call(arrays: Sequence[Any], stream: Any, alpha: float, beta: float) -> None:
        read, current = readers[type(arrays[0])]
        addresses = tuple(read(arrays))
        if addresses not in checked:
            check(addresses)
            if len(checked) >= MOST_CHECKED:
                checked.clear()
            checked.add(addresses)
        scaled = factors.get((alpha, beta))
        if scaled is None:
            if len(factors) >= MOST_CHECKED:
                factors.clear()
            scaled = factors[(alpha, beta)] = kind(alpha), kind(beta)
        one, other = map(ctypes.addressof, scaled)
        at_c, at_a, at_b = addresses
        handle = handles.at(current(arrays[0]) if stream is None else stream_handle(stream))
        try:
            with context.active(stay=True):
                if product.batch == 1:
                    cublas.gemm_ex(
                        handle, left, right, *sizes, one, at_b, b, B.leading, at_a, a, A.leading, other,
                        at_c, c, C.leading, summed, default,
                    )  # fmt: skip
                else:
                    cublas.gemm_strided_batched_ex(
                        handle, left, right, *sizes, one, at_b, b, B.leading, B.stride, at_a, a, A.leading, A.stride,
                        other, at_c, c, C.leading, C.stride, product.batch, summed, default,
                    )  # fmt: skip
        except cublas.cuBLASError as error:
            raise LaunchError(f"launching cuBLAS: {error}") from None

    return call


class _Handles(threading.local):
    """The handles of one thread in one context, by stream: a handle's workspace must not serve two streams at once.
    They live as long as the process."""

    def __init__(self) -> None:
        self._by_stream: dict[int, int] = {}

    def at(self, stream: int) -> int:
        handle = self._by_stream.get(stream)
        if handle is None:
            from nvmath.bindings import cublas

            handle = cublas.create()
            cublas.set_stream(handle, stream)
            self._by_stream[stream] = handle
        return handle


@functools.cache
def _handles(context: int) -> _Handles:
    return _Handles()
