"""cuBLAS as a peer to be measured beside a kernel, through nvmath-python's bindings."""

from __future__ import annotations

import ctypes
import importlib.util
from dataclasses import dataclass
from typing import Any

from tuner.devices.base import Library


def library(routine: str, arguments: dict[str, Any]) -> Library | None:
    """cuBLAS's float32 matrix product on row-major operands; None where nvmath-python or cuBLAS is not installed.

    `arguments` holds addresses A, B, C, sizes M, N, K, batch, and alpha, beta. Its math mode is the default, which
    computes in float32 (no TF32).
    """
    if routine != "gemm" or importlib.util.find_spec("nvmath") is None:
        return None
    try:
        return _Gemm(**{name: arguments[name] for name in ("A", "B", "C", "M", "N", "K", "batch", "alpha", "beta")})
    except (ImportError, RuntimeError):  # nvmath-python without the library that it binds
        return None


@dataclass
class _Gemm:
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
        from nvmath.bindings import cublas

        version = cublas.get_version(handle := cublas.create())
        self.name = f"cuBLAS {version // 10000}.{version // 100 % 100}.{version % 100}"
        self._cublas, self._handle = cublas, handle
        self._factors = (ctypes.c_float(self.alpha), ctypes.c_float(self.beta))

    def __call__(self) -> None:
        # cuBLAS counts in columns: the row-major C = A B is its column-major C' = B' A'.
        alpha, beta = (ctypes.addressof(factor) for factor in self._factors)
        M, N, K = self.M, self.N, self.K
        plain = self._cublas.Operation.N
        if self.batch == 1:
            self._cublas.sgemm(self._handle, plain, plain, N, M, K, alpha, self.B, N, self.A, K, beta, self.C, N)
        else:
            self._cublas.sgemm_strided_batched(
                self._handle, plain, plain, N, M, K, alpha, self.B, N, K * N, self.A, K, M * K, beta, self.C, N, M * N,
                self.batch,
            )  # fmt: skip
