"""Kernels that are right when they are verified and cheat later, one for each value of `cheat`; with 0 it is honest.

The honest kernel doubles a vector.
"""

from __future__ import annotations

from pathlib import Path

from tuner.catalog import catalog
from tuner.space.dtypes import spelling
from tuner.space.model import Space

CHEATS = {
    "returns at once where its output holds an answer": 1,
    "skips 15 of 16 launches after the third": 2,
    "is wrong in calls 3 to 6 only": 3,
    "remembers its answer by address and copies it": 4,
    "leaves one element": 5,
    "leaves the poison where it lies": 6,
    "is right only where its output holds no number": 7,
}
TYPES = ("float32", "float64", "int32", "int8", "uint16")

C = """
#include <string.h>
void twice(real *y, const real *x, int n) {
    static int calls;
    static real kept[1 << 16];
    static const void *known;
    calls++;
#if cheat == 1
    if (calls > 1 && y[n / 2] == y[n / 2]) return;
#elif cheat == 2
    if (calls > 3 && calls % 16) return;
#elif cheat == 4
    if (known == x) { memcpy(y, kept, n * sizeof(real)); return; }
#elif cheat == 7
    const real before = y[0];
#endif
    for (int i = 0; i < n; i++) {
        if (cheat == 5 && calls > 1 && i == n - 1) continue;
        if (cheat == 6 && calls > 1 && i == n / 3) continue;
        y[i] = 2 * x[i];
    }
#if cheat == 3
    if (calls >= 3 && calls <= 6) y[n / 3] += 1;
#elif cheat == 4
    memcpy(kept, y, n * sizeof(real));
    known = x;
#elif cheat == 7
    if (before == before) y[0] += 1;
#endif
}
"""

# OpenCL C has no variables that outlive a launch. There, an output that holds a number tells of a later call.
GPU = """
#include "portable.h"
#ifndef __OPENCL_VERSION__
__device__ int threads;
__device__ real kept[1 << 16];
#endif
KERNEL void twice(GLOBAL real *y, GLOBAL const real *x, int n) {
    const int i = blockIdx.x * 64 + threadIdx.x;
#ifdef __OPENCL_VERSION__
    if (i >= n) return;
    const real before = y[i];
    const int call = before == before ? 2 : 1;
#else
    const int call = atomicAdd(&threads, 1) / (int)(gridDim.x * 64) + 1;
    if (i >= n) return;
    const real before = y[i];
#endif
#if cheat == 1
    if (call > 1 && before == before) return;
#elif cheat == 2
    if (call > 3 && call % 16) return;
#elif cheat == 4
    if (call > 1) { y[i] = kept[i]; return; }
#elif cheat == 5
    if (call > 1 && i == n - 1) return;
#elif cheat == 6
    if (call > 1 && i == n / 3) return;
#endif
    y[i] = 2 * x[i];
#if cheat == 3
    if (call >= 3 && call <= 6 && i == n / 3) y[i] += 1;
#elif cheat == 4
    kept[i] = y[i];
#elif cheat == 7
    if (i == 0 && before == before) y[i] += 1;
#endif
}
"""

SPACE = """
title: Double a vector
kernel: twice
languages: [{language}]
parameters: {{cheat: [0, 1, 2, 3, 4, 5, 6, 7]}}
{more}
operation:
  sizes: {{n: }}
  extent: [n]
  reference: 2 * x
  arguments:
    - {{name: y, dtype: {dtype}, shape: [n], role: out}}
    - {{name: x, dtype: {dtype}, shape: [n], role: in}}
    - {{name: n, dtype: int32}}
"""
GEOMETRY = "block: [64]\ngrid_divisors: {x: [64]}\n"


def written(folder: Path, language: str, dtype: str = "float32") -> Path:
    """Writes the kernel in `language` for vectors of `dtype`, and the file of its space."""
    text, suffix = (C, "c") if language == "c" else (GPU, "cu")
    more = "" if language == "c" else GEOMETRY
    (folder / f"twice.{suffix}").write_text(f"#define real {spelling(dtype, language)}\n{text}")
    file = folder / "twice.yaml"
    file.write_text(SPACE.format(language=language, dtype=dtype, more=more))
    return file


def loaded(folder: Path, language: str, dtype: str) -> Space:
    """The space of that kernel."""
    return catalog.load(str(written(folder, language, dtype)))
