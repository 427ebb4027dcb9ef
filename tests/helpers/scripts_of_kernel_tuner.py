"""Calls of `tune_kernel` that tests vary: small kernels in OpenCL C and C."""

from __future__ import annotations

from typing import Any

import numpy as np

from tuner.door import tune_kernel

ADD = """
__kernel void add(__global float *c, __global const float *a, __global const float *b, int n) {
    int i = get_group_id(0) * block_size_x + get_local_id(0);
    if (i < n) c[i] = a[i] + b[i];
}
"""
# The time is a formula of the parameters, so nothing depends on the machine.
SCALE = """
extern "C" float scale(float *y, const float *x, int n) {
    for (int i = 0; i < n; i++) y[i] = 2 * x[i] BODY;
    return 1.0f + (unroll - 4) * (unroll - 4) + width * 0.5f;
}
"""
PARAMETERS = {"unroll": [1, 2, 4], "width": [0, 1]}


def vectors(n: int = 1000, seed: int | None = None) -> tuple[Any, ...]:
    """c, a and b as float32, drawn without a seed unless one is given."""
    rng = np.random.default_rng(seed)
    a, b = rng.random(n, dtype=np.float32), rng.random(n, dtype=np.float32)
    return np.zeros_like(a), a, b


def add(n: int = 1000, parameters: dict[str, list[Any]] | None = None, **options: Any) -> Any:
    """Tune the sum of two vectors on OpenCL."""
    c, a, b = vectors(n)
    given = {"answer": [a + b, None, None, None], "quiet": True, **options}
    source = given.pop("source", ADD)
    return tune_kernel("add", source, n, [c, a, b, np.int32(n)], parameters or {"block_size_x": [32, 64]}, **given)


def scale(n: int = 100, body: str = "", parameters: dict[str, list[Any]] | None = None, **options: Any) -> Any:
    """Tune the doubling of a vector on the host."""
    _, x, y = vectors(n)
    given = {"answer": [2 * x, None, None], "quiet": True, "lang": "C", **options}
    source = given.pop("source", SCALE.replace("BODY", body))
    return tune_kernel("scale", source, n, [y, x, np.int32(n)], parameters or PARAMETERS, **given)
