"""Where a space and its source do not agree, `tune validate` refuses it, and `tune` says so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from helpers.operations import array, written
from helpers.processes import Tune

CODE = """
#include "portable.h"
KERNEL void f(GLOBAL float *y, GLOBAL const int *x, int n) {
    if (threadIdx.x < n) y[threadIdx.x] = x[threadIdx.x] * SCALE;
}
"""
Y, X = array("y", "float32", ["n"], "out"), array("x", "int32", ["n"])
SPACE: dict[str, Any] = {"grid": [1], "block": [32], "parameters": {"SCALE": [2, 3]}, "language": "opencl"}


def of(folder: Path, code: str = CODE, arguments: list[dict[str, Any]] | None = None, **changes: Any) -> Path:
    return written(folder, code, arguments or [Y, X], "full(n, 2.0)", **{**SPACE, **changes})


CUDA: dict[str, Any] = {"languages": ["cuda"]}
DYNAMIC = """
__global__ void f(float *y, const int *x, int n) {
    extern __shared__ float part[];
    part[threadIdx.x] = x[threadIdx.x] * SCALE;
    y[threadIdx.x] = part[threadIdx.x];
}
"""
FILTER = "__constant__ float w[3][2];\n" + CODE
W = array("w", "float32", [7], kind="constant")

# what does not agree: (code, arguments, other keys, key, message)
FAULTS: dict[str, tuple[str, list[dict[str, Any]], dict[str, Any], str, str]] = {
    "an argument too few": (
        CODE, [Y], {}, "operation.arguments", "2 arguments (y, n); f in f.cu takes 3 (float *y, int *x, int n)"
    ),
    "an argument too many": (
        CODE, [Y, X, array("z", "int32", ["n"])], {}, "operation.arguments", "4 arguments (y, x, z, n)"
    ),
    "another type": (
        CODE, [Y, {**X, "dtype": "float32"}], {}, "operation.arguments.1.dtype",
        "x: f in f.cu takes `int *x` here, which is not float32; write int32",
    ),
    "another width": (CODE, [Y, {**X, "dtype": "int64"}], {}, "operation.arguments.1.dtype", "not int64; write int32"),
    "another sign": (
        CODE.replace("const int", "const unsigned int"), [Y, X], {}, "operation.arguments.1.dtype", "write uint32"
    ),
    "elements of a vector": (
        CODE.replace("const int", "const float4"), [Y, X], {}, "operation.arguments.1.dtype", "write float32"
    ),
    "a scalar for an array": (
        CODE, [Y, {"name": "x", "dtype": "int32", "value": 1}], {}, "operation.arguments.1",
        "takes `int *x` here, an array; write its `shape` and `role`",
    ),
    "an array for a scalar": (
        CODE.replace("const int *x", "const int x"), [Y, X], {}, "operation.arguments.1",
        "takes `int x` here, a scalar; remove `shape` and `role`",
    ),
    "a pair for one number": (
        CODE.replace("const int", "const float2"), [Y, X], {}, "operation.arguments.1.dtype",
        "not int32; write complex64, or float32 with 2 as the last extent of its shape",
    ),
    "a pair for a wider one": (
        CODE.replace("const int", "const double2"), [Y, {**X, "dtype": "complex64"}], {}, "operation.arguments.1.dtype",
        "not complex64; write complex128, or float64 with 2 as the last extent",
    ),
    "an array of arrays": (
        CODE.replace("const int *x", "const float (*x)[4]"), [Y, X], {}, "operation.arguments.1.dtype", "write float32"
    ),
    "an entry point that is not there": (
        CODE, [Y, X], {"kernel": "g"}, "kernel",
        "f.cu has no entry point 'g'; it defines f",
    ),
    "a parameter that nothing uses": (
        CODE, [Y, X], {"parameters": {"SCALE": [2], "SCAEL": [1, 2]}}, "parameters.SCAEL",
        "neither f.cu nor an expression uses it",
    ),
    "a parameter in a comment alone": (
        CODE + "// unroll", [Y, X], {"parameters": {"SCALE": [2], "unroll": [1, 2]}}, "parameters.unroll",
        "neither f.cu",
    ),
    "a parameter that the source defines anew": (
        "#define SCALE(a) a\n" + CODE, [Y, X], {}, "parameters.SCALE", "f.cu defines it with arguments, so its values"
    ),
    "a parameter of the name of an argument": (
        CODE, [Y, X], {"parameters": {"SCALE": [2], "y": [1, 2]}}, "parameters.y", "takes an argument of this name"
    ),
    "a parameter that is a word of C": (
        CODE, [Y, X], {"parameters": {"SCALE": [2], "float": [1]}}, "parameters.float", "a reserved word of C"
    ),
    "a template's parameter as a macro": (
        "template <int SCALE, int M> __global__ void f(float *y, const int *x, int n) {}", [Y, X],
        {"languages": ["cuda"]}, "kernel", "which a macro would replace; write f<{SCALE}, {M}>",
    ),
    "a grid divisor without an extent": (
        CODE, [Y, X], {"grid_divisors": {"y": ["SCALE"]}, "grid": None}, "grid_divisors.y", "has no extent in y"
    ),
    "a scalar that is two numbers": (
        CODE.replace("int n)", "float2 n)"), [Y, X], {}, "operation.arguments.2.dtype",
        "which is not int32; write complex64 if it is a complex number, else float2 with 2 values",
    ),
    "a pointer to pointers": (
        CODE.replace("const int *x", "const int *const *x"), [Y, X], {}, "operation.arguments.1.dtype",
        "takes `int **x` here, a pointer to pointers; pass one array",
    ),
    "a kernel in a namespace": (
        f"namespace mine {{ namespace inner {{ {DYNAMIC} }} }}", [Y, X], {**CUDA, "shared_memory": 128}, "kernel",
        "f is in a namespace of f.cu; write mine::inner::f",
    ),
    "a kernel that is not there in a namespace that is": (
        f"namespace mine {{ {DYNAMIC} }}", [Y, X], {**CUDA, "kernel": "mine::g"}, "kernel", "it defines mine::f"
    ),
    "more than a variable of constant memory has": (
        FILTER, [Y, X, W], CUDA, "operation.arguments.2.shape",
        "[7] exceeds the source's variable w[3][2]; write its extents",
    ),
    "more numbers than the vectors of constant memory have": (
        FILTER.replace("float w", "float2 w"), [Y, X, {**W, "shape": [13]}], CUDA, "operation.arguments.2.shape",
        "[13] exceeds the source's variable w[3][2] of float2; write its extents",
    ),
    "a parameter that is misspelt": (
        CODE, [Y, X], {"parameters": {"SCAEL": [1, 2]}}, "parameters.SCAEL",
        "so its 2 values make no difference; did you mean SCALE, which the source reads? Otherwise use it as a macro",
    ),
    "a default by the name that the source has": (
        CODE, [Y, X], {"parameters": {"SCAEL": [1, 2]}, "default": {"SCALE": 1}}, "default.SCALE",
        "unknown name 'SCALE'; f.cu uses it, but not the parameter SCAEL: write SCALE under `parameters:`",
    ),
    "an expression with the name that the source has": (
        CODE, [Y, X], {"parameters": {"SCAEL": [1, 2]}, "block": ["32 * SCALE"]}, "block.0",
        "`32 * SCALE`: unknown name 'SCALE'; f.cu uses it",
    ),
    "a derived value that the kernel declares": (
        CODE.replace("    if", "    int threads = 32;\n    if"), [Y, X], {"derived": {"threads": "SCALE * 32"}},
        "derived.threads", "f.cu or a header of it declares `int threads`, but the macro replaces this name",
    ),
    "a derived value that a function is called": (
        "float* threads(int i);\n" + CODE, [Y, X], {"derived": {"threads": "SCALE * 32"}}, "derived.threads",
        "f.cu or a header of it declares `float threads`",
    ),
    "a scalar that OpenCL C forbids": (
        CODE.replace("int n)", "bool late, int n)"), [Y, X, {"name": "late", "dtype": "bool", "value": 1}], {},
        "operation.arguments.2", "takes `bool late` here, a type that OpenCL C forbids for arguments of kernels; write "
        "unsigned char in the source",
    ),
    "a scalar that OpenCL C forbids, of another type": (
        CODE.replace("int n)", "const size_t n)"), [Y, X], {}, "operation.arguments.2", "write unsigned long in the"
    ),
    "a scalar that OpenCL C forbids, by another name": (
        "typedef ptrdiff_t count;\n" + CODE.replace("int n)", "count n)"), [Y, X], {}, "operation.arguments.2",
        "takes `count n` here, a type that OpenCL C forbids for arguments of kernels; write long in the source",
    ),
    "a header that is missing": (
        '#include "mine.h"\n' + CODE, [Y, X], {}, "source", '#include "mine.h" is not in'
    ),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_what_does_not_agree_is_one_message_with_file_line_and_key(fault: str, tmp_path: Path, tune: Tune) -> None:
    code, arguments, changes, key, message = FAULTS[fault]
    file = of(tmp_path, code, arguments, **changes)
    done = tune("validate", file)
    assert (done.status, done.out, len(done.err.splitlines())) == (2, "", 1), done.err
    assert done.err.startswith(f"error: {file}:")
    assert f" {key}: " in done.err
    assert message in done.err


@pytest.mark.parametrize(
    "fault",
    [
        "an argument too few",
        "a scalar for an array",
        "an array for a scalar",
        "another width",
        "a scalar that is two numbers",
        "a pointer to pointers",
    ],
)
def test_what_could_not_be_launched_is_refused_before_it_is_tuned(fault: str, tmp_path: Path, tune: Tune) -> None:
    code, arguments, changes, key, message = FAULTS[fault]
    file = of(tmp_path, code, arguments, **changes)
    done = tune(file, "100", "--device", "opencl")
    assert (done.status, done.out, len(done.err.splitlines())) == (2, "", 1), done.err
    assert f" {key}: " in done.err
    assert message in done.err


@pytest.mark.slow
def test_a_disagreement_that_stays_within_the_arrays_is_tuned(tmp_path: Path, tune: Tune) -> None:
    code, small = CODE.replace("const int", "const unsigned int"), {**X, "fill": {"integers": [1, 8]}}
    file = written(tmp_path, code, [Y, small], "2 * x", **{**SPACE, "parameters": {"SCALE": [2]}})
    assert "write uint32" in tune("validate", file).err
    done = tune(file, "32", "--device", "opencl", "--repeats", "3")
    assert done.status == 0, done.err


@pytest.mark.slow
def test_a_search_warns_first_of_what_makes_no_difference_and_names_the_file_from_here(
    tmp_path: Path, tune: Tune, monkeypatch: pytest.MonkeyPatch
) -> None:
    parameters = {"SCALE": [2], "SCAEL": [1, 2]}
    file = written(tmp_path, CODE, [Y, X], "2 * x", **{**SPACE, "parameters": parameters})
    monkeypatch.chdir(file.parent)
    done = tune(file.name, "32", "--device", "opencl", "--repeats", "3")
    assert done.status == 0, done.err
    assert done.err.startswith(f"warning: {file.name}: parameters.SCAEL: neither f.cu nor an expression uses it")


SIGNATURE = "f(GLOBAL float *y, GLOBAL const int *x, int n)"
OPEN = {
    "types by a macro": CODE.replace("const int", "const number").replace("KERNEL", "#define number short\nKERNEL", 1),
    "a word that a macro gives another meaning": CODE.replace("KERNEL", "#define int short\nKERNEL", 1),
    "a type by another name": CODE.replace("const int *x", "ints x").replace("KERNEL", "typedef int *ints;\nKERNEL", 1),
    "a list by a macro": CODE.replace(SIGNATURE, "f(ALL)").replace(
        "KERNEL", f"#define ALL {SIGNATURE[2:-1]}\nKERNEL", 1
    ),
    "a pointer by a macro": CODE.replace("GLOBAL const int *x", "TO(short) x").replace(
        "KERNEL", "#define TO(type) GLOBAL type *\nKERNEL", 1
    ),
    "a kernel by a macro": '#include "portable.h"\n#define MAKE(name) KERNEL void name(int a) { a += SCALE; }\nMAKE(f)',
    "parameters under a condition": CODE.replace("int n)", "\n#ifdef MORE\nint m,\n#endif\nint n)"),
    "a kernel under a condition": CODE.replace(
        "KERNEL", "#if SCALE > 5\nKERNEL void f(GLOBAL float *y) { }\n#else\nKERNEL", 1
    )
    + "#endif\n",
    "names glued together": CODE.replace("SCALE", "GLUE(SC, ALE)") + "#define GLUE(a, b) a##b\n",
}


@pytest.mark.parametrize("what", OPEN)
def test_from_what_the_text_leaves_open_nothing_is_concluded(what: str, tmp_path: Path, tune: Tune) -> None:
    done = tune("validate", of(tmp_path, OPEN[what]))
    assert (done.status, done.err) == (0, "")


AGREE: dict[str, tuple[str, dict[str, Any]]] = {
    "masks and counts in arrays": ("#ifdef MORE\ntypedef size_t many;\n#endif\n" + CODE, {}),
    "a default of the source": ("#ifndef SCALE\n#define SCALE 4\n#endif\n" + CODE, {}),
    "a definition that depends": ("#if SCALE > 2\n#undef SCALE\n#define SCALE 4\n#endif\n" + CODE, {}),
    "as it should be": (CODE, {}),
    "a constant that depends": ("#ifndef SCALE\nconstexpr int SCALE = 4;\n#endif\n" + CODE, {}),
    "a namespace that is used": (f"namespace mine {{ {DYNAMIC} }} using mine::f;", {**CUDA, "shared_memory": 128}),
    "a namespace by its name": (f"namespace mine {{ {DYNAMIC} }}", {**CUDA, "kernel": "mine::f", "shared_memory": 9}),
    "a namespace that adds nothing": (f"inline namespace v1 {{ namespace {{ {CODE} }} }}", {}),
    "dynamic shared memory under a condition": (
        DYNAMIC.replace("    extern", "#if SCALE > 3\n    extern")
        .replace("    y[", "#endif\n    y[")
        .replace("= part", "= x"),
        CUDA,
    ),
    "dynamic shared memory that is not used": (DYNAMIC.replace("part[threadIdx.x]", "y[1]"), CUDA),
    "dynamic shared memory that the file says is none": (DYNAMIC, {**CUDA, "shared_memory": 0}),
    "a scalar of another sign": (CODE.replace("int n", "unsigned n"), {}),
    "a vector of the type": (CODE.replace("const int *", "const int4 *"), {}),
    "qualifiers everywhere": (CODE.replace("const int *x", "int const *__restrict__ const x"), {}),
    "a parameter in an expression": (CODE, {"parameters": {"SCALE": [2], "threads": [32, 64]}, "block": ["threads"]}),
    "a parameter in a restriction": (CODE, {"parameters": {"SCALE": [2], "m": [1, 2]}, "restrictions": ["m < n"]}),
    "a variable that depends": (CODE.replace("    if", "#ifndef SCALE\n    int SCALE = 4;\n#endif\n    if"), {}),
    "a cast before a parameter": (CODE.replace("* SCALE", "* (int) SCALE, (unsigned)(SCALE)"), {}),
    "a parameter of one value": (CODE, {"parameters": {"SCALE": [2], "version": [1]}}),
}


@pytest.mark.parametrize("what", AGREE)
def test_what_agrees_is_valid(what: str, tmp_path: Path, tune: Tune) -> None:
    code, changes = AGREE[what]
    done = tune("validate", of(tmp_path, code, **changes))
    assert (done.status, done.err) == (0, "")


def test_kernel_and_parameter_may_stand_in_a_header(tmp_path: Path, tune: Tune) -> None:
    (tmp_path / "own.h").write_text(CODE)
    file = of(tmp_path, '#include "own.h"\n')
    assert tune("validate", file).status == 0
    (tmp_path / "own.h").write_text(CODE.replace("const int *x", "const float *x"))
    assert "takes `float *x` here" in tune("validate", file).err


def test_a_fault_against_a_shared_operation_names_its_own_file(tmp_path: Path, tune: Tune) -> None:
    file = of(tmp_path, arguments=[Y, {**X, "dtype": "float32"}])
    space = yaml.safe_load(file.read_text())
    (tmp_path / "operation.yaml").write_text(yaml.safe_dump(space["operation"]))
    file.write_text(yaml.safe_dump({**space, "operation": "operation.yaml"}))
    done = tune("validate", file)
    assert done.err.startswith(f"error: {tmp_path / 'operation.yaml'}:")
    assert " arguments.1.dtype: x: " in done.err


@pytest.mark.parametrize("command", ["validate", "tune"])
def test_a_kernel_that_needs_dynamic_shared_memory_gets_some(command: str, tmp_path: Path, tune: Tune) -> None:
    file = of(tmp_path, DYNAMIC, **CUDA)
    done = tune(*(("validate", file) if command == "validate" else (file, "100")))
    assert (done.status, done.out, len(done.err.splitlines())) == (2, "", 1)
    assert done.err.startswith(f"error: {file}:1: no `shared_memory:`, and f in f.cu uses part, which is extern")
    assert "write the bytes per block, or 0 for none" in done.err


def test_a_variable_may_have_room_for_more_and_addresses_are_numbers(tmp_path: Path, tune: Tune) -> None:
    pointers = CODE.replace("const int *x", "const int *const *x").replace("= x[threadIdx.x] * SCALE", "= SCALE")
    vectors = FILTER.replace("float w", "const float4 w"), [Y, X, {**W, "shape": [3, 2, 4]}]
    structs = (
        f"struct S {{ int a, b; }}; {FILTER.replace('float w', 'S w')}",
        [Y, X, {**W, "dtype": "uint8", "shape": [48]}],
    )
    filters = (FILTER, [Y, X, {**W, "shape": [5]}]), vectors, structs
    for code, arguments in *filters, (pointers, [Y, {**X, "dtype": "uint64"}]):
        done = tune("validate", of(tmp_path, code, arguments, **CUDA))
        assert (done.status, done.err) == (0, "")
