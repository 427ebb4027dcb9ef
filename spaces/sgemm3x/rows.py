"""Matrices whose product by sgemm3x takes every route. Finals verify it on them, and so does
`benchmarks/fp32x3_verify.py` with all configurations."""

from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]


def mixed(rng: np.random.Generator, batch: int, M: int, N: int, K: int) -> dict[str, Array]:
    """A and B of random signs and magnitudes of 0.5 to 1.5, but for some rows and columns.

    A row in the middle of A has many small numbers, for bfloat16. The last row has numbers that cannot be lifted, for
    float32. The first quarter of the rows meets the first column of B in elements to which only a small number matters.
    If N reaches 256, the second quarter of the columns is as the first column is: too many elements to be summed one by
    one.
    """
    a, b = (_standard(rng, shape) for shape in ((batch, M, K), (batch, K, N)))
    a[:, M // 2] *= np.exp2(rng.uniform(-30, 0, K)).astype(np.float32)
    a[:, M - 1] *= np.float32(1e-37)
    if K > 1:
        a[:, : max(1, M // 4), 0] *= np.float32(2.0**-25)
        b[:, 1:, 0] = 0
        if N >= 256:
            b[:, 1:, N // 4 : N // 2] = 0
    return {"A": a, "B": b}


def _standard(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    values = rng.uniform(-1, 1, shape).astype(np.float32)
    return values + np.copysign(np.float32(0.5), values)
