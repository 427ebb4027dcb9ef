"""The products of a mixture of experts: the rows of x are sorted by expert, and each is multiplied by its own matrix.

A program computes a tile of BM rows x BN columns of one expert. It finds the expert from the number of tiles that those
before it have, so that the host need not know how many rows each has.
"""

import triton
import triton.language as tl


@triton.jit
def grouped_matmul(y, x, w, starts, N, K, EXPERTS: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """y[i] = x[i] w[e] for the rows i from starts[e] to starts[e + 1]."""
    tile, column = tl.program_id(0), tl.program_id(1)
    expert, first, end, before = -1, 0, 0, 0
    for each in range(EXPERTS):
        begin, stop = tl.load(starts + each), tl.load(starts + each + 1)
        tiles = tl.cdiv(stop - begin, BM)
        is_own = (tile >= before) & (tile < before + tiles)
        expert = tl.where(is_own, each, expert)
        first = tl.where(is_own, begin + (tile - before) * BM, first)
        end = tl.where(is_own, stop, end)
        before += tiles
    if expert >= 0:
        m, n, k = first + tl.arange(0, BM), column * BN + tl.arange(0, BN), tl.arange(0, BK)
        rows = x + m.to(tl.int64)[:, None] * K + k[None, :]
        weights = w + expert.to(tl.int64) * K * N + k[:, None] * N + n[None, :]
        total = tl.zeros((BM, BN), dtype=tl.float32)
        for step in range(tl.cdiv(K, BK)):
            left = K - step * BK
            total = tl.dot(
                tl.load(rows, mask=(m[:, None] < end) & (k[None, :] < left), other=0.0),
                tl.load(weights, mask=(k[:, None] < left) & (n[None, :] < N), other=0.0),
                total,
            )
            rows += BK
            weights += BK * N
        is_inside = (m[:, None] < end) & (n[None, :] < N)
        tl.store(y + m.to(tl.int64)[:, None] * N + n[None, :], total.to(tl.float16), mask=is_inside)
