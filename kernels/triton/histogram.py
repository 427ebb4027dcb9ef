"""How often each of 256 values occurs: a program counts PARTS blocks in registers, then adds its counts atomically."""

import triton
import triton.language as tl

VALUES = tl.constexpr(256)


@triton.jit
def histogram(counts, x, n, BLOCK: tl.constexpr, PARTS: tl.constexpr):
    """Add the number of elements of each value to counts."""
    bins = tl.arange(0, VALUES)
    found = tl.zeros((VALUES,), dtype=tl.int32)
    for part in range(PARTS):
        i = (tl.program_id(0) * PARTS + part) * BLOCK + tl.arange(0, BLOCK)
        found += tl.histogram(tl.load(x + i, mask=i < n, other=0).to(tl.int32), VALUES, mask=i < n)
    tl.atomic_add(counts + bins, found, mask=found > 0)
