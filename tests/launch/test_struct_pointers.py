"""Structs that hold pointers reach the kernel on each device, with the arrays that a launch has at that moment."""

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

# A pointer in the struct, pointers in an array in a struct in the struct, and one that no kernel reads.
TYPES = """
typedef float real;
typedef struct { const real *by[2]; int n; } Weights;
typedef struct { real *next; const real *now; Weights w; double *unused; float shift; } Grid;
"""
CELL = "g.next[i] = SIGN * g.now[i] * g.w.by[0][i] + g.w.by[1][i] + g.shift;"
CODES = {
    "c": f"{TYPES}void advance(Grid g) {{ for (int i = 0; i < g.w.n; i++) {CELL} }}",
    "cuda": f"{TYPES}__global__ void advance(const Grid g) {{ "
    f"int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < g.w.n) {CELL} }}",
}
FILES = {"c": "f.c", "cuda": "f.cu"}
DEVICES = {"c": "host", "cuda": "cuda"}
WEIGHTS = [{"name": "by", "shape": [2], "array": ["a", "b"]}, {"name": "n", "dtype": "int32"}]
FIELDS: list[dict[str, Any]] = [
    {"name": "next", "array": "other"},
    {"name": "now", "array": "y"},
    {"name": "w", "fields": WEIGHTS},
    {"name": "unused", "dtype": "uint64", "value": 0},
    {"name": "shift", "dtype": "float32", "value": "k * step"},
]
ARGUMENTS: list[dict[str, Any]] = [
    array("y", "float32", ["n"], "inout"),
    array("a", "float32", ["n"]),
    array("b", "float32", ["n"]),
    array("other", "float32", ["n"], "scratch"),
    {"name": "g", "fields": FIELDS},
]
LANGUAGES = ["c", pytest.param("cuda", marks=pytest.mark.gpu)]


def written(folder: Path, language: str, arguments: list[dict[str, Any]] | None = None, code: str = "") -> Path:
    """Three passes, after each of which the arrays swap, and whose struct differs."""
    (folder / FILES[language]).write_text(code or CODES[language])
    step = {"kernel": "advance"} | ({} if language == "c" else {"grid": ["ceil_div(n, 32)"], "block": [32]})
    data = {
        "title": "structs with pointers",
        "operation": {
            "sizes": {"n": None},
            "options": {"step": 1.0},
            "arguments": arguments or ARGUMENTS,
            "reference": "((y * a + b + step) * a + b + 2 * step) * a + b + 3 * step",
        },
        "source": FILES[language],
        "languages": [language],
        "steps": [{"repeat": {"k": [1, 2, 3]}, "steps": [step], "swap": ["y", "other"]}],
        "parameters": {"SIGN": [1]},
        "default": {"SIGN": 1},
    }
    file = folder / "f.yaml"
    file.write_text(json.dumps(data, indent=1))
    return file


def changed(position: int, **keys: Any) -> list[dict[str, Any]]:
    """The arguments with other keys of one field."""
    fields = [{**f, **keys} if i == position else f for i, f in enumerate(FIELDS)]
    return [*ARGUMENTS[:-1], {"name": "g", "fields": fields}]


def answer(y: Any, a: Any, b: Any) -> Any:
    for k in (1, 2, 3):
        y = y * a + b + np.float32(k)
    return y


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_kernel_gets_the_arrays_of_its_structs(language: str, tmp_path: Path, tune: Tune) -> None:
    """Arrays that swap, a struct that differs between launches, other arrays, and bound launches."""
    file, device = written(tmp_path, language), DEVICES[language]
    done = tune(file, "100", "--device", device, "--budget", "1")
    assert done.status == 0, done.err
    kernel = tuner.load(str(file), 100, device=device)
    if language == "c":
        assert tune("export", file, "100", "--to", "cu", "--device", device, "--output", tmp_path / "x.c").status == 0
        assert "g.next = other, g.now = y, g.w.by[0] = a, " in (tmp_path / "x.c").read_text()
        y, a, b, c = np.random.default_rng(0).random((4, 100), np.float32)
        for others in ((a, b), (b, c), (a, b)):
            for launch in (kernel, lambda *arrays: kernel.bind(*arrays)()):
                out = y.copy()
                launch(out, *others)
                assert np.allclose(out, answer(y, *others), rtol=1e-6)
    twins = {"wrong": CELL.replace("by[1]", "by[0]"), "not written": CELL.replace("g.next[i]", "((real *)g.now)[i]")}
    poison = "not a number" if language == "cuda" else "not written"  # a GPU's sums do not keep the bits of a NaN
    for reason, wrong in twins.items():
        written(tmp_path, language, code=CODES[language].replace(CELL, wrong))
        done = tune(file, "100", "--device", device, "--budget", "1", "--fresh")
        assert done.status != 0
        assert reason.replace("not written", poison) in done.err, done.err


FAULTS = {
    "no array of that name": (changed(0, array="nest"), "4.fields.0.array", "g.next: nest is no array; declare it as"),
    "a number": (changed(0, array="g"), "4.fields.0.array", "g.next: g is no array"),
    "no pointer in the source": (changed(4, dtype=None, value=None, array="a"), "4", "`float shift` is no pointer"),
    "a pointer in the source": (
        changed(0, array=None, dtype="float32", value=1), "", "2 arguments (other, g); advance in f.c takes 1",
    ),
    "a pointer that is a number": (
        changed(3, dtype="float32"), "4", "`double *unused` is a pointer; write {name: unused, array: }",
    ),
    "a type beside it": (changed(0, dtype="float32"), "4.fields.0.dtype", "g.next: a pointer has no type or value"),
    "too many": (changed(0, array=["y", "a"]), "4.fields.0.array", "g.next: 2 arrays; write one, or add the `shape`"),
    "too few": (
        changed(2, fields=[{**WEIGHTS[0], "array": "a"}, WEIGHTS[1]]), "4.fields.2.fields.0.array",
        "g.w.by: 1 arrays; write 2, one for each pointer",
    ),
    "another type": (
        [array("y", "float64", ["n"], "inout"), *ARGUMENTS[1:3], array("other", "float64", ["n"], "scratch"),
         ARGUMENTS[-1]],
        "3.dtype", "takes `real *next` here, which is not float64; write float32",
    ),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_a_pointer_that_is_not_the_sources_is_one_message(fault: str, tmp_path: Path, tune: Tune) -> None:
    arguments, key, message = FAULTS[fault]
    fields = [{k: v for k, v in f.items() if v is not None} for f in arguments[-1]["fields"]]
    done = tune("validate", written(tmp_path, "c", [*arguments[:-1], {"name": "g", "fields": fields}]))
    assert (done.status, done.out, len(done.err.splitlines())) == (2, "", 1), done.err
    assert f" {'.'.join(filter(None, ('operation.arguments', key)))}: " in done.err, done.err
    assert message in done.err


def test_opencl_has_no_addresses_for_structs(tmp_path: Path, tune: Tune) -> None:
    file = written(tmp_path, "c")
    file.write_text(file.read_text().replace('"c"\n', '"opencl"\n').replace("f.c", "f.cl"))
    (tmp_path / "f.cl").write_text(f"{TYPES}__kernel void advance(Grid g) {{ }}")
    done = tune("validate", file)
    assert done.status == 2
    assert "g.next: a struct cannot hold an array in opencl, whose arrays have no addresses" in done.err


@pytest.mark.parametrize("passes", [1, 3])
def test_an_exported_program_passes_pointers(passes: int, tmp_path: Path, tune: Tune) -> None:
    """With loops, and without."""
    file = written(tmp_path, "cuda")
    if passes == 1:
        data = json.loads(file.read_text())
        step = data["steps"][0]["steps"][0]
        fields = [{**FIELDS[0], "array": "y"}, *FIELDS[1:4], {**FIELDS[4], "value": "step"}]
        arguments = [*ARGUMENTS[:3], {"name": "g", "fields": fields}]
        data["operation"] |= {"arguments": arguments, "reference": "y * a + b + step"}
        file.write_text(json.dumps(data | {"steps": [step]}))
    Store("f", tmp_path / "r").add(replace(at(64), config={"SIGN": 1}, signature="an earlier one"))
    made = bundle(tune, tmp_path / "b", str(file), "64", "--results", str(tmp_path / "r"), "--architecture", "sm_90a")
    launches = made["builds"][0]["launches" if passes == 3 else "steps"]
    arrays = ["other", "y", "other"] if passes == 3 else ["y"]
    assert [each["pointers"][0] for each in launches] == [{"of": "g", "offset": 0, "array": a} for a in arrays]
    kernel = (
        "struct { float *next; const float *now, *by[2]; int n; double *unused; float shift; } *g = p[0];"
        "for (int i = 0; i < g->n; i++) { g->next[i] = g->now[i] * g->by[0][i] + g->by[1][i] + g->shift; }"
    )
    done = run_on_stand_in(tmp_path / "b", kernel)
    assert ("copy 256" in done.stdout) == (passes == 3)  # after three passes the answer is in `other`
    expected = {1: 1 + 11 * 2, 3: 1 + 11 * 9}[passes]  # ten runs and a warm-up, each of which adds 2, or 2 + 3 + 4
    assert done.stdout.splitlines()[-1] == f"y: {expected} {expected}"


def test_a_draft_asks_of_the_arrays_in_a_struct_what_it_asks_of_arguments(tmp_path: Path, tune: Tune) -> None:
    (tmp_path / "f.cu").write_text(
        "#include <cuda_runtime.h>\n#define real float\n"
        "struct Links { using index = int; const index *to = nullptr; };\nenum Mode { PLAIN, FAST };\n"
        "struct Shared { int k; double a; };\n__constant__ Shared shared;\n"
        "struct alignas(64) Grid { real *out; const real *__restrict__ in, *more[2]; Links links; double *unused{};\n"
        "    int n = 0; float *back; Mode mode = PLAIN; dim3 size; __align__(16) float weights[2]; };\n"
        "__global__ void gather(const Grid g, float *out) { int i = blockIdx.x * blockDim.x + threadIdx.x;"
        " int n = g.n; const float *back = g.back; if (i >= n) return;"
        " g.out[i] = g.in[g.links.to[i]] + g.more[1][i] + back[n - 1 - i]; out[i] = shared.a; }\n"
        "int main() { Grid g; gather<<<1, 256>>>(g, nullptr); }\n"
    )
    assert tune("new", tmp_path / "f.cu").status == 0
    text = (tmp_path / "f.yaml").read_text()
    *arguments, constant = yaml.safe_load(text)["operation"]["arguments"]
    assert (constant["kind"], constant["dtype"], constant["shape"]) == ("constant", "uint8", [16])
    assert {a["name"]: (a.get("dtype"), a.get("shape"), a.get("role")) for a in arguments[:-2]} == {
        "g_out": ("float32", ["n"], "out"),
        "g_in": ("float32", ["n"], "in"),
        "more_0": ("float32", ["n"], "in"),
        "more_1": ("float32", ["n"], "in"),
        "to": ("int32", ["n"], "in"),
        "back": ("float32", ["n"], "in"),
    }
    assert "into how many elements? such as fill: {integers: [0, n - 1]}" in text
    fields = {field["name"]: field for field in arguments[-2]["fields"]}
    assert (fields["out"]["align"], fields["weights"]["align"], fields["size"]["dtype"]) == (64, 16, "uint3")
    answered = re.sub(r"^  reference:$", "  reference: none", re.sub("  # \\? .*", "", text), flags=re.MULTILINE)
    (tmp_path / "f.yaml").write_text(answered)
    assert (done := tune("validate", tmp_path / "f.yaml", "--compile")).status == 0, done.err  # as large as NVRTC says
    (tmp_path / "f.yaml").write_text(answered.replace(", align: 64", ""))
    assert "is aligned; write `align: 64`" in tune("validate", tmp_path / "f.yaml").err


def test_what_functions_write_that_get_the_struct_is_no_input(tmp_path: Path, tune: Tune) -> None:
    (tmp_path / "f.cu").write_text(
        "struct Grid { float *out, *in; int *at; int n; float *more[2];\n"
        "    __device__ float get(int i) const { return in[at[i]]; } };\n"
        "__device__ void put(Grid *g, int i, float value) { g->out[i] = value; }\n"
        "__global__ void f(Grid g) { int i = blockIdx.x * 64 + threadIdx.x; if (i < g.n) put(&g, i, g.get(i));\n"
        "    g.more[i % 2][i / 2] = 1; }\n"
    )
    assert tune("new", tmp_path / "f.cu").status == 0
    text = (tmp_path / "f.yaml").read_text()
    roles = dict(re.findall(r"name: (\w+), .* role: (\w+)", text))
    assert roles == {"out": "out", "g_in": "in", "at": "in", "more_0": "out", "more_1": "out"}
    assert re.findall(r"name: (\w+),.*# \? in, out or inout\?", text) == ["out", "more_0", "more_1"]


def test_the_flag_of_a_loop_may_be_in_a_struct(tmp_path: Path, tune: Tune) -> None:
    (tmp_path / "f.c").write_text(
        "typedef struct { int *x, *going; int n; } S;\n"
        "void lower(S s) { for (int i = 0; i < s.n; i++) if (s.x[i] > LEAST) { s.x[i] -= 1; *s.going = 1; } }\n"
    )
    fields = [{"name": "x", "array": "x"}, {"name": "going", "array": "going"}, {"name": "n", "dtype": "int32"}]
    x = array("x", "int32", ["n"], "inout") | {"fill": {"integers": [1, 9]}}
    arguments = [x, array("going", "int32", ["1"], "scratch"), {"name": "s", "fields": fields}]
    data = {
        "title": "until none is above 1",
        "operation": {"sizes": {"n": None}, "arguments": arguments, "reference": "0 * x + 1"},
        "source": "f.c",
        "steps": [{"while": "going", "most": 20, "steps": [{"kernel": "lower", "arguments": ["s"]}]}],
        "parameters": {"LEAST": [1]},
        "default": {"LEAST": 1},
    }
    (tmp_path / "f.yaml").write_text(json.dumps(data, indent=1))
    done = tune(tmp_path / "f.yaml", "100", "--device", "host", "--budget", "1")
    assert done.status == 0, done.err
