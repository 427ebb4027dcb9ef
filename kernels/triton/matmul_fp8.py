"""A matrix product of FP8 numbers; b is given by its columns, as the matrix units need it.

The matrix units add up BK products with 14 bits; these sums are added in FP32.

Programs are numbered so that GROUP rows of tiles are computed together, whose inputs then stay in the L2 cache.
"""

import triton
import triton.language as tl


@triton.jit
def matmul_fp8(c, a, b, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr):
    """c = a bT."""
    down, across = tl.cdiv(M, BM), tl.cdiv(N, BN)
    number = tl.program_id(0)
    first = number // (GROUP * across) * GROUP
    height = tl.minimum(down - first, GROUP)
    inner = number % (GROUP * across)
    i, j = first + inner % height, inner // height
    m, n, k = i * BM + tl.arange(0, BM), j * BN + tl.arange(0, BN), tl.arange(0, BK)
    # Rows and columns beyond the matrices wrap around: what they give is not stored.
    x = a + (m % M)[:, None] * K + k[None, :]
    y = b + (n % N)[None, :] * K + k[:, None]
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for step in range(tl.cdiv(K, BK)):
        left = K - step * BK
        rows = tl.load(x, mask=k[None, :] < left, other=0.0)
        columns = tl.load(y, mask=k[:, None] < left, other=0.0)
        total = tl.dot(rows, columns, total, max_num_imprecise_acc=BK)
        x += BK
        y += BK
    tl.store(c + m[:, None] * N + n[None, :], total.to(tl.float16), mask=(m[:, None] < M) & (n[None, :] < N))
