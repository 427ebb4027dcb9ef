"""Names and options with values in braces: of templates, in namespaces, and of kernels that say a parameter."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

import tuner
from helpers.bundles import bundle
from helpers.operations import array, written
from helpers.processes import Tune
from tuner.catalog import catalog
from tuner.devices import Device
from tuner.devices.built import build
from tuner.devices.cuda.compiler import NvrtcCompiler
from tuner.space.instance import Instance
from tuner.space.scope import COMMON_GPU, Scope

ADD = """
template <typename T, int N, bool DOUBLED>
__global__ void add(T *y, const T *x, int n) {
    __shared__ T part[N];
    int i = blockIdx.x * N + threadIdx.x;
    part[threadIdx.x] = i < n ? x[i] : T();
    if (i < n) y[i] = part[threadIdx.x] * T(DOUBLED ? 2 : 1) + T(FACTOR);
}
namespace ns {
__global__ void plain(float *y, const float *x, int n) { if (threadIdx.x < n) y[threadIdx.x] = x[threadIdx.x]; }
template <int N> __global__ void inner(float *y, const float *x, int n) { y[0] = N; }
}
__global__ void mangled(float *y, const float *x, int n) { y[0] = x[0]; }
__device__ void helper(float *y, const float *x, int n) { y[0] = x[0]; }
extern "C" __global__ void unmangled(float *y, const float *x, int n) { helper(y, x, n); }
"""
Y, X = array("y", "float32", ["n"], "out"), array("x", "float32", ["n"])
PARAMETERS = {"threads": [64, 128], "FACTOR": [3]}


def of(folder: Path, kernel: str, code: str = ADD, language: str = "cuda", **changes: Any) -> Path:
    more = {"block": [64], "grid": [1], "parameters": PARAMETERS, **changes}
    return written(folder, code, [Y, X], "x", language, kernel=kernel, **more)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kernel", "entry"),
    [
        ("add<float, {threads}, true>", "_Z3addIfLi128ELb1EEvPT_PKS0_i"),
        ("add<double, {threads} / 2, {twice}>", "_Z3addIdLi64ELb0EEvPT_PKS0_i"),
        ("ns::inner<{threads}>", "_ZN2ns5innerILi128EEEvPfPKfi"),
        ("ns::plain", "_ZN2ns5plainEPfPKfi"),
        ("mangled", "_Z7mangledPfPKfi"),
        ("unmangled", "unmangled"),
    ],
)
def test_a_name_of_cpp_is_built_cached_and_found_by_every_export(
    kernel: str, entry: str, tmp_path: Path, tune: Tune
) -> None:
    default = {"threads": 128, "FACTOR": 3, "twice": False}
    file = of(tmp_path, kernel, parameters={**PARAMETERS, "twice": [True, False]}, default=default)
    space, compiler = catalog.load(str(file)), NvrtcCompiler("sm_90a")
    scope = Scope({"n": 100}, {}, "cuda", COMMON_GPU)
    built, again = (build(compiler, Instance(space, default, scope)) for _ in range(2))
    (fresh,), (cached,), (step,) = built.builds.values(), again.builds.values(), built.steps
    assert (cached.fresh, cached.binary, cached.figures) == (False, fresh.binary, fresh.figures)
    assert {made.entry(step.kernel) for made in (fresh, cached)} == {entry}
    assert (built.figures.registers or 0) > 0, "the compiler's report is read under that name"
    (made,) = bundle(tune, tmp_path / "b", str(file), "100", "--architecture", "sm_90a")["builds"]
    assert made["steps"][0]["entry"] == entry
    assert f'.file = "sm_90a.cubin", .kernel = "{entry}",' in (tmp_path / "b" / "launch.h").read_text()
    assert tune("export", file, "100", "--to", "header", "--output", tmp_path / "f.h").status == 0
    spelt = re.search(r"#define \w+_F_KERNEL (.*)", (tmp_path / "f.h").read_text())
    assert (spelt[1] if spelt else kernel) == step.kernel


@pytest.mark.slow
def test_a_chosen_type_stands_in_a_name_as_the_language_calls_it(tmp_path: Path, tune: Tune) -> None:
    file = of(tmp_path, "add<{real}, {threads}, false>")
    space = yaml.safe_load(file.read_text())
    space["operation"]["types"] = {"real": ["float32", "float16"]}
    for argument in space["operation"]["arguments"][:2]:
        argument["dtype"] = "real"
    file.write_text(yaml.safe_dump(space))
    arguments = [str(file), "100", "--architecture", "sm_90a"]
    made = [bundle(tune, tmp_path / t, *arguments, "--type", f"real={t}")["builds"][0] for t in ("float32", "float16")]
    assert [b["steps"][0]["entry"] for b in made] == [
        "_Z3addIfLi64ELb0EEvPT_PKS0_i",
        "_Z3addI6__halfLi64ELb0EEvPT_PKS1_i",
    ]
    assert tune("validate", file, "--type", "real=float16").status == 0


def test_what_a_template_takes_is_no_macro(tmp_path: Path) -> None:
    code = ADD.replace("int N", "int threads").replace("N]", "threads]").replace("* N", "* threads")
    code = code.replace("= N", "= threads")
    space = catalog.load(str(of(tmp_path, "add<float, {threads}, true>", code)))
    scope = Scope({"n": 9}, {}, "cuda", COMMON_GPU)
    built = build(NvrtcCompiler("sm_90a"), Instance(space, {"threads": 64, "FACTOR": 3}, scope))
    assert "#define FACTOR 3\n" in built.steps[0].source.text
    assert "#define threads" not in built.steps[0].source.text


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        ("add<float, {threads}>", "no kernel 'add<float, 64>': cannot determine which instance of function template"),
        ("helper", "function; it defines add<...>, mangled, ns::inner<...>, ns::plain, unmangled"),
        (
            "inner<{threads}>",
            "kernel: inner is in a namespace of f.cu; write ns::inner<{threads}>",
        ),
    ],
)
def test_a_build_without_the_kernel_is_one_message_that_lists_what_there_is(
    kernel: str, message: str, tmp_path: Path, tune: Tune
) -> None:
    file = of(tmp_path, kernel)
    done = tune("export", file, "100", "--to", "cubin", "--architecture", "sm_90a", "--output", tmp_path / "b")
    assert (done.status, done.out, len(done.err.splitlines())) == (2, "", 1)
    assert message in done.err
    assert not (tmp_path / "b").exists()


TWO = """
#include "portable.h"
KERNEL void add_1(GLOBAL float *y, GLOBAL const float *x, int n) { y[threadIdx.x] = x[threadIdx.x] + width - 1; }
KERNEL void add_2(GLOBAL float *y, GLOBAL const float *x, int n) { y[threadIdx.x] = x[threadIdx.x] + width - 2; }
"""
TWO_IN_C = "".join(
    f"void add_{w}(float *y, const float *x, int n) {{ for (int i = 0; i < n; i++) y[i] = x[i] + {w} - WIDTH; }}\n"
    for w in (1, 2)
)


@pytest.mark.slow
@pytest.mark.parametrize(("language", "device", "code"), [("opencl", "opencl", TWO), ("c", "host", TWO_IN_C)])
def test_the_name_of_a_kernel_and_an_option_may_say_a_parameter(
    language: str, device: str, code: str, tmp_path: Path, tune: Tune, opencl: Any, host: Device
) -> None:
    geometry = {} if language == "c" else {"grid": [1], "block": ["n"]}
    options = {"c": ["-DWIDTH={width}"]}
    file = written(
        tmp_path, code, [Y, X], "x", language, kernel="add_{width}", parameters={"width": [1, 2]},
        compile_options=options, **geometry,
    )  # fmt: skip
    done = tune(file, "64", "--device", device, "--json")
    assert (done.status, done.json["failed"], done.json["evaluated"]) == (0, {}, 2), done.err
    for width in (1, 2):
        kernel = tuner.load(file, 64, device=opencl if device == "opencl" else host, config={"width": width})
        x, y = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
        if device == "opencl":
            queue = opencl.queue
            from pyopencl import array as opencl_array

            there = opencl_array.to_device(queue, y)
            kernel(there, opencl_array.to_device(queue, x))
            y = there.get()
        else:
            kernel(y, x)
        assert np.array_equal(x, y)


MISSING = {
    "host": (
        "c",
        ': a kernel in C is neither static nor inline; in C++, it is extern "C"; it defines ',
        "#define TWO(name) void name(float *y, const float *x, int n) { y[0] = x[0]; }\nTWO(g)\nstatic TWO(f)",
    ),
    "opencl": (
        "opencl",
        "; it defines ",
        "__kernel void g_f(__global float *y, int n) { y[0] = n; }\nvoid f(__global float *y) { y[0] = 1; }",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("device", MISSING)
def test_a_build_of_other_languages_without_the_kernel_lists_what_there_is(
    device: str, tmp_path: Path, tune: Tune
) -> None:
    language, said, code = MISSING[device]
    more = {} if language == "c" else {"grid": [1], "block": [1]}
    file = written(tmp_path, code, [Y, X], "x", language, **more)
    done = tune(file, "64", "--device", device)
    assert (done.status, done.out) == (1, "")
    assert f"the source has no kernel 'f'{said}" in done.err


def test_a_kernel_in_opencl_with_the_name_of_a_built_in_function_asks_for_another_name(
    tmp_path: Path, tune: Tune
) -> None:
    code = "__kernel void step(__global float *y, __global const float *x, int n) { y[0] = x[0]; }"
    file = written(tmp_path, code, [Y, X], "x", "opencl", kernel="step", grid=[1], block=[1])
    done = tune("validate", file, "64", "--compile")
    assert done.status == 2
    assert re.search("no kernel 'step': OpenCL C has a function of this name, .* it '.*_step'; rename it", done.err)


@pytest.mark.slow
def test_a_kernel_that_gives_the_answers_has_no_options_that_say_parameters(tmp_path: Path, tune: Tune) -> None:
    (tmp_path / "common").mkdir()
    (tmp_path / "common/naive.h").write_text(
        "void naive(float *y, const float *x, int n) { NAIVE_LOOP y[i] = x[i]; }\n"
    )
    code = "#define NAIVE_LOOP for (int i = 0; i < n; i++)\n#include <naive.h>\n"
    code += "void f(float *y, const float *x, int n) { naive(y, x, n); y[0] += WIDTH - width; }\n"
    code = f"#ifndef WIDTH\n#define WIDTH 0\n#endif\n#ifndef width\n#define width 0\n#endif\n{code}"
    file = written(
        tmp_path, code, [Y, X], {"kernel": "naive"}, parameters={"width": [1, 2]}, include=["common"],
        compile_options={"c": ["-DWIDTH={width}"]},
    )  # fmt: skip
    assert tune("validate", file).status == 0
    done = tune(file, "64", "--device", "host", "--json")
    assert (done.status, done.json["failed"], done.json["evaluated"]) == (0, {}, 2), done.err


@pytest.mark.slow
def test_an_option_that_says_a_parameter_makes_another_build(tmp_path: Path) -> None:
    parameters = {"registers": [16, 32], "FACTOR": [1]}
    options = {"cuda": ["-maxrregcount={registers}", "-DALSO={registers}"]}
    code = 'extern "C" __global__ void f(float *y, const float *x, int n) { y[0] = registers + ALSO + FACTOR; }'
    space = catalog.load(str(of(tmp_path, "f", code, parameters=parameters, compile_options=options)))
    scope = Scope({"n": 9}, {}, "cuda", COMMON_GPU)
    configs = [{"registers": registers, "FACTOR": 1} for registers in (16, 32)]
    made = [build(NvrtcCompiler("sm_90a"), Instance(space, config, scope)).steps[0].source for config in configs]
    assert [source.options[0] for source in made] == ["-maxrregcount=16", "-maxrregcount=32"]
    assert made[0].digest != made[1].digest


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "a template for OpenCL": (
        {"kernel": "add<{threads}>", "languages": ["cuda", "opencl"]},
        "kernel: 'add<{threads}>': templates and namespaces are for cuda only",
    ),
    "a namespace for C": ({"kernel": "ns::plain", "languages": ["c"]}, "are for cuda only, and the languages are c"),
    "a name that is none": ({"kernel": "add()"}, "kernel: 'add()' is not the name of a kernel"),
    "a line of its own": ({"kernel": "add<1>\n#include"}, "is not the name of a kernel"),
    "braces without a parameter": (
        {"kernel": "mangled{thread}"}, "{thread} names no parameter, derived value or type: unknown "
        "name 'thread'; did you mean threads?",
    ),
    "an option's braces without a parameter": (
        {"compile_options": {"cuda": ["-maxrregcount={regs}"]}},
        "compile_options.cuda.0: '-maxrregcount={regs}': {regs} names no",
    ),
    "a brace alone": ({"compile_options": {"cuda": ["-DX={"]}}, "unmatched brace"),
    "a name of a negative number": (
        {"kernel": "f_{threads}", "parameters": {"threads": [-1]}}, "kernel: 'f_-1' is not the name of a kernel"
    ),
    "a folder as an option": (
        {"compile_options": {"cuda": ["-I../common"]}}, "name folders of your own headers in `include:`"
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_a_name_that_cannot_be_is_one_message(what: str, tmp_path: Path, tune: Tune) -> None:
    changes, message = REFUSED[what]
    file = of(tmp_path, **{"kernel": "mangled", "source": "f.cu", **changes}, code=ADD + "__global__ void f_1() {}")
    done = tune("validate", file)
    assert (done.status, done.out, len(done.err.splitlines())) == (2, "", 1)
    assert message in done.err
