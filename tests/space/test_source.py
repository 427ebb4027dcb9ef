"""From a configuration to the text that a compiler sees."""

from __future__ import annotations

import pytest

from helpers.kernels import Stage
from tuner.devices.cuda.compiler import compile_cubin
from tuner.space import catalog, source
from tuner.space.model import Limits, Scope, Space

KERNEL = """\
#include <mma.h> /* whose words are not ours:
                    it knows a `half` and a `count` */
#include <cuda_fp16.h>
#ifndef half
#define half 1
#endif
#if half != 2 && half != 4
#error "the value is lost"
#endif
extern "C" __global__ void k(float *C, const float *A, const float *B, int M, int N, int K, int batch, float alpha,
                             float beta) {
    C[0] = half + count;
}
"""


def rendered(space: Space, half: int) -> source.Source:
    scope = Scope({"M": 8, "N": 8, "K": 8, "batch": 1}, space.operation.options, "cuda", Limits())
    return source.render(space, {"half": half, "count": 7}, scope)


@pytest.fixture
def space(stage: Stage) -> Space:
    return catalog.load(str(stage(KERNEL, "k", "{half: [2, 4], count: [7]}", "cuda", "grid: [1]\nblock: [1]")))


def test_macros_reach_the_kernel_and_no_header_of_others(space: Space) -> None:
    two, four = (compile_cubin(rendered(space, half), "sm_90a").binary for half in (2, 4))
    assert two != four


def test_lines_are_counted_as_in_the_file(space: Space) -> None:
    text = rendered(space, 2).text
    after = text.partition("#include <cuda_fp16.h>")[2].splitlines()
    line = next(number for number, line in enumerate(after) if line.startswith("#line"))
    assert (after[line], after[line + 2]) == ('#line 3 "k.cu"', "#ifndef half")
