"""Threads that grow with a parameter which no index uses are warned of; every other use of threads is not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from helpers.operations import array, written
from helpers.processes import Tune
from tuner import devices, paths
from tuner.catalog import catalog
from tuner.space import chosen_types
from tuner.space.scope import COMMON_GPU, Scope
from tuner.space.sources.checks import surplus_threads

ARGUMENTS = [array("y", "float32", ["n"], "out"), array("x", "float32", ["n"])]
CUDA = 'extern "C" __global__ void f(float *y, const float *x, int n) {{\n{}\n}}\n'
OPENCL = "__kernel void f(__global float *y, __global const float *x, int n) {{\n{}\n}}\n"
PORTABLE = '#include "portable.h"\nKERNEL void f(GLOBAL float *y, GLOBAL const float *x, int n) {{\n{}\n}}\n'
GUARDED = "int i = {};\nif (i < n) y[i] = 2 * x[i];"
GLOBAL_INDEX = GUARDED.format("blockIdx.x * blockDim.x + threadIdx.x")
SPACE: dict[str, Any] = {"parameters": {"block": [64, 256, 1024]}, "grid": ["ceil_div(n, 64)"], "block": ["block"]}
DIVIDED = {"grid": ["ceil_div(n, block)"]}


def of(folder: Path, code: str, language: str = "cuda", **more: Any) -> Path:
    return written(folder, code, ARGUMENTS, "2 * x", language, **{**SPACE, **more})


SURPLUS: dict[str, tuple[str, dict[str, Any], str]] = {
    "a grid that no block divides": (CUDA.format(GLOBAL_INDEX), {}, "16,384 threads in x at block=1024, 1,024 at"),
    "a macro": (CUDA.format(GUARDED.format("threadIdx.x + block * blockIdx.x")), {}, "at block=1024"),
    "a macro with a default": (
        "#ifndef block\n#define block 64\n#endif\n" + CUDA.format(GUARDED.format("(blockIdx.x * block) + threadIdx.x")),
        {}, "at block=1024",
    ),
    "variables": (
        CUDA.format(
            "const int tx = threadIdx.x, bx = blockIdx.x;\nsize_t i = (size_t)bx * blockDim.x + tx;\n"
            "if (i >= n) return;\ny[i] = x[i];"
        ), {}, "at block=1024",
    ),
    "a template": (
        "template <int B> __global__ void f(float *y, const float *x, int n) {\n"
        + GUARDED.format("blockIdx.x * B + threadIdx.x") + "\n}\n",
        {"kernel": "f<{block}>"}, "at block=1024",
    ),
    "a macro for the index": (
        "#define INDEX (blockIdx.x * blockDim.x + threadIdx.x)\n" + CUDA.format(GUARDED.format("INDEX")), {}, "=1024",
    ),
    "a function for the index": (
        "__device__ int wide() { return blockDim.x; }\n"
        "__device__ __forceinline__ int index(void) { return blockIdx.x * wide() + threadIdx.x; }\n"
        + CUDA.format(GUARDED.format("index()")), {}, "at block=1024",
    ),
    "OpenCL": (OPENCL.format(GUARDED.format("get_global_id(0)")), {"language": "opencl"}, "no index of f uses block"),
    "OpenCL by groups": (
        OPENCL.format(GUARDED.format("get_group_id(0) * get_local_size(0) + get_local_id(0)")), {"language": "opencl"},
        "no index of f uses block",
    ),
    "both": (PORTABLE.format(GLOBAL_INDEX), {"languages": ["cuda", "opencl"]}, "no index of f uses block"),
    "another axis": (
        CUDA.format("int i = blockIdx.y * blockDim.y + threadIdx.y;\nif (i < n && threadIdx.x == 0) y[i] = x[i];"),
        {"grid": [1, "n // 8"], "block": [32, "rows"], "parameters": {"rows": [1, 8, 32]}},
        "4,096 threads in y at rows=32, 128 at rows=1",
    ),
    "an axis that nothing reads": (
        CUDA.format(GLOBAL_INDEX),
        {**DIVIDED, "grid": ["ceil_div(n, block)", "splits"], "parameters": {"block": [64, 128], "splits": [1, 2, 8]}},
        "8 threads in y at splits=8, 1 at splits=1",
    ),
    "threads of a block that nothing reads": (
        CUDA.format(GLOBAL_INDEX),
        {**DIVIDED, "block": ["block", "rows"], "parameters": {"block": [64, 128], "rows": [1, 4, 8]}},
        "8 threads in y at rows=8, 1 at rows=1",
    ),
    "beside a kernel that strides": (
        CUDA.format(GLOBAL_INDEX) + 'extern "C" __global__ void g(float *y, int n) '
        "{ for (int i = threadIdx.x; i < n; i += blockDim.x) y[i] = 0; }", {},
        "at block=1024",
    ),
}  # fmt: skip
NONE: dict[str, tuple[str, dict[str, Any]]] = {
    "a function for the thread": (
        "__device__ int lane() { return threadIdx.x; }\n"
        "__device__ int of(int k) { if (k) return threadIdx.x; return 0; }\n"
        + CUDA.format(GUARDED.format("blockIdx.x * blockDim.x + lane() + 0 * of(n)")), {},
    ),
    "a grid that the block divides": (CUDA.format(GLOBAL_INDEX), DIVIDED),
    "a stride of the grid": (
        CUDA.format(
            "for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) y[i] = 2 * x[i];"
        ), {},
    ),
    "a stride in a macro of two compilers": (
        "#if defined(__OPENCL_VERSION__) || defined(__CUDACC__)\n#define FIRST blockIdx.x * blockDim.x + threadIdx.x\n"
        "#define ALL gridDim.x * blockDim.x\n#else\n#define FIRST 0\n#define ALL 1\n#endif\n"
        + CUDA.format("for (int i = FIRST; i < n; i += ALL) y[i] = 2 * x[i];"), {},
    ),
    "a stride in a macro": (
        CUDA.format("for (int i = blockIdx.x * block + threadIdx.x; i < n; i += STRIDE) y[i] = 2 * x[i];"),
        {"derived": {"STRIDE": "block * ceil_div(n, 64)"}},
    ),
    "a stride in an argument": (
        CUDA.replace("int n)", "int n, int stride)").format(
            "for (int i = blockIdx.x * block + threadIdx.x; i < n; i += stride) y[i] = 2 * x[i];"
        ), {"value": "block * 16"},
    ),
    "OpenCL's stride": (
        OPENCL.format("for (int i = get_global_id(0); i < n; i += get_global_size(0)) y[i] = 2 * x[i];"),
        {"language": "opencl"},
    ),
    "a block for each row": (
        CUDA.format("x += blockIdx.x * 64;\nfor (int i = threadIdx.x; i < 64; i += blockDim.x) y[i] = 2 * x[i];"),
        {},
    ),
    "several elements a thread": (
        CUDA.format(
            "int first = (blockIdx.x * blockDim.x + threadIdx.x) * items;\n"
            "for (int i = first; i < first + items; i++) if (i < n) y[i] = 2 * x[i];"
        ),
        {"grid": ["ceil_div(n, block * items)"], "parameters": {"block": [64, 128], "items": [1, 2, 8]}},
    ),
    "lanes of an element": (
        CUDA.format(
            "int i = blockIdx.x * blockDim.x + threadIdx.x, row = i / lanes;\n"
            "if (row < n && i % lanes == 0) y[row] = 2 * x[row];"
        ),
        {"grid": ["ceil_div(n * lanes, block)"], "parameters": {"block": [64, 128], "lanes": [1, 4, 32]}},
    ),
    "an axis of a group": (
        "#include <cooperative_groups.h>\n" + CUDA.format(
            "auto block_ = cooperative_groups::this_thread_block(); int i = blockIdx.x * 64 + block_.thread_rank();\n"
            "if (i < n) y[i] = x[i];"
        ), {},
    ),
    "an index handed on": (
        "__device__ int at(uint3 t) { return t.x; }\n"
        + CUDA.format("int i = blockIdx.x * 64 + at(threadIdx) % 64;\nif (i < n) y[i] = x[i];"), {},
    ),
    "a block that rounds up": (CUDA.format(GLOBAL_INDEX), {**DIVIDED, "sizes": {"n": 10}}),
    "no bound": (CUDA.format("int i = blockIdx.x * blockDim.x + threadIdx.x;\natomicAdd(&y[i % n], x[i % n]);"), {}),
}  # fmt: skip


@pytest.mark.parametrize("what", SURPLUS)
def test_threads_that_do_nothing_are_warned_of(what: str, tmp_path: Path, tune: Tune) -> None:
    code, more, message = SURPLUS[what]
    done = tune("validate", of(tmp_path, code, **more), "--json")
    assert done.status == 0, done.err
    assert len(done.json["warnings"]) == 1
    assert done.err == f"warning: {done.json['warnings'][0]}\n"
    assert "f.yaml: grid: " in done.err
    assert message in done.err


@pytest.mark.parametrize("what", NONE)
def test_threads_that_work_are_not(what: str, tmp_path: Path, tune: Tune) -> None:
    code, more = NONE[what]
    file = of(tmp_path, code, **{key: value for key, value in more.items() if key != "value"})
    if "value" in more:
        stride = f"  - {{name: stride, dtype: int32, value: '{more['value']}'}}\n"
        file.write_text(file.read_text().replace("  reference:", f"{stride}  reference:", 1))
    done = tune("validate", file, "--json")
    assert (done.status, done.err, done.json["warnings"]) == (0, "", [])


@pytest.mark.slow
def test_a_search_warns_before_it_measures(tmp_path: Path, tune: Tune) -> None:
    code, more, message = SURPLUS["OpenCL"]
    file = of(tmp_path, code, **more)
    done = tune(file, "1000", "--device", "opencl", "--budget", "2", "--repeats", "3", "--json")
    assert done.status == 0, done.err
    assert f"warning: {file}: grid: " in done.err
    assert any(message in warning for warning in done.json["warnings"])


@pytest.mark.slow
def test_no_shipped_space_is_warned_of() -> None:
    for file in paths.shipped("spaces").rglob("*.yaml"):
        if file.name == "operation.yaml":
            continue
        space = catalog.load(str(file))
        sizes = {name: 1024 if given is None else given for name, given in space.operation.sizes.items()}
        types = chosen_types.defaults(space.operation)
        scopes = [(language, COMMON_GPU) for language in space.languages]
        scopes += [("cuda", limits) for limits in devices.common_limits() if "cuda" in space.languages]
        problems = (Scope(sizes, space.operation.options, language, limits, types) for language, limits in scopes)
        assert list(surplus_threads.warnings(space, *problems)) == []
