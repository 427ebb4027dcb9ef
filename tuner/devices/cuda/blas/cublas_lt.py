"""Runs the algorithms that cuBLASLt expects to be fastest for a product, through nvmath-python's bindings."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np

from tuner.devices.base import Buffer, Library
from tuner.devices.cuda.blas import cublas, gemm
from tuner.devices.cuda.blas.gemm import Operand, Product

ASKED = 32  # algorithms requested from the heuristic
WORKSPACE = 32 << 20  # bytes of workspace for each algorithm
_ALIGNED = 256  # bytes; no algorithm requires a higher alignment


def algorithms(
    routine: str,
    arguments: Mapping[str, Any],
    dtypes: Mapping[str, str],
    transposed: Collection[str],
    allocate: Callable[[int], Buffer],
) -> list[Library]:
    """At most ASKED algorithms, the most promising first. They share a workspace from `allocate`. Empty if
    `cublas.library` would be None, or if cuBLASLt has no algorithm for the product."""
    product = Product.of(arguments, dtypes, transposed) if routine == "gemm" else None
    if product is None or not gemm.is_installed():
        return []
    try:
        return _Plan(product, allocate).algorithms()
    except (ImportError, RuntimeError):  # nvmath-python is installed, but cuBLAS is not
        return []


class _Algorithm:
    """One of the algorithms. `plan` owns the memory that its call refers to."""

    def __init__(self, plan: _Plan, name: str, call: Callable[[], None]) -> None:
        self.name, self._plan, self._call = name, plan, call

    def __call__(self) -> None:
        self._call()


class _Plan:
    """The cuBLASLt descriptors of a product. They are created once, so that calling an algorithm only enqueues it."""

    def __init__(self, product: Product, allocate: Callable[[int], Buffer]) -> None:
        from nvmath import CudaDataType
        from nvmath.bindings import cublasLt

        self._lt, self._types, self._product = cublasLt, CudaDataType, product
        self._handle = cublas.release(self, cublasLt.destroy, cublasLt.create())
        self._operation = self._described()
        matrices = (product.left, product.right, product.result)
        self._left, self._right, self._result = map(self._layout, matrices)
        self._factors, self._allocate = cublas.factors(product), allocate

    def algorithms(self) -> list[Library]:
        """The algorithms that cuBLASLt reports as able to run."""
        lt, found = self._lt, np.zeros(1, np.int32)
        self._offers = np.zeros(ASKED, lt.matmul_heuristic_result_dtype)
        layouts = self._left, self._right, self._result, self._result
        preference = self._preference()
        try:
            lt.matmul_algo_get_heuristic(
                self._handle, self._operation, *layouts, preference, ASKED, self._offers.ctypes.data, found.ctypes.data
            )
        except lt.cuBLASLtError:  # it has no algorithm
            return []
        first, each = self._offers.ctypes.data + self._offers.dtype.fields["algo"][1], self._offers.itemsize
        offers = [first + i * each for i in range(found[0]) if self._offers["state"][i] == 0]
        self._workspace = self._allocate(WORKSPACE)
        alpha, beta = map(ctypes.addressof, self._factors)
        left, right, result = self._product.left, self._product.right, self._product.result
        name = f"cuBLASLt {cublas.version_text(lt.get_version())} (best of {ASKED})"
        default_stream = 0
        return [
            _Algorithm(self, name, functools.partial(
                lt.matmul, self._handle, self._operation, alpha, left.address, self._left, right.address, self._right,
                beta, result.address, self._result, result.address, self._result, offer,
                int(self._workspace.handle), WORKSPACE, default_stream,
            ))
            for offer in offers
        ]  # fmt: skip

    def _described(self) -> int:
        from nvmath.bindings import cublas as words

        lt, is_double = self._lt, self._product.is_double
        kind = words.ComputeType.COMPUTE_64F if is_double else words.ComputeType.COMPUTE_32F
        scale = self._types.CUDA_R_64F if is_double else self._types.CUDA_R_32F
        description = cublas.release(self, lt.matmul_desc_destroy, lt.matmul_desc_create(kind, scale))
        for name, operand in (("TRANSA", self._product.left), ("TRANSB", self._product.right)):
            operation = words.Operation.T if operand.is_transposed else words.Operation.N
            attribute = lt.MatmulDescAttribute[name]
            gemm.set_attribute(lt.matmul_desc_set_attribute, description, attribute, ctypes.c_int32(operation))
        return description

    def _layout(self, operand: Operand) -> int:
        lt = self._lt
        created = lt.matrix_layout_create(self._types[operand.type], operand.rows, operand.columns, operand.rows)
        layout, names = cublas.release(self, lt.matrix_layout_destroy, created), lt.MatrixLayoutAttribute
        batch, stride = ctypes.c_int32(self._product.batch), ctypes.c_int64(operand.stride)
        gemm.set_attribute(lt.matrix_layout_set_attribute, layout, names.BATCH_COUNT, batch)
        gemm.set_attribute(lt.matrix_layout_set_attribute, layout, names.STRIDED_BATCH_OFFSET, stride)
        return layout

    def _preference(self) -> int:
        lt, product = self._lt, self._product
        preference = cublas.release(self, lt.matmul_preference_destroy, lt.matmul_preference_create())
        names, change = lt.MatmulPreferenceAttribute, lt.matmul_preference_set_attribute
        gemm.set_attribute(change, preference, names.MAX_WORKSPACE_BYTES, ctypes.c_uint64(WORKSPACE))
        schemes = ctypes.c_uint32(gemm.schemes(product.result.dtype))
        gemm.set_attribute(change, preference, names.REDUCTION_SCHEME_MASK, schemes)
        addresses = {"A": product.left, "B": product.right, "C": product.result, "D": product.result}
        for letter, operand in addresses.items():
            alignment = min(_ALIGNED, operand.address & -operand.address)
            gemm.set_attribute(change, preference, names[f"MIN_ALIGNMENT_{letter}_BYTES"], ctypes.c_uint32(alignment))
        return preference
