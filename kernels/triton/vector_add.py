"""The sum of two vectors: each program adds BLOCK elements."""

import triton
import triton.language as tl


@triton.jit
def vector_add(z, x, y, n, BLOCK: tl.constexpr):
    """z = x + y."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(z + i, tl.load(x + i, mask=i < n) + tl.load(y + i, mask=i < n), mask=i < n)
