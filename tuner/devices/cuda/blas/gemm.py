"""The matrix products that cuBLAS and cuBLASLt support: their types and sizes."""

from __future__ import annotations

from tuner.devices.product import MatrixProduct

TYPES = {"float32": 0, "float64": 1, "float16": 2, "bfloat16": 14}  # cudaDataType
# cublasComputeType_t: products accumulate in float32, or in float64 for doubles. TF32 is never used.
SUMMED_32F, SUMMED_64F = 68, 70
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
