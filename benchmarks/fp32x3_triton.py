"""A plain product in Triton whose `tl.dot` emulates float32, for `fp32x3.py`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import triton
import triton.language as tl


@triton.jit  # type: ignore[untyped-decorator]
def multiply(  # type: ignore[no-untyped-def]
    a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, PRECISION: tl.constexpr, GROUP: tl.constexpr
):
    """C = A B, in tiles of BM x BN."""
    number = tl.program_id(0)
    high, wide = tl.cdiv(M, BM), tl.cdiv(N, BN)
    first = number // (GROUP * wide) * GROUP
    here = min(high - first, GROUP)
    row = first + number % (GROUP * wide) % here
    column = number % (GROUP * wide) // here
    y, x, z = row * BM + tl.arange(0, BM), column * BN + tl.arange(0, BN), tl.arange(0, BK)
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        part_a = tl.load(a + y[:, None] * K + (k + z)[None, :], mask=(y < M)[:, None] & (k + z < K)[None, :], other=0.0)
        part_b = tl.load(b + (k + z)[:, None] * N + x[None, :], mask=(k + z < K)[:, None] & (x < N)[None, :], other=0.0)
        total = tl.dot(part_a, part_b, total, input_precision=PRECISION)
    tl.store(c + y[:, None] * N + x[None, :], total, mask=(y < M)[:, None] & (x < N)[None, :])


def product(A: Any, B: Any, C: Any, precision: str, config: tuple[int, int, int, int]) -> Callable[[], object]:
    """A call that multiplies in a configuration: BM, BN, BK and warps."""
    (m, k), n = A.shape, B.shape[1]
    bm, bn, bk, warps = config
    grid = (triton.cdiv(m, bm) * triton.cdiv(n, bn),)
    return lambda: multiply[grid](A, B, C, m, n, k, bm, bn, bk, precision, 8, num_warps=warps, num_stages=3)
