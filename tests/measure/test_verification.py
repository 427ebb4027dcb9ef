"""Kernels broken by hand: verification must catch every one of them, on every kind of device."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from helpers.kernels import broken, outcome_of
from helpers.operations import array, written
from helpers.processes import Tune
from helpers.spaces import scope_of
from tuner.catalog import catalog
from tuner.devices import Device
from tuner.devices.base import GUARD
from tuner.errors import SpaceError, WrongResult
from tuner.measure.benchmark import Bench
from tuner.measure.bound import Bound
from tuner.measure.kernels.bench_kernels import BenchKernels
from tuner.measure.method import Method
from tuner.measure.verify.comparison import compare
from tuner.space.default import first_valid
from tuner.space.dtypes import DTYPES
from tuner.space.values.elements import Held

# what is broken: (stage, text, what it becomes)
GPU_FAULTS = {
    "no barrier before the multiplication": (
        "06_tiled",
        "        __syncthreads();\n        sum = multiply_tiles(",
        "        sum = multiply_tiles(",
    ),
    "no barrier after the multiplication": ("06_tiled", "        __syncthreads(); // nobody", "        // nobody"),
    "one product dropped, naive": ("03_naive", "for (int k = 0; k < K; k++)", "for (int k = 0; k < K - 1; k++)"),
    "first product dropped": ("02_naive_uncoalesced", "for (int k = 0;", "for (int k = 1;"),
    "one product dropped, tiled": (
        "06_tiled",
        "sum += row_a[k + u]",
        "sum += (k + u == tile_k - 1 ? 0.0f : 1.0f) * row_a[k + u]",
    ),
    "one product dropped in one output": (
        "07_tiled_1xn",
        "*c = SCALED(alpha, sum[i][j], beta, *c);",
        "*c = SCALED(alpha, sum[i][j] - (row == M / 2 && column == N / 2 ? A[(size_t)row * K] * B[column] : 0.0f), "
        "beta, *c);",
    ),
    "one row not written": ("03_naive", "row >= M ||", "row >= M || row == M / 2 ||"),
    "last column not written": ("06_tiled", "column < N) {\n        GLOBAL", "column < N - 1) {\n        GLOBAL"),
    "a row too many written": ("03_naive", "row >= M ||", "row > M ||"),
    "a column too many written": ("07_tiled_1xn", "row < M && column < N) {", "row < M && column <= N) {"),
    "the edge of A not padded": ("06_tiled", "row < M && k < K ? A", "row < M ? A"),
    "the edge of B not padded": ("07_tiled_1xn", "k < K && column < N ? B", "column < N ? B"),
    "beta ignored": ("03_naive", "SCALED(alpha, sum, beta, *C)", "alpha * sum"),
    "batch ignored": ("06_tiled", "B += b * K * N;", ""),
    "the stride of A taken for that of B": ("04_strided", "B_strides[last - 1]", "A_strides[last - 1]"),
    "sums not initialised": ("07_tiled_1xn", "    clear(sum);\n", "    clear(sum);\n    sum[0][0] = A[0];\n"),
}

HOST_FAULTS = {
    "one product dropped": ("00_host_simple", "k < K;", "k < K - 1;"),
    "one row not written": ("00_host_simple", "float sum = 0.0f;", "float sum = 0.0f; if (i == M / 2) continue;"),
    "a row too many written": ("00_host_simple", "i < M;", "i <= M;"),
    "ragged block cut off": ("01_host_blocked", "K - k0)", "K - k0 - 1)"),
    "beta ignored": ("01_host_blocked", "beta == 0.0f ? alpha * sum[i][j] :", "1 ? alpha * sum[i][j] :"),
}

RAGGED = "100x37x53,batch=2"
WRONG = {"wrong result", "not a number", "writes outside"}
# PoCL ends every pass of a loop that holds a barrier with one of its own, so there this one computes the right result.
NO_FAULT_ON_POCL = "no barrier after the multiplication"


@pytest.mark.slow
@pytest.mark.parametrize("fault", [fault for fault in GPU_FAULTS if fault != NO_FAULT_ON_POCL])
def test_a_broken_gpu_kernel_is_caught_on_opencl(fault: str, opencl: Device, tmp_path: Path) -> None:
    assert outcome_of(broken(*GPU_FAULTS[fault], tmp_path), opencl, RAGGED) in WRONG


@pytest.mark.gpu
@pytest.mark.parametrize("fault", GPU_FAULTS)
def test_a_broken_gpu_kernel_is_caught_on_cuda(fault: str, cuda: Device, tmp_path: Path) -> None:
    space = broken(*GPU_FAULTS[fault], tmp_path)
    size, config = RAGGED, None
    if "barrier" in fault:
        # A race is wrong only where warps drift apart: with these tiles it was in every one of many runs on an H200.
        size, config = "2048", {"block_size_x": 16, "block_size_y": 16, "tile_k": 64, "unroll_k": 8, "fixed_sizes": 0}
    assert outcome_of(space, cuda, size, config) in WRONG


@pytest.mark.slow
@pytest.mark.parametrize("fault", HOST_FAULTS)
def test_a_broken_host_kernel_is_caught(fault: str, host: Device, tmp_path: Path) -> None:
    assert outcome_of(broken(*HOST_FAULTS[fault], tmp_path), host, RAGGED) in WRONG


@pytest.mark.slow
def test_a_kernel_that_ruins_its_inputs_does_not_put_the_blame_on_the_next(host: Device, tmp_path: Path) -> None:
    ruins = broken("00_host_simple", "float sum = 0.0f;", "float sum = 0.0f; ((float *)A)[0] = 9.0f;", tmp_path)
    scope = scope_of(ruins, host, "20")
    bench = Bench(host, ruins, scope, Method(repeats=1))
    assert bench.measure({"openmp": 0}).failure == "wrong result"
    bench.space = catalog.load("sgemm/00_host_simple")
    host.fill(bench.workbench.buffers["A"].handle, 0, 4)
    assert bench.measure({"openmp": 0}).failure is None


def test_a_kernel_that_writes_into_an_input_after_reading_it_is_wrong(host: Device, tmp_path: Path) -> None:
    last = "c[j] = beta == 0.0f ? alpha * sum : alpha * sum + beta * c[j];"
    space = broken("00_host_simple", last, f"{last}\nif (i == M - 1 && j == N - 1) ((float *)B)[0] = 9.0f;", tmp_path)
    assert outcome_of(space, host, "20") == "writes to an input"


@pytest.mark.slow
@pytest.mark.parametrize("stage", ["03_naive"])
def test_the_same_on_a_device(stage: str, opencl: Device, tmp_path: Path) -> None:
    last = "    *C = SCALED(alpha, sum, beta, *C);\n"
    late = "    if (row == M - 1 && column == N - 1) ((GLOBAL float *)A)[K - 1] = 9.0f;\n"
    assert outcome_of(broken(stage, last, last + late, tmp_path), opencl, "20") == "writes to an input"


def test_an_integer_output_that_is_not_written_is_wrong(host: Device, tmp_path: Path) -> None:
    (tmp_path / "nothing.c").write_text("void nothing(int *y, const int *x, int n) { (void)y, (void)x, (void)n; }")
    (tmp_path / "nothing.yaml").write_text(
        "title: t\nkernel: nothing\nlanguages: [c]\nparameters: {a: [1]}\noperation:\n  sizes: {n: }\n"
        "  extent: [n]\n  reference: 0 * x - 1\n  arguments:\n"
        "    - {name: y, dtype: int32, shape: [n], role: out}\n"
        "    - {name: x, dtype: int32, shape: [n], role: in}\n    - {name: n, dtype: int32}\n"
    )
    space = catalog.load(str(tmp_path / "nothing.yaml"))
    assert (
        Bench(host, space, scope_of(space, host, "100"), Method(repeats=1)).measure({"a": 1}).failure == "wrong result"
    )


@pytest.mark.slow
def test_other_options_fit_their_types_and_leave_shapes_and_derived_values_true(host: Device, tmp_path: Path) -> None:
    loop = "for (int i = 0; i < n; i++) y[i] = w * x[i] + HAS * b;"
    text = f"void f(float *y, const float *x, int n, int w, float b) {{ {loop} }}"
    (tmp_path / "f.c").write_text(text)
    operation = (
        "operation:\n  sizes: {n: }\n  options: {w: 1, b: 0}\n  extent: [n]\n  reference: w * x + b\n  arguments:\n"
        "    - {name: y, dtype: float32, shape: [n], role: out}\n"
        "    - {name: x, dtype: float32, shape: [n], role: in}\n    - {name: n, dtype: int32}\n"
        "    - {name: w, dtype: int32}\n    - {name: b, dtype: float32}\n"
    )
    head = "title: t\nkernel: f\nlanguages: [c]\nparameters: {a: [1]}\nderived: {HAS: 1 if b != 0 else 0}\n"
    (tmp_path / "f.yaml").write_text(head + operation)
    space = catalog.load(str(tmp_path / "f.yaml"))
    (final,) = Bench(host, space, scope_of(space, host, "100"), Method(repeats=1)).finals([{"a": 1}], 0.1).candidates
    assert final.failure is None
    assert len(final.times) >= 5


@pytest.mark.slow
def test_a_kernel_that_dirties_a_guard_of_an_input_does_not_put_the_blame_on_the_next(
    opencl: Device, tmp_path: Path
) -> None:
    late = "if (row == 0 && column == 0) ((GLOBAL float *)B)[-1] = 9.0f;"
    dirty = f"*C = SCALED(alpha, sum, beta, *C) + 1.0f; {late}"
    bad = broken("03_naive", "*C = SCALED(alpha, sum, beta, *C);", dirty, tmp_path)
    good = catalog.load("sgemm/03_naive")
    scope = scope_of(bad, opencl, "20")
    bench = Bench(opencl, bad, scope, Method(repeats=1))
    assert bench.measure(first_valid(bad, scope)).failure == "wrong result"
    bench.space = good
    assert bench.measure(first_valid(good, scope)).failure is None


def test_references_may_use_functions_over_arrays(host: Device, tmp_path: Path) -> None:
    (tmp_path / "relu.c").write_text(
        "void relu(float *y, const float *x, int n) { for (int i = 0; i < n; i++) y[i] = x[i] > 0 ? x[i] * x[i] : 0; }"
    )
    (tmp_path / "relu.yaml").write_text(
        "title: t\nkernel: relu\nlanguages: [c]\nparameters: {a: [1]}\noperation:\n  sizes: {n: }\n"
        "  extent: [n]\n  reference: max(x, 0) ** 2\n  arguments:\n"
        "    - {name: y, dtype: float32, shape: [n], role: out}\n"
        "    - {name: x, dtype: float32, shape: [n], role: in}\n    - {name: n, dtype: int32}\n"
    )
    space = catalog.load(str(tmp_path / "relu.yaml"))
    assert Bench(host, space, scope_of(space, host, "100"), Method(repeats=1)).measure({"a": 1}).failure is None


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1.1])
def test_one_wrong_element_is_found_and_named(value: float) -> None:
    answer, bound = np.ones((3, 5, 7)), Bound(DTYPES["float32"], 1e-6)
    output = answer.astype(np.float32)
    assert compare("C", Held(output), Held(answer), bound).error == 0.0
    output[1, 2, 3] = value
    with pytest.raises(WrongResult, match=r"C\[1, 2, 3\] = .* 1 expected; 1 of 105 elements"):
        compare("C", Held(output), Held(answer), bound)


@pytest.mark.slow
def test_the_bound_is_far_above_rounding_and_far_below_one_product(host: Device) -> None:
    space = catalog.load("sgemm/00_host_simple")
    for size in ("64x64x1", "64x64x100", "32x32x20000"):
        bench = Bench(host, space, scope_of(space, host, size), Method(repeats=1))
        outcome = bench.measure({"openmp": 1})
        assert outcome.failure is None
        assert outcome.error < outcome.bound / 2
        assert outcome.bound < 0.25 / 4


COPY = """\
title: copy
operation:
  sizes: {{n: }}
  extent: [n]
  arguments:
    - {{name: y, dtype: float32, shape: [n], role: out}}
    - {{name: x, dtype: float32, shape: [n], role: in}}
    - {{name: n, dtype: int32}}
  reference: x
kernel: copy
source: copy.{suffix}
languages: [{language}]
parameters: {{beyond: [0, 1]}}
{geometry}
"""


@pytest.mark.slow
@pytest.mark.parametrize("language", ["c", "opencl"])
def test_what_a_kernel_copies_from_beyond_its_input_to_beyond_its_output_is_seen(
    language: str, tmp_path: Path, host: Device, opencl: Device
) -> None:
    loop = "for (int i = 0; i < n + beyond; i++) y[i] = x[i];"
    if language == "c":
        (tmp_path / "copy.c").write_text(f"void copy(float *y, const float *x, int n) {{ {loop} }}")
        space = COPY.format(suffix="c", language="c", geometry="")
    else:
        head = "KERNEL void copy(GLOBAL float *y, GLOBAL const float *x, int n)"
        (tmp_path / "copy.cu").write_text(f'#include "portable.h"\n{head} {{ {loop} }}')
        space = COPY.format(suffix="cu", language="opencl", geometry="block: [1]\ngrid: [1]")
    (tmp_path / "copy.yaml").write_text(space)
    loaded, device = catalog.load(str(tmp_path / "copy.yaml")), host if language == "c" else opencl
    bench = Bench(device, loaded, scope_of(loaded, device, "100"), Method(repeats=1))
    assert bench.measure({"beyond": 0}).failure is None
    assert bench.measure({"beyond": 1}).failure == "writes outside"


@pytest.mark.parametrize("kind", ["host", "opencl"])
def test_each_byte_of_a_guard_counts_whatever_the_size_of_its_array(kind: str, request: pytest.FixtureRequest) -> None:
    """Guards are compared in words of 16 bytes, which the second guard does not begin with."""
    device: Device = request.getfixturevalue(kind)
    kernels = BenchKernels(device, ["y"])
    for nbytes in (1, 15, 16, 17, 4096):
        array, after = device.allocate(nbytes), GUARD + nbytes
        check = kernels.check_guards("y", array, 0x5A)
        for sides in ([0, 7, 16, GUARD - 1], [after, after + 15, after + 16, after + GUARD - 2, after + GUARD - 1]):
            content = np.full(GUARD + after, 0x5A, np.uint8)
            content[GUARD:after] = 0
            content[sides] ^= 4
            device.write(array.whole, content)
            kernels.clear()
            check()
            counts = kernels.counts()["y"]
            assert (counts.before, counts.after) == ((4, 0) if sides[0] == 0 else (0, 5)), (nbytes, sides)


@pytest.mark.slow
def test_an_output_that_is_only_written_is_poisoned_though_the_reference_reads_it(host: Device, tmp_path: Path) -> None:
    code = "void f(float *y, const float *x, int n) { for (int i = 0; i < n; i++) if (x[i] > 0) y[i] = x[i]; }"
    for role, fill, reference, failure in (
        ("out", {}, "where(x > 0, x, y)", "not a number"),
        ("inout", {}, "where(x > 0, x, y)", None),
        ("inout", {}, "where(x > 0, x, 0)", "not a number"),
        ("inout", {"fill": "zeros"}, "where(x > 0, x, 0)", None),  # the file says what y holds, so it holds that
    ):
        arguments = [array("y", "float32", ["n"], role, **fill), array("x", "float32", ["n"])]
        space = catalog.load(str(written(tmp_path, code, arguments, reference)))
        bench = Bench(host, space, scope_of(space, host, "100"), Method(repeats=1))
        assert bench.measure({"a": 1}).failure == failure, (role, fill, reference)


@pytest.mark.slow
@pytest.mark.parametrize("role", ["out", "inout"])
@pytest.mark.parametrize(
    ("dtype", "element"), [("int32", "y[0] is 2 more than it was before"), ("float32", "y[0] is not")]
)
def test_a_kernel_that_adds_to_what_nobody_has_set_is_told_which_role_that_is(
    dtype: str, element: str, role: str, host: Device, tmp_path: Path
) -> None:
    c = {"int32": "int", "float32": "float"}[dtype]
    code = f"void f({c} *y, const {c} *x, int n) {{ for (int i = 0; i < n; i++) y[i] += 2; }}"
    arguments = [array("y", dtype, ["n"], role), array("x", dtype, ["n"])]
    space = catalog.load(str(written(tmp_path, code, arguments, "2 + 0 * x")))
    log = Bench(host, space, scope_of(space, host, "100"), Method(repeats=1)).measure({"a": 1}).log
    assert element in log
    assert ("write `role: inout`" in log) == (role == "out")
    assert "let the reference read y, as in `y + ...`" in log


@pytest.mark.slow
@pytest.mark.parametrize(("elements", "told"), [(1, False), (3, False), (4, True)])
def test_bytes_that_chance_may_have_made_sums_are_not_called_added_to(
    elements: int, told: bool, host: Device, tmp_path: Path
) -> None:
    code = """void f(unsigned char *y, const unsigned char *x, int n) {
        for (int i = 0; i < n; i++) y[i] = 3 + (i < %d ? y[i] : 0);
    }"""
    arguments = [array("y", "uint8", ["n"], "out"), array("x", "uint8", ["n"])]
    space = catalog.load(str(written(tmp_path, code % elements, arguments, "3 + 0 * x")))
    outcome = Bench(host, space, scope_of(space, host, "100"), Method(repeats=1)).measure({"a": 1})
    assert outcome.failure == "wrong result"
    assert ("y[0] is 3 more than it was before" in outcome.log, "y[0] = " in outcome.log) == (told, not told)


def alone(folder: Path, also: str) -> Path:
    """A space whose kernel is wrong for numbers above 100, which the random inputs lack."""
    (folder / "twice.c").write_text(
        "void twice(float *y, const float *x, int n) { for (int i = 0; i < n; i++) y[i] = x[i] > 100 ? 0 : 2 * x[i]; }"
    )
    (folder / "large.py").write_text(
        "import numpy as np\n\ndef large(rng, n):\n    return {'x': np.full(n, 1000, np.float32)}\n"
        "\ndef wrong(n):\n    return {'y': np.zeros(n, np.float32)}\n"
        "\ndef alone(n):\n    return np.full(n, 1000, np.float32)\n"
    )
    file = folder / "twice.yaml"
    file.write_text(
        "title: t\nkernel: twice\nlanguages: [c]\nparameters: {a: [1]}\noperation:\n  sizes: {n: }\n  extent: [n]\n"
        f"  reference: 2 * x\n{also}  arguments:\n    - {{name: y, dtype: float32, shape: [n], role: out}}\n"
        "    - {name: x, dtype: float32, shape: [n], role: in}\n    - {name: n, dtype: int32}\n"
    )
    return file


def test_finals_also_verify_other_contents_of_inputs(host: Device, tmp_path: Path) -> None:
    def failure(also: str) -> str | None:
        space = catalog.load(str(alone(tmp_path, also)))
        bench = Bench(host, space, scope_of(space, host, "100"), Method(repeats=1))
        assert bench.measure({"a": 1}).failure is None, "the search does not use them"
        (final,) = bench.finals([{"a": 1}], 0.01, with_library=False).candidates
        return final.failure

    assert failure("") is None
    for function in ("large", "alone"):
        found = failure(f"  also: {{python: large.py:{function}}}\n")
        assert found is not None
        assert found.startswith(f"wrong result: with the inputs of large.py:{function}: ")


@pytest.mark.parametrize(
    ("also", "message"),
    [
        ("[1]", "[1]: write {python: FILE.py:FUNCTION}"),
        ("{python: large}", "does not name a function; write FILE.py:FUNCTION"),
        ("{python: large.py:small}", "there is no function small; it defines alone, large, wrong"),
    ],
)
def test_what_names_other_contents_is_checked(also: str, message: str, tmp_path: Path, tune: Tune) -> None:
    done = tune("validate", alone(tmp_path, f"  also: {also}\n"), "9")
    assert (done.status, done.out) == (2, "")
    assert message in done.err


def test_other_contents_are_those_of_inputs(host: Device, tmp_path: Path) -> None:
    space = catalog.load(str(alone(tmp_path, "  also: {python: large.py:wrong}\n")))
    bench = Bench(host, space, scope_of(space, host, "100"), Method(repeats=1))
    with pytest.raises(SpaceError, match=r"wrong\(\) returns a dict of y; return one of x"):
        bench.finals([{"a": 1}], 0.01, with_library=False)


def test_an_output_that_a_judging_function_does_not_ask_for_is_compared(host: Device, tmp_path: Path) -> None:
    code = (
        "void f(int *y, int *z, const int *x, int n) {\n"
        "    for (int i = 0; i < n; i++) y[i] = x[i], z[i] = 2 * x[i] + (FAULT && i == 7);\n}\n"
    )
    (tmp_path / "check.py").write_text(
        "def right(x, y):\n    return (x == y).all()\n\ndef both(x):\n    return {'right': 1, 'z': 2 * x}\n"
    )
    arguments = [array("y", "int32", ["n"], "out"), array("z", "int32", ["n"], "out"), array("x", "int32", ["n"])]

    def failure(fault: int, reference: object) -> str | None:
        more = {"derive": {"right": {"python": "check.py:right"}}, "parameters": {"FAULT": [fault]}}
        space = catalog.load(str(written(tmp_path, code, arguments, reference, **more)))
        return Bench(host, space, scope_of(space, host, "100"), Method(repeats=1)).measure({"FAULT": fault}).failure

    assert [failure(fault, {"python": "check.py:both"}) for fault in (0, 1)] == [None, "wrong result"]
    assert [failure(fault, {"right": "1", "z": "2 * x"}) for fault in (0, 1)] == [None, "wrong result"]
    with pytest.raises(SpaceError, match="an expression for each output: right, z"):
        failure(0, {"right": "1"})
