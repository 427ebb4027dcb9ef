"""`tune validate --compile`: the default is built, and never launched."""

from __future__ import annotations

from pathlib import Path

import pytest

from helpers.operations import array, written
from helpers.processes import Tune

Y = array("y", "float32", ["n"], "out")
PORTABLE = """
#include "portable.h"
KERNEL void f(GLOBAL float *y, int n) {
    __shared__ float part[64];
    part[threadIdx.x] = threadIdx.x;
    __syncthreads();
    y[threadIdx.x] = part[63 - threadIdx.x] + a;
}
"""


def test_the_default_is_compiled_for_each_language_with_what_is_known(tmp_path: Path, tune: Tune) -> None:
    file = written(tmp_path, PORTABLE, [Y], "zeros(n)", "cuda", languages=["cuda", "opencl"], block=[64], grid=[1])
    done = tune("validate", file, "--compile", "--json")
    assert done.status == 0, done.err
    cuda, opencl = done.json["builds"]
    assert (cuda["kind"], cuda["figures"]["shared_memory"], cuda["missing"]) == ("cuda", 256, "")
    assert cuda["figures"]["registers"] > 0
    assert (opencl["kind"], opencl["figures"]["registers"], opencl["missing"]) == ("opencl", None, "")
    assert "registers, 0 bytes of spills, 256 bytes of shared memory" in tune("validate", file, "--compile").out


def test_a_default_that_does_not_compile_is_one_message_with_the_log(tmp_path: Path, tune: Tune) -> None:
    file = written(tmp_path, PORTABLE.replace("+ a;", "+ b;"), [Y], "zeros(n)", "cuda", block=[64], grid=[1])
    assert tune("validate", file).status == 0
    done = tune("validate", file, "--compile")
    assert (done.status, done.out) == (2, "")
    assert done.err.startswith("error: cuda: a=1 does not compile: f.cu(7): error: identifier")


def test_without_a_compiler_one_message_says_what_is_missing(
    tmp_path: Path, tune: Tune, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = written(tmp_path, "void f(float *y, int n) { y[0] = a; }", [Y], "zeros(n)")
    assert "host: the default compiles" in tune("validate", file, "--compile").out
    monkeypatch.setenv("CC", "/nowhere/cc")
    done = tune("validate", file, "--compile")
    assert (done.status, done.out, len(done.err.splitlines())) == (2, "", 1)
    assert "host: not compiled: device host: no C compiler found" in done.err
