"""`tune new A --source B`: programs whose host code or device functions are in other files than the kernel."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from helpers.drafts import guessed
from helpers.processes import Tune
from tuner.space.file.yamlfile import read

KERNEL = """
#include "scale.cuh"
__global__ void f(float *y, const float *x, int n) {
    int i = blockIdx.x * BLOCK + threadIdx.x;
    y[2 * i] = scaled(x[i / 2], n);
}
"""
SCALE = """
#include "scale.cuh"
#include <cstdio>
#define STEP 4
__device__ float shifted(float x) { return x + STEP; }
__device__ float scaled(float x, int n) { return shifted(2 * x) / n; }
"""
MAIN = """
#include "scale.cuh"
__global__ void f(float *, const float *, int);
int main() { int n = read(); float *y, *x; cudaMalloc(&y, FACTOR * n * sizeof(float));
    cudaMalloc(&x, n * sizeof(float)); f<<<(n + BLOCK - 1) / BLOCK, BLOCK>>>(y, x, n); }
"""


def written(folder: Path) -> None:
    for name, code in {
        "src/f.cu": KERNEL, "src/scale.cu": SCALE, "src/other.cu": MAIN.replace("FACTOR", "7"),
        "app/main.cu": MAIN.replace("FACTOR", "2"),
        "include/scale.cuh": "#pragma once\n#define BLOCK 128\n__device__ float scaled(float x, int n);\n",
    }.items():  # fmt: skip
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(code)


def checked(file: Path, tune: Tune, *options: str) -> None:
    """The space of a draft without its questions is valid."""
    text = re.sub(r"  # \? .*", "", file.read_text()).replace("reference:\n", "reference: none\n", 1)
    file.write_text(text)
    done = tune("validate", file, *options)
    assert done.status == 0, done.err


def test_files_that_are_named_are_one_program(tmp_path: Path, tune: Tune) -> None:
    """The launch is read in them and not in files beside the kernel; what the kernel calls in them is compiled."""
    written(tmp_path)
    files = [str(tmp_path / each) for each in ("app/main.cu", "src/scale.cu")]
    options = ["--source", files[0], "--source", files[1], "--include", str(tmp_path / "include")]
    done = tune("new", tmp_path / "src/f.cu", *options, "--output", tmp_path / "f.yaml")
    assert done.status == 0, done.err
    assert f"{tmp_path / 'f_files.cu'}: written, because the kernels need several files" in done.out
    lines = [line for line in (tmp_path / "f_files.cu").read_text().splitlines() if line[:2] != "//"]
    assert lines == ['#include "src/scale.cu"', '#include "src/f.cu"'], "no file of the host alone"
    data, text = read(tmp_path / "f.yaml").data, (tmp_path / "f.yaml").read_text()
    assert (data["source"], data["include"], guessed(text)) == ("f_files.cu", ["include"], [])
    assert [a["shape"] for a in data["operation"]["arguments"] if "shape" in a] == [["2 * n"], ["n"]]
    assert (data["grid"], data["block"], {*data["parameters"]}) == (
        ["ceil_div(n, BLOCK)"], ["BLOCK"], {"BLOCK"},
    )  # fmt: skip
    checked(tmp_path / "f.yaml", tune, "--compile")


def test_without_device_code_in_them_the_source_stays_the_kernels(tmp_path: Path, tune: Tune) -> None:
    written(tmp_path)
    with (tmp_path / "src/f.cu").open("a") as file:
        file.write("__device__ float scaled(float x, int n) { return x * n; }\n")
    done = tune("new", tmp_path / "src/f.cu", "--source", tmp_path / "app/main.cu", "--include", tmp_path / "include")
    assert done.status == 0, done.err
    data: dict[str, Any] = read(tmp_path / "src/f.yaml").data
    assert (data["source"], data["operation"]["arguments"][0]["shape"]) == ("f.cu", ["2 * n"])
    assert not (tmp_path / "src/f_files.cu").exists()


def test_kernels_of_several_files_are_steps_of_one_space(tmp_path: Path, tune: Tune) -> None:
    """In OpenCL, also with the file that has their types, which the host may put before them. A macro on which types of
    arguments depend is no knob."""
    head = "__kernel void {0}(__global real *{1}, __global const real *{2}, int n) {{ int i = get_global_id(0); "
    (tmp_path / "types.cl").write_text(
        "#ifndef WIDE\n#define WIDE 0\n#endif\n#if WIDE\ntypedef double real;\n#else\ntypedef float real;\n#endif\n"
    )
    (tmp_path / "a.cl").write_text(head.format("first", "y", "x") + "if (i < n) y[i] = x[i] + 1; }\n")
    (tmp_path / "b.cl").write_text(head.format("second", "z", "y") + "if (i < n) z[i] = y[i] * 2; }\n")
    options = ["--source", tmp_path / "types.cl", "--source", tmp_path / "b.cl", "--entry", "first,second"]
    assert tune("new", tmp_path / "a.cl", *options).status == 0
    data: dict[str, Any] = read(tmp_path / "a.yaml").data
    assert (data["source"], [step["kernel"] for step in data["steps"]]) == ("a_files.cl", ["first", "second"])
    lines = [line for line in (tmp_path / "a_files.cl").read_text().splitlines() if line[:2] != "//"]
    assert lines == ['#include "types.cl"', '#include "b.cl"', '#include "a.cl"']
    assert {a["dtype"] for a in data["operation"]["arguments"] if "shape" in a} == {"float32"}
    assert "# WIDE: [0]    # no knob: the types of arguments depend on it" in (tmp_path / "a.yaml").read_text()
    checked(tmp_path / "a.yaml", tune)


@pytest.mark.parametrize("present", ["a.yaml", "a_files.cl"])
def test_a_failed_draft_leaves_no_file_and_overwrites_none(present: str, tmp_path: Path, tune: Tune) -> None:
    (tmp_path / "a.cl").write_text("__kernel void f(__global float *y) { y[get_global_id(0)] = half_of(2); }\n")
    (tmp_path / "b.cl").write_text("float half_of(float x) { return x / 2; }\n")
    (tmp_path / present).write_text("mine")
    done = tune("new", tmp_path / "a.cl", "--source", tmp_path / "b.cl")
    assert (done.status, f"{present}: already exists" in done.err) == (2, True)
    done = tune("new", tmp_path / "a.cl", "--source", __file__)
    assert (done.status, "host code in Python is not read; leave it out" in done.err) == (2, True)
    assert sorted(each.name for each in tmp_path.iterdir()) == sorted(["a.cl", "b.cl", present])
    assert (tmp_path / present).read_text() == "mine"
