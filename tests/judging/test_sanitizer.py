"""compute-sanitizer finds what comparing outputs cannot: reads outside arrays."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import tuner
from helpers.processes import Tune

SPACE = Path(__file__).parent / "cheats/blend.yaml"
TEXT = """
#include "portable.h"
KERNEL void blend(GLOBAL float *z, GLOBAL const float *x, GLOBAL const float *y, int n, float alpha) {
    int i = blockIdx.x * threads + threadIdx.x;
    if (i >= n) return;
    z[i] = alpha * (x[i] * y[i] + 0.25f * x[i]);
    if (READ && x[n + i] == 12345.0f) z[i] = 0.0f;
}
"""


@pytest.mark.gpu
@pytest.mark.skipif(shutil.which("compute-sanitizer") is None, reason="compute-sanitizer is not installed")
def test_a_read_outside_an_array_is_found(tmp_path: Path) -> None:
    files = [tmp_path / "reads.cu", tmp_path / "honest.cu"]
    for file in files:
        file.write_text(f"#define READ {int(file.stem == 'reads')}\n{TEXT}")
    reads, honest = tuner.evaluate(
        files, SPACE, 1000, device="cuda", rounds=5, hidden=1, verify=5, sanitize=True
    ).verdicts
    assert reads.codes == ["sanitizer"]
    assert (honest.codes, honest.safe) == ([], {"guards": "whole", "sanitizer": "clean"})


def test_it_watches_cuda_alone(tmp_path: Path, tune: Tune) -> None:
    file = tmp_path / "blend.c"
    file.write_text("void blend(void) {}")
    against = SPACE.with_name("blend_host.yaml")
    done = tune("evaluate", file, "--against", against, "--sizes", "100", "--sanitize")
    assert (done.status, "on cuda alone, not on host" in done.err) == (2, True)
