"""Structs and vectors by value reach the kernel on each device, and the file's fields must be the source's."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

import tuner
from helpers.bundles import bundle, run_on_stand_in
from helpers.operations import array
from helpers.processes import Tune
from helpers.records import at
from tuner.store.store import Store

# In registers of either kind, in both, and in memory; with padding, an array and a struct in a struct.
TYPES = """
typedef struct { double low; float scale; } Range;
typedef struct { int a, b; float c; } Mixed;
struct big { Range inner; short w[3]; unsigned char flag; Mixed m; };
"""
SUM = "x[i] * s.scale + s.low + 10 * m.a + m.b + m.c + v.x + 2 * v.w + b.inner.low + b.w[2] + b.flag + b.m.b + step"
TAKEN = "Range s, Mixed m, float4 v, struct big b, float step"
CODES = {
    "c": f"typedef struct {{ float x, y, z, w; }} float4;{TYPES}"
    f"void f(float *y, const float *x, long n, {TAKEN}) {{ for (long i = 0; i < n; i += 1) y[i] = SIGN * ({SUM}); }}",
    "opencl": f"{TYPES}__kernel void f(__global float *y, __global const float *x, long n, {TAKEN}) "
    f"{{ int i = get_global_id(0); if (i < n) y[i] = SIGN * ({SUM}); }}",
    "cuda": f'{TYPES}extern "C" __global__ void f(float *y, const float *x, long n, {TAKEN}) '
    f"{{ int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) y[i] = SIGN * ({SUM}); }}",
}
RANGE = [{"name": "low", "dtype": "float64"}, {"name": "scale", "dtype": "float32"}]
MIXED = [
    {"name": "a", "dtype": "int32", "value": "n // 8"},
    {"name": "b", "dtype": "int32", "value": 5},
    {"name": "c", "dtype": "float32", "value": 0.25},
]
BIG = [
    {"name": "inner", "fields": RANGE},
    {"name": "w", "dtype": "int16", "shape": [3], "value": [1, 2, 3]},
    {"name": "flag", "dtype": "uint8", "value": 1},
    {"name": "m", "fields": MIXED},
]
ARGUMENTS: list[dict[str, Any]] = [
    array("y", "float32", ["n"], "out"),
    array("x", "float32", ["n"]),
    {"name": "n", "dtype": "int64"},
    {"name": "s", "fields": RANGE},
    {"name": "m", "fields": MIXED},
    {"name": "v", "dtype": "float4", "value": [1, 2, 3, 4]},
    {"name": "b", "fields": BIG},
    {"name": "step", "dtype": "float32"},
]
FILES = {"c": "f.c", "opencl": "f.cl", "cuda": "f.cu"}


def written(folder: Path, language: str, arguments: list[dict[str, Any]] | None = None, code: str = "") -> Path:
    (folder / FILES[language]).write_text(code or CODES[language])
    data = {
        "title": "structs by value",
        "operation": {
            "sizes": {"n": None},
            "options": {"scale": 2.0, "low": 0.5, "step": 8.0},
            "arguments": arguments or ARGUMENTS,
            "reference": "x * scale + low + 10 * (n // 8) + 5.25 + 1 + 8 + low + 3 + 1 + 5 + step",
        },
        "kernel": "f",
        "source": FILES[language],
        "parameters": {"SIGN": [1]},
        "default": {"SIGN": 1},
    } | ({} if language == "c" else {"grid": ["ceil_div(n, 32)"], "block": [32]})
    file = folder / "f.yaml"
    file.write_text(json.dumps(data, indent=1))  # YAML, too, without anchors
    return file


def changed(position: int, **keys: Any) -> list[dict[str, Any]]:
    return [{**a, **keys} if i == position else a for i, a in enumerate(ARGUMENTS)]


@pytest.mark.parametrize("language", ["c", "opencl", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_a_kernel_gets_the_fields_of_its_structs(language: str, tmp_path: Path, tune: Tune) -> None:
    """Verified, and launched with other options; a configuration whose kernel reads another field is refused."""
    device = {"c": "host", "opencl": "opencl", "cuda": "cuda"}[language]
    file = written(tmp_path, language)
    done = tune(file, "100", "--device", device, "--budget", "1")
    assert done.status == 0, done.err
    kernel = tuner.load(str(file), 100, device=device)
    x = np.arange(100, dtype=np.float32)
    if language == "c":
        y = np.empty_like(x)
        kernel(y, x, low=1.5, scale=3.0)
        assert np.array_equal(y, 3 * x + 2 * 1.5 + 120 + 5.25 + 9 + 3 + 1 + 5 + 8)
    twin = written(tmp_path, language, code=CODES[language].replace("b.w[2]", "b.w[1]"))
    done = tune(twin, "100", "--device", device, "--budget", "1", "--fresh")
    assert done.status != 0
    assert "wrong" in done.err, done.err


FAULTS = {
    "an order": (changed(3, fields=RANGE[::-1]), "operation.arguments.3", "{double low; float scale}; list these"),
    "a type": (
        changed(6, fields=[BIG[0], {**BIG[1], "dtype": "int32"}, *BIG[2:]]), "operation.arguments.6",
        "whose field `short w[3]` is not int32 with `shape: [3]`",
    ),
    "an extent": (
        changed(6, fields=[BIG[0], {**BIG[1], "shape": [4], "value": [1, 2, 3, 4]}, *BIG[2:]]),
        "operation.arguments.6", "whose field `short w[3]` is not int16 with `shape: [4]`",
    ),
    "a struct in a struct": (
        changed(6, fields=[{**BIG[0], "fields": RANGE[::-1]}, *BIG[1:]]), "operation.arguments.6", "list these",
    ),
    "a number": (changed(3, fields=None, dtype="float32", value=1), "operation.arguments.3", "list its `fields:`"),
    "no vector": (changed(5, dtype=None, value=None, fields=RANGE), "operation.arguments.5", "write `dtype: float4`"),
    "another vector": (changed(5, dtype="int4"), "operation.arguments.5", "which is not int4; write `dtype: float4`"),
    "too few values": (changed(5, value=[1, 2]), "operation.arguments.5.value", "2 values; write 4 expressions"),
    "an array without values": (
        changed(6, fields=[BIG[0], {**BIG[1], "value": None}, *BIG[2:]]), "operation.arguments.6.fields.1.value",
        "b.w: no `value`; write 3 expressions",
    ),
    "no type": (changed(3, fields=[{"name": "low"}]), "operation.arguments.3.fields.0.dtype", "this key is missing"),
    "an unknown type": (
        changed(3, fields=[{"name": "low", "dtype": "quad"}]), "operation.arguments.3.fields.0.dtype",
        "not the type of a field; allowed: float16,",
    ),
    "an unknown name": (changed(5, value=[1, 2, 3, "m"]), "operation.arguments.5.value", "unknown name 'm'; known: "),
    "a shape": (changed(3, shape=["n"], role="in"), "operation.arguments.3.shape", "s: a struct is passed by value"),
    "no fields": (changed(3, fields=[]), "operation.arguments.3.fields", "s: no fields; list them"),
    "a name twice": (
        changed(3, fields=[RANGE[0]] * 2), "operation.arguments.3.fields.1.name", "two fields are named low",
    ),
    "an offset in the field before": (
        changed(3, fields=[RANGE[0], {**RANGE[1], "offset": 4}]), "operation.arguments.3.fields.1.offset",
        "s.scale: 4 is within low, which ends at 8",
    ),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_a_field_that_is_not_the_sources_is_one_message(fault: str, tmp_path: Path, tune: Tune) -> None:
    arguments, key, message = FAULTS[fault]
    plain = [{name: value for name, value in a.items() if value is not None} for a in arguments]
    done = tune("validate", written(tmp_path, "opencl", plain))
    assert (done.status, done.out, len(done.err.splitlines())) == (2, "", 1), done.err
    assert f" {key}: " in done.err, done.err
    assert message in done.err


def test_the_compilers_size_of_a_struct_decides(tmp_path: Path, tune: Tune) -> None:
    """Where the source's text does not tell the fields, as those of a base."""
    code = CODES["cuda"].replace("Mixed m, float4", "Of<int> m, float4")
    head = "template <typename T> struct Two { T a, b; };\n"
    code = head + "template <typename T> struct Of : Two<T> { T more; float c; };\n" + code
    done = tune("validate", written(tmp_path, "cuda", code=code), "--compile")
    assert done.status != 0
    assert (
        "operation.arguments.m: has 12 bytes (a: int32 at 0, b: int32 at 4, c: float32 at 8), but f takes 16 bytes here"
        in done.err
    )


def test_an_exported_program_passes_structs(tmp_path: Path, tune: Tune) -> None:
    file = written(tmp_path, "cuda")
    Store("f", tmp_path / "r").add(replace(at(64), config={"SIGN": 1}, signature="an earlier one"))
    made = bundle(tune, tmp_path / "b", str(file), "64", "--results", str(tmp_path / "r"), "--architecture", "sm_90a")
    values = {a["name"]: a.get("value") for a in made["builds"][0]["arguments"]}
    assert (values["s"], values["v"]) == ({"low": 0.5, "scale": 2.0}, {"x": 1.0, "y": 2.0, "z": 3.0, "w": 4.0})
    kernel = (
        'struct { double low; float scale; } s; memcpy(&s, p[3], sizeof s); printf("with %g %g\\n", s.low, s.scale);'
    )
    done = run_on_stand_in(tmp_path / "b", kernel)
    assert "with 0.5 2" in done.stdout, done.stderr


def test_a_draft_lists_the_fields_of_a_struct(tmp_path: Path, tune: Tune) -> None:
    (tmp_path / "types.h").write_text("#define real double\n" + TYPES.replace("double low", "real low"))
    (tmp_path / "f.cu").write_text('#include "types.h"\n' + CODES["cuda"].removeprefix(TYPES))
    assert tune("new", tmp_path / "f.cu").status == 0
    text = (tmp_path / "f.yaml").read_text()
    operation = yaml.safe_load(text)["operation"]
    arguments = operation["arguments"]
    assert [list(a) for a in arguments[3:7]] == [["name", "fields"]] * 2 + [["name", "dtype", "value"]] + [
        ["name", "fields"]
    ]
    assert arguments[3]["fields"][0] == {"name": "low", "dtype": "float64"}
    assert operation["options"]["low"] == 1.0
    assert arguments[6]["fields"][1] == {"name": "w", "dtype": "int16", "shape": [3], "value": [1, 1, 1]}
    (tmp_path / "f.yaml").write_text(
        re.sub(r"^  reference:$", "  reference: none", re.sub("  # \\? .*", "", text), flags=re.MULTILINE)
    )
    done = tune("validate", tmp_path / "f.yaml", "--compile")
    assert done.status == 0, done.err


def test_a_struct_that_only_the_name_of_a_kernel_mentions_is_compiled(tmp_path: Path, tune: Tune) -> None:
    (tmp_path / "f.cu").write_text("""\
#include <vector>
struct Put { double k; __device__ double operator()(double s) const { return s < k ? k - s : 0; } };
template <int BLOCK, typename Payoff> __global__ void price(double *y, const double *x, int n, Payoff payoff) {
    int i = blockIdx.x * BLOCK + threadIdx.x;
    if (i < n) y[i] = payoff(x[i]);
}
int main() { std::vector<double> x; price<256, Put><<<1, 256>>>(nullptr, nullptr, 0, Put{4}); }
""")
    (tmp_path / "f.yaml").write_text("""\
title: payoffs
operation:
  sizes: {n: }
  options: {k: 1.0}
  arguments:
    - {name: y, dtype: float64, shape: [n], role: out}
    - {name: x, dtype: float64, shape: [n], role: in}
    - {name: n, dtype: int32}
    - {name: payoff, fields: [{name: k, dtype: float64}]}
  reference: max(k - x, 0)
kernel: "price<{BLOCK}, Put>"
parameters: {BLOCK: [64, 128]}
grid: ["ceil_div(n, BLOCK)"]
block: [BLOCK]
default: {BLOCK: 64}
""")
    done = tune("validate", tmp_path / "f.yaml", "--compile")
    assert done.status == 0, done.err
