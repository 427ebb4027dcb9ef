"""A matrix product whose arrays may be parts of larger ones, in every language."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

SIZES = {"M": 5, "N": 8, "K": 12}
SOURCE = """\
#include "portable.h"

KERNEL void product(GLOBAL float *C, GLOBAL const float *A, GLOBAL const float *B, int M, int N, int K, int ldc,
                    int lda, int ldb, float alpha) {
    int j = blockIdx.x * threads + threadIdx.x, i = blockIdx.y;
    if (j >= N) return;
    float sum = 0;
    for (int k = 0; k < K; k++) sum += A[i * A_ROW + k] * B[k * ldb + j];
    C[i * C_ROW + j] = alpha * sum;
}
"""
HOST = """\
void product(float *C, const float *A, const float *B, int M, int N, int K, int ldc, int lda, int ldb, float alpha) {
    for (int i = 0; i < M; i++) for (int j = 0; j < N; j++) {
        float sum = 0;
        for (int k = 0; k < K; k++) sum += A[i * A_ROW + k] * B[k * ldb + j];
        C[i * C_ROW + j] = alpha * sum;
    }
}
"""
SPACE = """\
title: A product of parts of matrices
operation:
  sizes: {{M: , N: , K: }}
  options: {{alpha: 1.0}}
  extent: [N, M]
  arguments:
    - {{name: C, dtype: float32, shape: [M, N], role: out, strides: [ldc, 1]}}
    - {{name: A, dtype: float32, shape: [M, K], role: in, strides: [lda, 1]}}
    - {{name: B, dtype: float32, shape: [K, N], role: in, strides: [ldb, 1]}}
    - {{name: M, dtype: int32}}
    - {{name: N, dtype: int32}}
    - {{name: K, dtype: int32}}
    - {{name: ldc, dtype: int32}}
    - {{name: lda, dtype: int32}}
    - {{name: ldb, dtype: int32}}
    - {{name: alpha, dtype: float32}}
  reference: alpha * (A @ B)
kernel: product
languages: [{languages}]
parameters: {{threads: [4, 32]}}
grid_divisors: {{x: [threads], y: []}}
block: [threads]
alignment: {alignment}
"""


def product(folder: Path, is_c: bool = False, a_row: str = "lda", c_row: str = "ldc", alignment: int = 4) -> Path:
    """The file of its space. `a_row` and `c_row` are what the kernel takes for the distance of rows."""
    source = (HOST if is_c else SOURCE).replace("A_ROW", a_row).replace("C_ROW", c_row)
    (folder / f"product.{'c' if is_c else 'cu'}").write_text(source)
    file = folder / "product.yaml"
    file.write_text(SPACE.format(languages="c" if is_c else "cuda, opencl", alignment=alignment))
    return file


def parts() -> tuple[np.ndarray[Any, Any], ...]:
    """Larger matrices: of the product, of A and of B. `part` is where the operands lie in each."""
    random = np.random.default_rng(3)
    shapes = (7, 64), (9, 96), (13, 70)
    return tuple(random.random(shape, dtype=np.float32) for shape in shapes)


def part(position: int, matrix: Any) -> Any:
    """The operand in its larger matrix. It begins at a multiple of 128 bytes, as OpenCL's devices ask for."""
    M, N, K = SIZES.values()
    return (matrix[1 : 1 + M, 0:N], matrix[2 : 2 + M, 32 : 32 + K], matrix[0:K, 0:N])[position]
