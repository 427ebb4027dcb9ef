"""cuBLAS as a peer to be measured beside a kernel, through nvmath-python's bindings."""

from __future__ import annotations

import ctypes
import importlib.util
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tuner.devices.base import Library
from tuner.space.routines import ROUTINES

# Types of (A, B, C) that it multiplies, by their names in cuBLAS. All of them are summed in float32.
_TYPES = {
    ("float32", "float32", "float32"): ("CUDA_R_32F", "CUDA_R_32F", "CUDA_R_32F"),
    ("float16", "float16", "float32"): ("CUDA_R_16F", "CUDA_R_16F", "CUDA_R_32F"),
}


def library(routine: str, arguments: dict[str, Any], dtypes: dict[str, str]) -> Library | None:
    """The routine called so in `tuner.space.routines`, on these arguments; None where cuBLAS does not have it for these
    types, or where nvmath-python or cuBLAS is not installed."""
    make = _LIBRARIES.get(routine)
    if make is None or importlib.util.find_spec("nvmath") is None:
        return None
    try:
        return make({name: arguments[name] for name in ROUTINES[routine]}, dtypes)
    except (ImportError, RuntimeError):  # nvmath-python without the library that it binds
        return None


def _gemm(arguments: dict[str, Any], dtypes: dict[str, str]) -> Library | None:
    """The matrix product on row-major operands, in float32 (no TF32): `arguments` holds addresses A, B, C, sizes M, N,
    K, batch, and alpha, beta; `dtypes` those of A, B and C."""
    types = _TYPES.get((dtypes["A"], dtypes["B"], dtypes["C"]))
    return None if types is None else _Gemm(types, **arguments)


@dataclass
class _Gemm:
    types: tuple[str, str, str]
    A: int
    B: int
    C: int
    M: int
    N: int
    K: int
    batch: int
    alpha: float
    beta: float
    name: str = "cuBLAS"

    def __post_init__(self) -> None:
        from nvmath import CudaDataType
        from nvmath.bindings import cublas

        version = cublas.get_version(handle := cublas.create())
        self.name = f"cuBLAS {version // 10000}.{version // 100 % 100}.{version % 100}"
        self._cublas, self._handle = cublas, handle
        self._factors = (ctypes.c_float(self.alpha), ctypes.c_float(self.beta))
        self._a, self._b, self._c = (int(CudaDataType[name]) for name in self.types)

    def __call__(self) -> None:
        # cuBLAS counts in columns: the row-major C = A B is its column-major C' = B' A'.
        alpha, beta = (ctypes.addressof(factor) for factor in self._factors)
        M, N, K = self.M, self.N, self.K
        plain, computed = self._cublas.Operation.N, self._cublas.ComputeType.COMPUTE_32F
        chosen = self._cublas.GemmAlgo.DFALT
        if self.batch == 1:
            self._cublas.gemm_ex(
                self._handle, plain, plain, N, M, K, alpha, self.B, self._b, N, self.A, self._a, K, beta,
                self.C, self._c, N, computed, chosen,
            )  # fmt: skip
        else:
            self._cublas.gemm_strided_batched_ex(
                self._handle, plain, plain, N, M, K, alpha, self.B, self._b, N, K * N, self.A, self._a, K, M * K, beta,
                self.C, self._c, N, M * N, self.batch, computed, chosen,
            )  # fmt: skip


_LIBRARIES: Mapping[str, Callable[[dict[str, Any], dict[str, str]], Library | None]] = {"gemm": _gemm}
