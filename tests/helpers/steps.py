"""Spaces of several steps, in one source that is CUDA, OpenCL C and C at once; and arrays on any device."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from helpers.arrays import on_gpu
from tuner.devices import Device

Numbers = np.ndarray[Any, Any]

# In C, one thread does the work of all.
HEAD = """\
#if defined(__OPENCL_VERSION__) || defined(__CUDACC__)
#include "portable.h"
#define THREAD (int)(blockIdx.x * blockDim.x + threadIdx.x)
#define THREADS (int)(gridDim.x * blockDim.x)
#else
#define KERNEL
#define GLOBAL
#define THREAD 0
#define THREADS 1
#endif
"""
PARTS = """\
KERNEL void sum_parts(GLOBAL float *partials, GLOBAL const float *x, int n) {
    for (int b = THREAD; b < blocks; b += THREADS) {
        float sum = 0;
        for (int i = b; i < n; i += blocks) { sum += x[i]; }
        partials[b] = sum;
    }
}
"""
LAST = """\
KERNEL void sum_last(GLOBAL const float *partials, GLOBAL float *total, float scale) {
    if (THREAD == 0) {
        float sum = 0;
        for (int b = 0; b < blocks; b++) { sum += partials[b]; }
        total[0] = scale * sum;
    }
}
"""
# The second step takes the arguments in another order than the file has them.
SUM = """\
title: Sum in two steps
operation:
  sizes: {n: }
  options: {scale: 1.0}
  arguments:
    - {name: total, dtype: float32, shape: [1], role: out}
    - {name: x, dtype: float32, shape: [n], role: in}
    - {name: partials, dtype: float32, shape: [blocks], role: scratch}
    - {name: n, dtype: int32}
    - {name: scale, dtype: float32}
  reference: scale * sum(x)
  tolerance: {total: {atol: 1e-6 * n}}
source: sum.cu
languages: [cuda, opencl, c]
steps:
  - {kernel: sum_parts, arguments: [partials, x, n], grid: ["ceil_div(blocks, threads)"], block: [threads]}
  - {kernel: sum_last, arguments: [partials, total, scale], grid: [1], block: [32]}
parameters: {blocks: [8, 64], threads: [32, 64]}
"""

DERIVED = """\
title: Partial sums, which differ by configuration
operation:
  sizes: {n: }
  arguments:
    - {name: partials, dtype: float32, shape: [blocks], role: out}
    - {name: x, dtype: float32, shape: [n], role: in}
    - {name: n, dtype: int32}
  derive: {total: sum(partials)}
  reference: {total: sum(x)}
  tolerance: {total: {atol: 1e-6 * n}}
kernel: sum_parts
source: sum.cu
languages: [cuda, opencl, c]
grid: ["ceil_div(blocks, 32)"]
block: [32]
parameters: {blocks: [8, 64]}
"""


def written(folder: Path, name: str, code: str, file: str) -> Path:
    """Writes the source and the file of a space."""
    (folder / f"{name}.cu").write_text(HEAD + code)
    (folder / f"{name}.yaml").write_text(file)
    return folder / f"{name}.yaml"


def written_sum(folder: Path) -> Path:
    """Writes the sum in two steps."""
    return written(folder, "sum", PARTS + LAST, SUM)


def given(device: Device, *arrays: Numbers, queue: Any = None) -> list[Any]:
    """Copies of arrays as a launch on this device takes them, on OpenCL with a queue."""
    if device.kind == "host":
        return [array.copy() for array in arrays]
    if device.kind == "cuda":
        return [on_gpu("own", array) for array in arrays]
    from pyopencl import array as opencl_array

    return [opencl_array.to_device(queue or device.queue, array) for array in arrays]


def integers(count: int, seed: int = 1) -> Numbers:
    """Small whole numbers, whose sums are exact in single precision."""
    return np.random.default_rng(seed).integers(-8, 9, count).astype(np.float32)
