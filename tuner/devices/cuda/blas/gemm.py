"""A matrix product in the form that cuBLAS and cuBLASLt take: column-major, with their names of types."""

from __future__ import annotations

import ctypes
import functools
import importlib.util
from collections.abc import Callable, Collection, Mapping
from typing import Any

from tuner.classes import dataclass
from tuner.devices.product import MatrixProduct
from tuner.space.routines import ROUTINES

# Products accumulate in float32, or in float64 for doubles. TF32 is never used.
TYPES = {"float32": "CUDA_R_32F", "float64": "CUDA_R_64F", "float16": "CUDA_R_16F", "bfloat16": "CUDA_R_16BF"}
_HALVES = ("float16", "bfloat16")
MOST = (1 << 31) - 1
# Bits of cublasLtReductionScheme_t: how cuBLASLt may add up a split sum, namely anyhow, or in float32 in the workspace.
_ANYHOW, _AS_COMPUTED = 0xFFFFFFFF, 2


def has(a: str, b: str, c: str) -> bool:
    """Whether cuBLAS supports the dtypes of A, B and C."""
    return {a, b, c} <= TYPES.keys() and a == b and (c == a or (c == "float32" and a in _HALVES))


def schemes(c: str) -> int:
    """How cuBLASLt may add up a split sum, if this is the dtype of C: never in 16 bits, as partial sums that are
    rounded so are off by more than the one rounding of C."""
    return _AS_COMPUTED if c in _HALVES else _ANYHOW


def fits(product: MatrixProduct) -> bool:
    """Whether the sizes and leading dimensions of a product fit cuBLAS's parameters, which are of type int."""
    leading = (matrices.leading for matrices in (product.A, product.B, product.C))
    return max(product.M, product.N, product.K, product.batch, *leading) <= MOST


@functools.cache
def is_installed() -> bool:
    """Whether nvmath-python, the bindings of cuBLAS, is installed."""
    return importlib.util.find_spec("nvmath") is not None


def set_attribute(change: Callable[..., None], target: int, attribute: int, value: Any) -> None:
    """Set an attribute of the cuBLASLt descriptor `target` to a ctypes `value`, through the setter `change`."""
    change(target, attribute, ctypes.addressof(value), ctypes.sizeof(value))


@dataclass(frozen=True)
class Operand:
    """A packed column-major matrix: its address, its rows and columns as stored, its cudaDataType, and whether the
    product uses its transpose."""

    address: int
    rows: int
    columns: int
    type: str
    is_transposed: bool = False

    @property
    def dtype(self) -> str:
        """The name of its dtype."""
        return next(name for name, type_ in TYPES.items() if type_ == self.type)

    @property
    def stride(self) -> int:
        """Elements from one matrix of a batch to the next."""
        return self.rows * self.columns


@dataclass(frozen=True)
class Product:
    """result = alpha * left right + beta * result, for each matrix of a batch."""

    left: Operand
    right: Operand
    result: Operand
    inner: int
    batch: int
    alpha: float
    beta: float

    @property
    def is_double(self) -> bool:
        return self.result.type == TYPES["float64"]

    @staticmethod
    def of(arguments: Mapping[str, Any], dtypes: Mapping[str, str], transposed: Collection[str]) -> Product | None:
        """The row-major product C = alpha * A B + beta * C, as the column-major C' = alpha * B' A' + beta * C'.

        `arguments` are the addresses A, B, C, the sizes M, N, K, batch, and the factors alpha and beta. `dtypes` are
        the dtypes of A, B and C. The arrays named in `transposed` are stored transposed. None if an argument is
        missing, or if cuBLAS does not support the product.
        """
        routine = ROUTINES["gemm"]
        if not arguments.keys() >= {*routine.arrays, *routine.sizes} or "C" in transposed:
            return None
        a, b, c = (dtypes[name] for name in "ABC")
        if not has(a, b, c):
            return None
        values = {**routine.defaults, **arguments}
        M, N, K = (int(values[name]) for name in routine.sizes)

        def operand(name: str, rows: int, columns: int) -> Operand:
            is_transposed = name in transposed
            extents = (columns, rows) if is_transposed else (rows, columns)
            return Operand(int(values[name]), *extents, TYPES[dtypes[name]], is_transposed)

        factors = float(values["alpha"]), float(values["beta"])
        left, right, result = operand("B", N, K), operand("A", K, M), operand("C", N, M)
        return Product(left, right, result, K, int(values["batch"]), *factors)
