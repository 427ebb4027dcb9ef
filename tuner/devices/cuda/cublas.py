"""cuBLAS, to compare a kernel with, through nvmath-python's bindings."""

import ctypes
import importlib.util
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tuner.devices.base import Library
from tuner.space.routines import ROUTINES

# By the dtypes of (A, B, C), their names in cuBLAS. All products are summed in float32, but those of doubles.
_TYPES = {
    ("float32", "float32", "float32"): ("CUDA_R_32F", "CUDA_R_32F", "CUDA_R_32F"),
    ("float64", "float64", "float64"): ("CUDA_R_64F", "CUDA_R_64F", "CUDA_R_64F"),
    ("float16", "float16", "float32"): ("CUDA_R_16F", "CUDA_R_16F", "CUDA_R_32F"),
}


def library(routine: str, arguments: dict[str, Any], dtypes: dict[str, str]) -> Library | None:
    """The routine of `tuner.space.routines` on these arguments. None if an argument is missing, if cuBLAS lacks it for
    these dtypes, or if nvmath-python or cuBLAS is not installed."""
    factory, names = _LIBRARIES.get(routine), ROUTINES[routine]
    if factory is None or not arguments.keys() >= set(names) or importlib.util.find_spec("nvmath") is None:
        return None
    try:
        return factory({name: arguments[name] for name in names}, dtypes)
    except (ImportError, RuntimeError):  # nvmath-python is installed, but cuBLAS is not
        return None


def _gemm(arguments: dict[str, Any], dtypes: dict[str, str]) -> Library | None:
    """The matrix product of row-major operands, in float32 without TF32, or in float64. `arguments` are addresses A,
    B, C, sizes M, N, K, batch, and factors alpha, beta; `dtypes` are those of A, B and C."""
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

        self._cublas, self._handle = cublas, cublas.create()
        weakref.finalize(self, cublas.destroy, self._handle).atexit = False  # then the context may be gone
        version = cublas.get_version(self._handle)
        self.name = f"cuBLAS {version // 10000}.{version // 100 % 100}.{version % 100}"
        factor = ctypes.c_double if self._is_double else ctypes.c_float
        self._factors = (factor(self.alpha), factor(self.beta))
        self._a, self._b, self._c = (int(CudaDataType[name]) for name in self.types)

    @property
    def _is_double(self) -> bool:
        return self.types[-1] == "CUDA_R_64F"

    def __call__(self) -> None:
        # cuBLAS is column-major: the row-major C = A B is its C' = B' A'.
        alpha, beta = (ctypes.addressof(factor) for factor in self._factors)
        M, N, K = self.M, self.N, self.K
        kinds = self._cublas.ComputeType
        plain, summed = self._cublas.Operation.N, kinds.COMPUTE_64F if self._is_double else kinds.COMPUTE_32F
        algorithm = self._cublas.GemmAlgo.DFALT
        if self.batch == 1:
            self._cublas.gemm_ex(
                self._handle, plain, plain, N, M, K, alpha, self.B, self._b, N, self.A, self._a, K, beta,
                self.C, self._c, N, summed, algorithm,
            )  # fmt: skip
        else:
            self._cublas.gemm_strided_batched_ex(
                self._handle, plain, plain, N, M, K, alpha, self.B, self._b, N, K * N, self.A, self._a, K, M * K, beta,
                self.C, self._c, N, M * N, self.batch, summed, algorithm,
            )  # fmt: skip


_LIBRARIES: Mapping[str, Callable[[dict[str, Any], dict[str, str]], Library | None]] = {"gemm": _gemm}
