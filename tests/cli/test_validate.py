"""`tune validate`: what it imports. With `--compile` the default is built, and never launched."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

import tuner
from helpers.operations import array, written
from helpers.processes import Tune, run
from tuner import paths
from tuner.errors import NoConfiguration

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


FUNCTIONS = """
import os, signal
import numpy as np

def drawn(rng, n):
    print("drawing")
    return np.arange(n, dtype="float32")

def expected(x):
    with np.errstate(divide="ignore"):
        return 1 / x.astype("float64")

def unknown(x):
    return y

def short(x):
    return x[1:]

def crashing(x):
    os.kill(os.getpid(), signal.SIGSEGV)

def closing(x):
    os.close(0)
    return x

def others(n):
    return {"z": np.ones(n)}
"""


def test_answers_are_computed_without_the_device_of_the_kernel(tmp_path: Path, tune: Tune) -> None:
    code = "__global__ void f(float *y, const float *x, int n) { y[threadIdx.x] = a / x[threadIdx.x]; }"
    arguments = [Y, array("x", "float32", ["n"], fill={"python": "f.py:drawn"})]
    (tmp_path / "f.py").write_text(FUNCTIONS)
    file = written(tmp_path, code, arguments, {"python": "f.py:expected"}, "cuda", block=[64], grid=[1])
    done = run(sys.executable, "-m", "tuner", "validate", file, "8", "--answers", "--json")
    assert "runs f.py:drawn and f.py:expected of " in done.stderr
    assert "drawing\n" in done.stderr
    keys = ("name", "is_answer", "dtype", "shape", "least", "largest", "strange")
    assert [tuple(each[key] for key in keys) for each in json.loads(done.stdout)["contents"]] == [
        ("x", False, "float32", [8], 0, 7, 0),
        ("y", True, "float64", [8], 1 / 7, 1, 1),
    ]
    assert "0.1428571 to 1, 1 of 8 NaN or infinite" in tune("validate", file, 8, "--answers").out
    assert "SIZE is missing: there is no default for n" in tune("validate", file, "--answers").err
    written(tmp_path, code, arguments, {"config": {"a": 1}}, "cuda", block=[64], grid=[1])
    assert "; the expected outputs take the kernel's device" in tune("validate", file, 8, "--answers").out
    for reference, also, message in [
        ("unknown", "drawn", "f.py:14: unknown() does not return: NameError"),
        ("short", "drawn", "has shape (7,)"),
        ("crashing", "drawn", "cannot be computed: the process running it was killed by SIGSEGV"),
        ("closing", "drawn", "cannot be computed: files that the process had open were closed or replaced"),
        ("expected", "others", "others() returns a dict of z; return one of x"),
    ]:
        more = {"also": {"python": f"f.py:{also}"}, "block": [64], "grid": [1]}
        written(tmp_path, code, arguments, {"python": f"f.py:{reference}"}, "cuda", **more)
        assert tune("validate", file, 8).status == 0, "it runs nothing"
        failed = tune("validate", file, 8, "--answers")
        assert (failed.status, failed.out, message in failed.err) == (2, "", True), failed.err


@pytest.mark.slow
def test_a_convolution_is_checked_without_scipy_which_takes_a_second_to_import() -> None:
    file = paths.shipped("spaces") / "gallery/convolution.yaml"
    done = run(sys.executable, "-X", "importtime", "-m", "tuner", "validate", file)
    assert "correlation" in done.stderr
    assert "scipy" not in done.stderr


def test_without_a_compiler_one_message_says_what_is_missing(
    tmp_path: Path, tune: Tune, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = written(tmp_path, "void f(float *y, int n) { y[0] = a; }", [Y], "zeros(n)")
    assert "host: the default compiles" in tune("validate", file, "--compile").out
    monkeypatch.setenv("CC", "/nowhere/cc")
    done = tune("validate", file, "--compile")
    assert (done.status, done.out, len(done.err.splitlines())) == (2, "", 1)
    assert "host: not compiled: device host: no C compiler found" in done.err


STRUCT = """
typedef bool truth;
typedef decltype(short(0)) small;
struct First { int n; __device__ int first() { return n; } };
struct Pair : First { float b; };
namespace mine { namespace { __constant__ float w[2 * 4]; } }
__device__ float *memory() { extern __shared__ float part[]; return part; }
__global__ void f(float *y, Pair p, truth flag, small s, int n) {
    y[n - 1] = p.b + s + flag + mine::w[p.n];
    if (a > 1) y[0] = memory()[n];
}
"""
SCALARS = [
    {"name": name, "dtype": dtype, "value": 1} for name, dtype in {"p": "int64", "flag": "bool", "s": "int16"}.items()
]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({}, ""),
        ({"p": {"dtype": "float32"}}, "arguments.p.dtype: float32 has 4 bytes, but f takes 8 here; write the type"),
        ({"s": {"dtype": "int32"}}, "arguments.s.dtype: int32 has 4 bytes, but f takes 2 here"),
        (
            {"flag": {"shape": ["n"], "role": "in", "value": None}},
            "arguments.flag: is an array, but f takes 1 bytes here",
        ),
        (
            {"w": {"shape": ["n"]}},
            "arguments.w.shape: [1024] of float32 has 4096 bytes, but the variable in the source has 32",
        ),
        ({"a": [2]}, "shared_memory: is 0, but f uses an extern __shared__ array; write the bytes"),
        ({"a": [2], "shared_memory": "4 * n"}, ""),
    ],
)
def test_what_the_text_leaves_open_is_read_from_the_build(
    changes: dict[str, Any], message: str, tmp_path: Path, tune: Tune
) -> None:
    """Types by name, extents by expressions, memory that a function uses. The first build lies in the cache."""
    w = array("w", "float32", ["(n + 8) // n + 7 - n // n"], kind="constant")
    arguments = [{**each, **changes.get(each["name"], {})} for each in (Y, *SCALARS, w)]
    arguments = [{key: value for key, value in each.items() if value is not None} for each in arguments]
    more = {"shared_memory": changes["shared_memory"]} if "shared_memory" in changes else {}
    file = written(
        tmp_path,
        STRUCT,
        arguments,
        "zeros(n)",
        "cuda",
        block=[64],
        grid=[1],
        parameters={"a": changes.get("a", [1])},
        **more,
    )
    done = tune("validate", file, "--compile")
    assert (done.status, len(done.err.splitlines())) == ((2, 1) if message else (0, 0)), done.err
    if message:
        assert done.err.startswith(f"error: cuda: a={changes.get('a', [1])[0]} cannot be launched: f.yaml: ")
        assert message in done.err


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("block", [-1], "block.0: `-1` is -1; at least 1 is needed"),
        ("block", [64, "2 - 2"], "block.1: `2 - 2` is 0; at least 1 is needed"),
        ("grid", ["n", 0], "grid.1: `0` is 0; at least 1 is needed"),
        ("shared_memory", -4, "shared_memory: `-4` is -4; at least 0 is needed"),
        ("steps", [{"kernel": "f", "block": [n]} for n in range(36)], "steps: 36 steps; at most 32 are allowed"),
        ("steps", [], "steps: 0 steps; at least 1 is needed"),
        ("block", [1, 1, 1, 1], "block: 4 entries; at most 3 are allowed"),
        ("parameters", {}, "parameters: 0 parameters; at least 1 is needed"),
    ],
)
def test_what_no_configuration_can_launch_is_refused_by_every_verb(
    key: str, value: Any, said: str, tune: Tune, tmp_path: Path
) -> None:
    code = "__kernel void f(__global float *y, __global const float *x, int n) { y[get_global_id(0)] = 0; }"
    arguments = [array("y", "float32", ["n"], "out"), array("x", "float32", ["n"])]
    file = written(tmp_path, code, arguments, "2 * x", "opencl", **{"block": [64], key: value})
    if key == "steps":
        data = yaml.safe_load(file.read_text())
        file.write_text(yaml.safe_dump({k: v for k, v in data.items() if k not in ("kernel", "block")}))
    for request in (("validate", file), (file, "64"), ("run", file, "64"), ("best", file, "64"), ("show", file, "64")):
        done = tune(*request)
        assert (done.status, len(done.err.splitlines())) == (2, 1), (request, done.err)
        assert "f.yaml:" in done.err
        assert said in done.err


FAULT = "no configuration can be launched at n=128: f: block.0: `100 - n` is -28; at least 1 is needed"


@pytest.mark.slow
def test_a_block_that_a_size_makes_too_small_is_named_with_its_expression(tune: Tune, tmp_path: Path) -> None:
    head = "__kernel void f(__global float *y, __global const float *x, int n)"
    code = f"{head} {{ for (int i = 0; i < n; i++) y[i] = 2 * x[i]; }}"
    arguments = [array("y", "float32", ["n"], "out"), array("x", "float32", ["n"])]
    file = written(tmp_path, code, arguments, "2 * x", "opencl", block=["100 - n"])
    exports = [("export", file, "128", "--to", format) for format in ("header", "cu")]
    for request in ((file, "128"), ("run", file, "128"), ("best", file, "128", "--device", "opencl"), *exports):
        done = tune(*request)
        assert done.status == 2, (request, done.err)
        assert FAULT in done.err.splitlines()[-1], request
    with pytest.raises(NoConfiguration, match=re.escape(FAULT)):
        tuner.load(file, 128, device="opencl")
    assert tune(file, "99").status == 0, "at another size all is well"
