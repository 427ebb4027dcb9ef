"""Calls of cuBLAS, and the host's times of calls: a library in C stands in for the driver and for cuBLAS."""

from __future__ import annotations

import contextlib
import ctypes
import math
import re
import subprocess
import threading
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tuner.catalog import catalog
from tuner.devices.base import RoutineCall
from tuner.devices.cuda import architectures, host_times, launches
from tuner.devices.cuda.arrays import PlacedArray, Readers
from tuner.devices.cuda.blas import (
    algorithm_compiler,
    algorithm_program,
    baselines,
    chosen_algorithm,
    cublas_tiles,
    products,
)
from tuner.devices.cuda.blas.repeated_calls import BEFORE_CAPTURE
from tuner.devices.cuda.compiler import NvrtcCompiler
from tuner.devices.cuda.driver.context import Context
from tuner.devices.cuda.driver.launch_config import PROGRAMMATIC
from tuner.devices.product import Matrices, MatrixProduct
from tuner.devices.work import Function, Passed, Work
from tuner.errors import BuildError, LaunchError, OutOfMemory
from tuner.space import operation
from tuner.space.instance import Instance
from tuner.space.sources import rendering
from tuner.space.sources.source import Source
from tuner.space.step import Geometry

STAND_IN = """
long numbers[16]; float factors[2]; long handles = 0, launched = 0, current = 0x1234;
int cublasGemmEx(void *handle, int tb, int ta, int n, int m, int k, float *alpha, long b, int bt, int ldb, long a,
                 int at, int lda, float *beta, long c, int ct, int ldc, int compute, int algorithm) {
    long all[] = {(long)handle, tb, ta, n, m, k, b, ldb, a, lda, c, ldc, compute, algorithm};
    for (int i = 0; i < 14; i++) numbers[i] = all[i];
    factors[0] = *alpha; factors[1] = *beta; launched++;
    return 0;
}
long made = 0;  /* in one test, at most 255 */
long kinds[256], rows[256], columns[256], leading[256], batches[256], strides[256], description[5], alignments[9];
long given[16], needed = 0, offered = 1, allocated = 0;
int cublasLtCreate(long *handle) { *handle = 77; return 0; }
int cublasLtMatmulDescCreate(long *it, int sums, int scale) {
    *it = ++made; description[0] = sums; description[1] = scale; description[3] = description[4] = 0;
    return 0;
}
int cublasLtMatmulDescSetAttribute(long it, int name, int *value, long size) { description[name] = *value; return 0; }
int cublasLtMatrixLayoutCreate(long *it, int kind, unsigned long m, unsigned long n, long ld) {
    *it = ++made; kinds[made] = kind; rows[made] = m; columns[made] = n; leading[made] = ld;
    return 0;
}
int cublasLtMatrixLayoutSetAttribute(long it, int name, void *value, long size) {
    if (name == 5) batches[it] = *(int *)value; else strides[it] = *(long *)value;
    return 0;
}
int cublasLtMatmulPreferenceCreate(long *it) { *it = ++made; return 0; }
int cublasLtMatmulPreferenceSetAttribute(long it, int name, void *value, long size) {
    alignments[name] = *(unsigned *)value;
    return 0;
}
int cublasLtMatmulDescDestroy(long it) { return 0; }
int cublasLtMatrixLayoutDestroy(long it) { return 0; }
int cublasLtMatmulPreferenceDestroy(long it) { return 0; }
int cublasLtMatmulAlgoGetHeuristic(long handle, long it, long a, long b, long c, long d, long preference, int most,
                                   long *offers, int *count) {
    for (*count = 0; *count < most && *count < offered; offers += 12) {
        offers[0] = 4711 + (*count)++; offers[8] = needed; *(int *)(offers + 9) = 0; ((float *)(offers + 9))[1] = 1.5;
    }
    return 0;
}
long cublasLtGetVersion(void) { return 130100; }
long told[9];
int cublasLtMatmulAlgoConfigGetAttribute(long *algorithm, int name, unsigned *value, long size, long *written) {
    if (*algorithm != 4711 || size != 4 || name >= 9) return 7;
    *value = told[name]; *written = 4;
    return 0;
}
int cublasLtMatmul(long handle, long it, float *alpha, long a, long la, long b, long lb, float *beta, long c, long lc,
                   long d, long ld, long *algorithm, long workspace, long size, long stream) {
    long all[] = {handle, a, la, b, lb, c, lc, d, ld, *algorithm, workspace, size, stream};
    for (int i = 0; i < 13; i++) given[i] = all[i];
    factors[0] = *alpha; factors[1] = *beta; launched++;
    return 0;
}
int cuMemAlloc_v2(long *address, long size) { *address = 1 << 30 | ++allocated << 25; return 0; }
long unable = 0;
int cublasCreate_v2(long *handle) { *handle = ++handles; return unable; }
int cublasGetVersion_v2(long handle, int *version) { *version = 130100; return 0; }
int cublasSetStream_v2(long handle, void *stream) { return 0; }
long mode = 0;
int cublasSetMathMode(long handle, int given) { mode = given; return 0; }
int cuCtxGetCurrent(long *context) { *context = current; return 0; }
int cuCtxSetCurrent(long context) { current = context; return 0; }
int cuCtxPushCurrent_v2(long context) { return 0; }
int cuCtxPopCurrent_v2(long *context) { return 0; }
int cuThreadExchangeStreamCaptureMode(int *mode) { return 0; }
int cuModuleLoadData(long *module, const char *image) { *module = 1; return 0; }
int cuModuleUnload(void *module) { return 0; }
int cuModuleGetFunction(long *function, void *module, const char *name) { *function = 2; return 0; }
int cuFuncGetAttribute(int *value, int attribute, void *function) { *value = 1024; return 0; }
int cuStreamCreate(long *stream, unsigned flags) { *stream = 88; return 0; }
int cuStreamDestroy_v2(long stream) { return 0; }
int cuStreamSynchronize(long stream) { return 0; }
int cuStreamBeginCapture_v2(long stream, int mode) { return 0; }
int cuStreamEndCapture(long stream, long *graph) { *graph = 3; return 0; }
int cuGraphInstantiateWithFlags(long *made, long graph, long flags) { *made = 4; return 0; }
int cuGraphDestroy(long graph) { return 0; }
int cuGraphExecDestroy(long graph) { return 0; }
int cuGraphUpload(long graph, long stream) { return 0; }
long nodes = 1, kind = 0, programmatic = 0, refused = 0, replayed[8];
/* nodes are 5, 6 and so on; `kind` is that of the first */
int cuGraphGetNodes(long graph, long *found, long *count) {
    for (long i = 0; found && i < nodes && i < *count; i++) found[i] = 5 + i;
    *count = nodes;
    return 0;
}
int cuGraphLaunch(long graph, long stream) { launched++; return 0; }
long edge = 0x10001, forks = 0, set[5];  /* of the edge between the last two nodes */
int cuGraphGetEdges_v2(long graph, long *begins, long *ends, long *data, long *count) {
    *count = nodes - 1;
    for (long i = 0; i + 1 < nodes; i++) {
        ends[i] = 4 + nodes - i; begins[i] = forks ? 5 : ends[i] - 1; data[i] = i ? 0 : edge;
    }
    return 0;
}
int cuGraphMemsetNodeGetParams(long node, long *it) {
    it[0] = 1234; it[1] = 0; it[2] = 7 | 4l << 32; it[3] = 9; it[4] = 1;
    return 0;
}
int cuMemsetD32Async(long target, unsigned value, long width, long stream) {
    long all[] = {target, value, width, stream, launched};
    for (int i = 0; i < 5; i++) set[i] = all[i];
    return 0;
}
int cuGraphNodeGetType(long node, int *it) { *it = node == 5 ? kind : 0; return 0; }
int cuGraphKernelNodeGetParams_v2(long node, long *it) {
    unsigned *numbers = (unsigned *)(it + 1);
    it[0] = 99; it[5] = 4321; it[6] = 8765;
    for (int i = 0; i < 7; i++) numbers[i] = i + 1;
    return 0;
}
int cuGraphKernelNodeGetAttribute(long node, int number, unsigned *words) {
    if (number == 4) words[0] = 2, words[1] = words[2] = 1;
    if (number == 6) words[0] = programmatic;
    return number > 12;
}
struct attribute { int id, padding; unsigned value[16]; };
struct config { unsigned numbers[7]; long stream; struct attribute *attributes; unsigned count; };
int cuLaunchKernelEx(struct config *config, long function, long parameters, long extra) {
    long last = config->count ? config->attributes[config->count - 1].id : 0;
    long all[] = {function, parameters, config->numbers[6], config->stream, config->count,
                  config->count ? config->attributes->value[0] : 0, extra, last};
    if (refused) return 1;
    for (int i = 0; i < 8; i++) replayed[i] = all[i];
    launched++;
    return 0;
}
"""
PRODUCT = MatrixProduct(
    3, 5, 7, 1, ("float32", "float32", "float32"), Matrices.packed(3, 5), Matrices.packed(3, 7), Matrices.packed(7, 5)
)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    folder = tmp_path_factory.mktemp("stand-in")
    (folder / "stand_in.c").write_text(STAND_IN)
    built = folder / "stand_in.so"
    subprocess.run(["cc", "-shared", "-fPIC", folder / "stand_in.c", "-o", built], check=True)
    return ctypes.CDLL(str(built))


@pytest.fixture
def context(library: ctypes.CDLL, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A context of the stand-in."""
    for module in ("driver.context", "launches"):
        monkeypatch.setattr(f"tuner.devices.cuda.{module}.library", lambda: library)
    handles, workspaces = (products._PerStream(make, {}) for make in (products._new_handle, products._new_workspace))
    monkeypatch.setattr(products, "_handles", lambda number: handles)
    monkeypatch.setattr(products, "_workspaces", lambda number: workspaces)
    for module in (baselines, products, chosen_algorithm, cublas_tiles):
        monkeypatch.setattr(module, "shared_library", lambda name: library)
    for name in ("made", "offered", "refused"):  # descriptions; algorithms of cuBLASLt; launches
        ctypes.c_long.in_dll(library, name).value = 0
    handle_of = chosen_algorithm.handle_of.__wrapped__
    for module in (chosen_algorithm, algorithm_program):
        monkeypatch.setattr(module, "handle_of", handle_of)
    return Context(0x1234, 0)


def numbers(library: ctypes.CDLL) -> list[int]:
    return [*(ctypes.c_long * 14).in_dll(library, "numbers")]


def arrays(stream: int = 0, first: int = 4096) -> list[PlacedArray]:
    return [PlacedArray(first + 256 * number, stream) for number in range(3)]


def test_where_cublaslt_offers_nothing_a_call_passes_the_product_and_each_thread_and_stream_has_its_handle(
    library: ctypes.CDLL, context: Any
) -> None:
    launch = products.launch(PRODUCT, [], Readers([], 0, None, lambda arrays: []), context)
    assert launch is not None
    used: dict[str, int] = {}

    def run(name: str, stream: int, alpha: float = 1.0, beta: float = 0.0) -> None:
        launch.on_arrays(arrays(stream), None, alpha, beta)
        handle, *others = numbers(library)
        assert others == [0, 0, 5, 3, 7, 4096 + 512, 5, 4096 + 256, 7, 4096, 5, 68, -1]
        assert [*(ctypes.c_float * 2).in_dll(library, "factors")] == [alpha, beta]
        used[name] = handle

    run("first", 0)
    run("again", 0, 2.0, 0.5)
    run("another stream", 8)
    thread = threading.Thread(target=run, args=("another thread", 0))
    thread.start()
    thread.join()
    run("the first again", 0)
    assert used["first"] == used["again"] == used["the first again"]
    assert len({used["first"], used["another stream"], used["another thread"]}) == 3
    launch.on_arrays(arrays(0, 1 << 20), None, 1.0, 0.0)
    assert numbers(library)[10] == 1 << 20
    assert ctypes.c_long.in_dll(library, "mode").value == 16, "no sum in 16 bits"


def test_a_product_is_done_by_the_algorithm_that_cublaslt_offered_once(library: ctypes.CDLL, context: Any) -> None:
    def values(name: str, count: int = 64) -> list[int]:
        return [*(ctypes.c_long * count).in_dll(library, name)]

    halves = ("bfloat16", "bfloat16", "bfloat16")
    packed = Matrices.packed(40, 24), Matrices.packed(40, 56), Matrices.packed(24, 56, is_transposed=True)
    ctypes.c_long.in_dll(library, "needed").value = 4096
    ctypes.c_long.in_dll(library, "offered").value = 1
    launch = products.launch(
        MatrixProduct(40, 24, 56, 3, halves, *packed), [], Readers([], 0, None, lambda arrays: []), context
    )
    assert launch is not None
    launch.on_arrays([PlacedArray(address, 8) for address in (4096, 8192 + 16, 16384)], None, 2.0, 0.5)
    handle, b, left, a, right, c, result, d, last, algorithm, workspace, size, stream = values("given", 13)
    assert (handle, a, b, c, d, algorithm, stream) == (77, 8192 + 16, 16384, 4096, 4096, 4711, 8)
    assert [*(ctypes.c_float * 2).in_dll(library, "factors")] == [2.0, 0.5]
    described = [values(name) for name in ("kinds", "rows", "columns", "leading", "batches", "strides")]
    assert [[column[at] for column in described] for at in (left, right, result)] == [
        [14, 56, 24, 56, 3, 24 * 56], [14, 56, 40, 56, 3, 40 * 56], [14, 24, 40, 24, 3, 40 * 24]
    ]  # fmt: skip
    assert result == last
    assert values("description", 5) == [68, 0, 0, 1, 0], "sums in float32, and the left operand is transposed"
    assert values("alignments", 9)[5:] == [256, 16, 256, 256]
    assert values("alignments", 9)[3] == 2, "sums that are split are added up as they are computed"
    assert size == chosen_algorithm.WORKSPACE
    launch.on_arrays(arrays(8), None, 1.0, 0.0)
    assert values("given", 13)[10] == workspace
    launch.on_arrays(arrays(0), None, 1.0, 0.0)
    assert values("given", 13)[10] != workspace, "another stream has a workspace of its own"


def test_baselines_are_the_librarys_own_choice_and_what_cublaslt_offers_on_the_same_arrays(
    library: ctypes.CDLL, context: Any
) -> None:
    at = {"A": 8192 + 16, "B": 16384, "C": 4096}
    arguments = {**at, "M": 3, "N": 5, "K": 7, "alpha": 2.0, "beta": 0.5}
    call = RoutineCall("gemm", arguments, dict.fromkeys("ABC", "float32"), ("B",))

    def algorithms() -> list[Any]:
        return baselines.algorithms(context, call, lambda nbytes: SimpleNamespace(handle=nbytes))

    default = baselines.default(context, call)
    assert default is not None
    assert default.name == "cuBLAS 13.1.0"
    default()
    assert numbers(library)[1:] == [1, 0, 5, 3, 7, 16384, 7, 8192 + 16, 7, 4096, 5, 68, -1]
    assert [*(ctypes.c_float * 2).in_dll(library, "factors")] == [2.0, 0.5]
    assert algorithms() == []
    ctypes.c_long.in_dll(library, "offered").value = 2
    both = algorithms()
    assert [each.name for each in both] == ["cuBLASLt 13.1.0 (best of 32)"] * 2
    for number, each in enumerate(both):
        each()
        given = [*(ctypes.c_long * 13).in_dll(library, "given")]
        assert (given[3], given[1], given[5], given[9], given[12]) == (8192 + 16, 16384, 4096, 4711 + number, 0)
    assert [*(ctypes.c_long * 9).in_dll(library, "alignments")][5:] == [256, 16, 256, 256]
    assert baselines.default(context, replace(call, arguments=at)) is None, "sizes are missing"
    assert baselines.default(context, replace(call, dtypes={**call.dtypes, "A": "int8"}, transposed=())) is None


@pytest.mark.parametrize("status", [1, 3])
def test_a_cublas_that_creates_no_handle_is_no_baseline_and_too_little_memory_is_said(
    library: ctypes.CDLL, context: Any, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    unable = ctypes.c_long.in_dll(library, "unable")
    monkeypatch.setattr(unable, "value", status)
    call = RoutineCall("gemm", dict.fromkeys("ABCMNK", 4096), dict.fromkeys("ABC", "float32"))
    with pytest.raises(OutOfMemory, match="end other programs") if status == 3 else contextlib.nullcontext():
        assert baselines.default(context, call) is None


@pytest.mark.parametrize("differs", ["", "kind", "nodes", "forks", "edge", "programmatic", "refused"])
def test_a_repeated_call_that_enqueues_a_chain_is_launched_without_the_library(
    library: ctypes.CDLL, context: Any, differs: str
) -> None:
    for name, value in {
        "offered": 1,
        "nodes": 1,
        "kind": 0,
        "programmatic": 0,
        "refused": 0,
        "forks": 0,
        "edge": 0x10001,
        "current": 0x1234,
    }.items():
        ctypes.c_long.in_dll(library, name).value = value
    if differs:
        ctypes.c_long.in_dll(library, differs).value += 4 if differs == "nodes" else 1
        ctypes.c_long.in_dll(library, "nodes").value += 2 * (differs in ("forks", "edge"))
    launch = products.launch(PRODUCT, [], Readers([], 0, None, lambda arrays: []), context)
    assert launch is not None
    given, replayed = (
        (ctypes.c_long * count).in_dll(library, name) for count, name in ((13, "given"), (7, "replayed"))
    )

    def run(first: int = 4096, factor: float = 1.0) -> tuple[int, int]:
        """The stream on which cuBLASLt, and on which the driver enqueued it; -1 for none."""
        given[12] = replayed[3] = -1
        launch.on_arrays(arrays(8, first), None, factor, 0.0)
        return given[12], replayed[3]

    assert [run() for _ in range(BEFORE_CAPTURE)] == [(8, -1)] * BEFORE_CAPTURE
    if differs:
        assert [run(), run()] == [(8, -1)] * 2
        return
    assert run()[1] == 8, "it has been captured on a stream apart, and launched"
    assert run() == (-1, 8)
    assert [*replayed] == [99, 4321, 7, 8, 1, 2, 8765], "its kernel, parameters, shared memory, stream, cluster, extra"
    assert run(first=1 << 20) == (8, -1), "other arrays"
    assert run(factor=2.0) == (8, -1)
    assert run() == (-1, 8)
    for name, value in {"nodes": 3, "kind": 2}.items():
        ctypes.c_long.in_dll(library, name).value = value
    for name, value in {"nodes": 3, "kind": 2}.items():
        ctypes.c_long.in_dll(library, name).value = value
    for _ in range(BEFORE_CAPTURE + 1):
        run(first=1 << 21)
    before = ctypes.c_long.in_dll(library, "launched").value
    assert run(first=1 << 21) == (-1, 8)
    memset = [*(ctypes.c_long * 5).in_dll(library, "set")]
    assert memset == [1234, 7, 9, 8, before], "before the kernels, of which there are two"
    assert ctypes.c_long.in_dll(library, "launched").value == before + 2
    last = (ctypes.c_long * 8).in_dll(library, "replayed")[7]
    assert last == PROGRAMMATIC, "the last may begin before the one before it has ended"
    for _ in range(BEFORE_CAPTURE + 2):
        given[12] = -1
        launch.on_arrays(arrays(8), None, 1.0, 0.5)
    assert given[12] == 8, "if a part of a chain failed, C would be added twice"


def test_what_cublaslt_says_of_a_product_is_told_as_tiles(library: ctypes.CDLL, context: Any) -> None:
    of = {"offered": 1, "current": context.handle.value}
    for name, value in of.items():
        ctypes.c_long.in_dll(library, name).value = value
    told = (ctypes.c_long * 9).in_dll(library, "told")
    asked = []
    for number in (20, 36, 58, 634, 0, 700):
        told[0], told[1], told[2], told[5] = 66, number, 3, 2
        asked.append(cublas_tiles.heuristic(PRODUCT))
    tiles = [None if each is None else each.tile for each in asked]
    assert tiles == [(128, 128), (8, 128), (16, 768), (512, 1024), None, None]
    assert asked[0] == cublas_tiles.Heuristic(66, (128, 128), 3, 1.5, 2)
    assert asked[-1] is None, "a later version may have other tiles"
    assert cublas_tiles.version() == "cuBLASLt 13.1.0"
    ctypes.c_long.in_dll(library, "offered").value = 0
    assert cublas_tiles.heuristic(PRODUCT) is None


def test_cublas_itself_chooses_for_a_long_product_of_which_the_host_is_not_waited_for(
    library: ctypes.CDLL, context: Any
) -> None:
    ctypes.c_long.in_dll(library, "offered").value = 1
    for side, leading in ((2048, 0), (4096, 4096)):
        packed = Matrices.packed(side, side)
        product = MatrixProduct(side, side, side, 1, ("float32", "float32", "float32"), packed, packed, packed)
        launch = products.launch(product, [], Readers([], 0, None, lambda arrays: []), context)
        assert launch is not None
        (ctypes.c_long * 14).in_dll(library, "numbers")[11] = 0
        launch.at((4096, 8192, 16384, 0, 1.0, 0.0))
        assert numbers(library)[11] == leading


def test_a_call_in_another_context_makes_its_own_current(library: ctypes.CDLL, context: Any) -> None:
    launch = products.launch(PRODUCT, [], Readers([], 0, None, lambda arrays: []), context)
    assert launch is not None
    current = ctypes.c_long.in_dll(library, "current")
    current.value = 0
    launch.on_arrays(arrays(), None, 1.0, 0.0)
    assert current.value == 0x1234


def test_the_hosts_times_are_measured_once_and_kept(
    library: ctypes.CDLL, context: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TUNER_CACHE", str(tmp_path))
    device: Any = SimpleNamespace(
        name="a GPU", allocate=lambda nbytes, guard: SimpleNamespace(handle=4096), fill=lambda *about: None,
        synchronize=lambda: None,
    )  # fmt: skip
    times = host_times.of(device, context)
    assert times is not None
    assert min(times) > 0
    launched = ctypes.c_long.in_dll(library, "launched").value
    assert host_times.of(device, context) == times
    assert ctypes.c_long.in_dll(library, "launched").value == launched
    monkeypatch.setattr(products, "shared_library", lambda name: None)
    device.name = "another, without cuBLAS"
    assert host_times.of(device, context) is None


def test_an_algorithm_is_launched_by_its_number_as_a_kernel_is(library: ctypes.CDLL, context: Any) -> None:
    space = catalog.load("gemm16_nt/vendor")
    problem = {"M": 40, "N": 24, "K": 56, "batch": 3}
    limits = architectures.limits_of("sm_90a")
    scope = space.operation.scope(problem, {"alpha": 2.0, "beta": 0.5}, "cuda", limits, {"real": "bfloat16"})
    compiler = NvrtcCompiler("sm_90a")

    def source(number: int) -> Source:
        return rendering.render(Instance(space, {"algorithm": number}, scope))[0].source

    def launch(number: int) -> launches.Launch:
        binary, once = compiler.chosen("cublaslt").compile(source(number)).binary, Geometry((1, 1, 1), (1, 1, 1), 0)
        program = algorithm_program.AlgorithmProgram(context, binary).function("vendor", "vendor", once)
        scalars = [*map(np.int32, problem.values()), np.float32(2), np.float32(0.5)]
        made = launches.Launch(
            Work.of(Function(program, "vendor", once), [Passed(0), Passed(1), Passed(2), 1 << 20, *scalars]), 8
        )
        cells: Any = made.cells
        cells[made.changing] = [4096, 8192, 16384]
        return made

    def given() -> list[int]:
        return [*(ctypes.c_long * 13).in_dll(library, "given")]

    for name, value in {"offered": 5, "needed": 4096, "current": 0x1234}.items():
        ctypes.c_long.in_dll(library, name).value = value
    assert compiler.chosen("cublaslt").toolchain == "cuBLASLt 13.1.0"
    third = launch(2)
    third.enqueue()
    handle, b, left, a, right, c, *_, algorithm, workspace, size, stream = given()
    assert (handle, b, a, c, algorithm, workspace, stream) == (77, 16384, 8192, 4096, 4713, 1 << 20, 8)
    assert size == chosen_algorithm.WORKSPACE == math.prod(operation.shape(space.operation.scratch[0], scope))
    described = [[*(ctypes.c_long * 64).in_dll(library, name)] for name in ("kinds", "rows", "columns", "batches")]
    assert [[column[at] for column in described] for at in (left, right)] == [[14, 56, 24, 3], [14, 56, 40, 3]]
    assert [*(ctypes.c_float * 2).in_dll(library, "factors")] == [2.0, 0.5]
    third.to(16)
    ctypes.c_long.in_dll(library, "current").value = 0
    third.enqueue()
    assert given()[-1] == 16, "on another stream, in its own context"
    with pytest.raises(LaunchError, match="offers 5 algorithms for this product, so none has the number 5"):
        launch(5)
    with pytest.raises(BuildError, match=r"has the parameters C, A, B, workspace, .*; the source has C, A, B, M, "):
        compiler.chosen("cublaslt").compile(replace(source(0), text=re.sub(r"GLOBAL uns.*?,", "", source(0).text)))
    with pytest.raises(BuildError, match="no bfloat16 and bfloat16 to bfloat16 with factors of type double"):
        compiler.chosen("cublaslt").compile(replace(source(0), text=source(0).text.replace("float a", "double a")))
    own = (
        "#define transposed_a 1\n#define algorithm 4\n__global__ void own(float *__restrict__ C, const __half *A, "
        "const __half *__restrict B, unsigned char *workspace, int M, int N, int K, int batch, float alpha, float beta)"
    )
    read = algorithm_compiler.Algorithm.read(compiler.chosen("cublaslt").compile(replace(source(0), text=own)).binary)
    assert read == algorithm_compiler.Algorithm(4, ("float16", "float16", "float32"), ("A",))
    call = products.launch(PRODUCT, [], Readers([], 0, None, lambda arrays: []), context, 3)
    assert call is not None
    call.at((4096, 8192, 16384, 0, 1.0, 0.0))
    assert given()[9] == 4714
    call.at((4096 + 128, 8192, 16384, 0, 1.0, 0.0))
    assert given()[9] == 4711, "the number is of algorithms for arrays that are aligned"
