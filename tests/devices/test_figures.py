"""The figures of a CUDA build, which ptxas reports. No device is needed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from helpers.operations import array, written
from helpers.processes import Tune

ARGUMENTS = [array("y", "float32", ["n"], "out"), array("x", "float32", ["n"])]
HEAVY = """
__device__ __noinline__ float {name}(const float *x, int i) {{
    float v[128], s = 0;
    #pragma unroll
    for (int k = 0; k < 128; k++) v[k] = x[k * i];
    __syncthreads();
    #pragma unroll
    for (int k = 0; k < 128; k++) s += v[k] * v[(k * 3) % 128] * v[127 - k];
    return s;
}}
"""
KERNEL = """
extern "C" __global__ void __launch_bounds__(1024) f(float *y, const float *x, int n) {{
    y[threadIdx.x] = {value};
}}
"""
CALL = KERNEL.format(value="heavy(x, threadIdx.x)")


def figures(folder: Path, tune: Tune, code: str, **more: Any) -> dict[str, int]:
    file = written(folder, code, ARGUMENTS, "x", "cuda", block=[1024], grid=[1], **more)
    done = tune("validate", file, "--compile", "--json")
    assert done.status == 0, done.err
    found: dict[str, int] = done.json["builds"][0]["figures"]
    return found


CALLED = {
    "directly": HEAVY.format(name="heavy") + CALL,
    "by another function": HEAVY.format(name="inner")
    + "__device__ __noinline__ float heavy(const float *x, int i) { return inner(x, i) + inner(x, i + 1); }"
    + CALL,
    "by a pointer in a table": HEAVY.format(name="heavy")
    + "__device__ float (*table[])(const float *, int) = {heavy};"
    + KERNEL.format(value="table[n](x, 1)"),
    "by a kernel that is not the first": HEAVY.format(name="heavy")
    + 'extern "C" __global__ void first(float *y) { y[0] = 1; }'
    + CALL
    + 'extern "C" __global__ void z(float *y) { y[0] = 1; }',
}


@pytest.mark.parametrize("how", CALLED)
def test_spills_of_called_functions_count(how: str, tmp_path: Path, tune: Tune) -> None:
    assert figures(tmp_path, tune, CALLED[how])["spills"] > 100


def test_spills_of_functions_that_other_kernels_call_do_not(tmp_path: Path, tune: Tune) -> None:
    other = 'extern "C" __global__ void __launch_bounds__(1024) g(float *y, float *x) { y[0] = heavy(x, 1); }'
    code = HEAVY.format(name="heavy") + KERNEL.format(value="x[0]") + other
    found = figures(tmp_path, tune, code)
    assert (found["spills"], found["local_memory"]) == (0, 0)


def test_an_array_in_local_memory_is_no_spill_and_has_a_figure(tmp_path: Path, tune: Tune) -> None:
    code = 'extern "C" __global__ void f(float *y, const float *x, int n) {' + (
        " float v[100]; for (int i = 0; i < 100; i++) v[i] = x[i]; y[0] = v[n % 100]; }"
    )
    found = figures(tmp_path, tune, code)
    assert (found["spills"], found["local_memory"]) == (0, 400)
    assert (
        "0 bytes of spills, 0 bytes of shared memory, 400 bytes of local memory"
        in tune("validate", tmp_path / "f.yaml", "--compile").out
    )
