"""Attention, forward: a program computes BM rows of one head, and keeps a running maximum and sum of each row."""

import triton
import triton.language as tl


@triton.jit
def attention(o, q, k, v, length, scale, WIDTH: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    """o = softmax(scale q kT) v, for each head."""
    head = tl.program_id(1).to(tl.int64) * length * WIDTH
    m, d = tl.program_id(0) * BM + tl.arange(0, BM), tl.arange(0, WIDTH)
    at = m[:, None] * WIDTH + d[None, :]
    is_row = m[:, None] < length
    query = tl.load(q + head + at, mask=is_row, other=0.0)
    peak = tl.full((BM,), -float("inf"), dtype=tl.float32)
    weight = tl.zeros((BM,), dtype=tl.float32)
    total = tl.zeros((BM, WIDTH), dtype=tl.float32)
    factor = scale * 1.4426950408889634  # of exp2 in place of exp
    for start in range(0, length, BN):
        n = start + tl.arange(0, BN)
        keys = tl.load(k + head + n[None, :] * WIDTH + d[:, None], mask=n[None, :] < length, other=0.0)
        scores = tl.where(n[None, :] < length, tl.dot(query, keys) * factor, -float("inf"))
        higher = tl.maximum(peak, tl.max(scores, 1))
        shares = tl.exp2(scores - higher[:, None])
        fading = tl.exp2(peak - higher)
        values = tl.load(v + head + n[:, None] * WIDTH + d[None, :], mask=n[:, None] < length, other=0.0)
        weight = weight * fading + tl.sum(shares, 1)
        total = tl.dot(shares.to(values.dtype), values, total * fading[:, None])
        peak = higher
    tl.store(o + head + at, (total / weight[:, None]).to(o.dtype.element_ty), mask=is_row)
