"""Runs cuBLAS with its default algorithm as a baseline for kernels, through nvmath-python's bindings.

The algorithms of cuBLASLt are in `cublas_lt`.
"""

from __future__ import annotations

import ctypes
import functools
import weakref
from collections.abc import Collection, Mapping
from typing import Any

from tuner.devices.base import Library
from tuner.devices.cuda.blas import gemm
from tuner.devices.cuda.blas.gemm import Operand, Product
from tuner.errors import OutOfMemory


def library(
    routine: str, arguments: Mapping[str, Any], dtypes: Mapping[str, str], transposed: Collection[str]
) -> Library | None:
    """A routine of `tuner.space.routines` on these arguments. None if an argument is missing, if cuBLAS does not
    support the routine or the dtypes, or if nvmath-python or cuBLAS is not installed. Raises OutOfMemory."""
    product = Product.of(arguments, dtypes, transposed) if routine == "gemm" else None
    if product is None or not gemm.is_installed():
        return None
    try:
        return _Gemm(product)
    except (ImportError, RuntimeError):  # nvmath-python is installed, but cuBLAS is not
        return None


def release(owner: object, destroy: Any, handle: int) -> int:
    """Destroy `handle` when its owner is deleted, and return it. Not at exit, when the context may already be gone."""
    weakref.finalize(owner, destroy, handle).atexit = False
    return handle


def version_text(version: int) -> str:
    """A library version as text, `13.1.0` for 130100."""
    return f"{version // 10000}.{version // 100 % 100}.{version % 100}"


def factors(product: Product) -> list[Any]:
    """Alpha and beta, in the type in which the product is accumulated."""
    kind = ctypes.c_double if product.is_double else ctypes.c_float
    return [kind(product.alpha), kind(product.beta)]


class _Gemm:
    """The product with the algorithm that cuBLAS chooses."""

    def __init__(self, product: Product) -> None:
        from nvmath import CudaDataType
        from nvmath.bindings import cublas

        try:
            handle = release(self, cublas.destroy, cublas.create())
        except cublas.cuBLASError as error:
            if error.status != cublas.Status.ALLOC_FAILED:
                raise
            raise OutOfMemory(f"cuda: {error}; end other programs on the device, or try a smaller size") from None
        # A sum that is split is otherwise added up in the type of C, 16 bits wide.
        cublas.set_math_mode(handle, cublas.Math.DISALLOW_REDUCED_PRECISION_REDUCTION)
        self.name = f"cuBLAS {version_text(cublas.get_version(handle))}"
        self._factors = factors(product)
        alpha, beta = map(ctypes.addressof, self._factors)
        left, right, result = product.left, product.right, product.result
        m, n, k, batch = result.rows, result.columns, product.inner, product.batch
        kinds = cublas.ComputeType
        last = kinds.COMPUTE_64F if product.is_double else kinds.COMPUTE_32F, cublas.GemmAlgo.DFALT

        def operation(operand: Operand) -> Any:
            return cublas.Operation.T if operand.is_transposed else cublas.Operation.N

        def matrix(operand: Operand) -> tuple[int, ...]:
            strides = (operand.stride,) if batch > 1 else ()
            return operand.address, CudaDataType[operand.type], operand.rows, *strides

        call, count = (cublas.gemm_strided_batched_ex, (batch,)) if batch > 1 else (cublas.gemm_ex, ())
        self._call = functools.partial(
            call, handle, operation(left), operation(right), m, n, k, alpha, *matrix(left), *matrix(right), beta,
            *matrix(result), *count, *last,
        )  # fmt: skip

    def __call__(self) -> None:
        self._call()
