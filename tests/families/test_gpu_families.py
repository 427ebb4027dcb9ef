"""Dispatch, matrices as they lie, and operators of torch on an NVIDIA GPU."""

from __future__ import annotations

import functools
import math
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tuner
from helpers.arrays import installed_libraries, on_gpu, on_host
from helpers.processes import Tune
from tuner import devices
from tuner.catalog import catalog
from tuner.devices import Device
from tuner.devices.builds import build_cache
from tuner.devices.cuda.blas import products as cublas_products
from tuner.devices.cuda.blas.repeated_calls import BEFORE_CAPTURE
from tuner.errors import ArgumentError
from tuner.families import products
from tuner.families.family import find
from tuner.space.scope import Scope
from tuner.store import time_tables
from tuner.store.store import Store

pytestmark = [pytest.mark.gpu, pytest.mark.filterwarnings("ignore:.*earlier version")]
SHAPES = [(1, 1, 5, 7), (3, 333, 77, 129), (1, 16, 1000, 513), (1, 700, 900, 1100)]
SCALE = """\
title: Multiply
operation:
  sizes: {n: }
  options: {by: 2.0}
  extent: [n]
  arguments:
    - {name: y, dtype: float32, shape: [n], role: out}
    - {name: x, dtype: float32, shape: [n], role: in}
    - {name: n, dtype: int32}
    - {name: by, dtype: float32}
  reference: by * x
kernel: scale
languages: [cuda]
parameters: {threads: [128, 256]}
grid_divisors: {x: [threads]}
block: [threads]
"""
SOURCE = """\
extern "C" __global__ void scale(float *y, const float *x, int n, float by) {
    int i = blockIdx.x * threads + threadIdx.x;
    if (i < n) y[i] = by * x[i];
}
"""


def matrices(batch: int, m: int, n: int, k: int) -> list[np.ndarray[Any, Any]]:
    random = np.random.default_rng(m)
    return [random.standard_normal((batch, *s)).astype(np.float32) for s in ((m, n), (m, k), (k, n))]


@pytest.fixture(scope="module")
def torch() -> Any:
    return pytest.importorskip("torch")


@pytest.fixture(params=[True, False], ids=["library", "ours"])
def gemm(request: pytest.FixtureRequest) -> Any:
    return tuner.dispatch("sgemm", library=request.param)


@pytest.mark.parametrize("library", installed_libraries())
@pytest.mark.parametrize("shape", SHAPES)
def test_a_handle_multiplies_arrays_of_every_library_at_any_size(shape: Any, library: str, gemm: Any) -> None:
    C, A, B = matrices(*shape)
    there = [on_gpu(library, x) for x in (C, A, B)]
    gemm(*there, alpha=2.0, beta=0.5)
    expected = 2.0 * (A.astype(float) @ B) + 0.5 * C
    np.testing.assert_allclose(on_host(there[0]), expected, atol=1e-5 * shape[3])


def test_the_library_is_taken_where_it_was_faster_and_left_out_where_that_is_asked(cuda: Device) -> None:
    ours: dict[tuple[int, ...], float] = {}
    theirs: dict[tuple[int, ...], float] = {}
    for space in find("sgemm").spaces:
        for table in time_tables.read(Store.of(space).files)[0]:
            if table.device == cuda.name:
                theirs |= table.library
                for sizes, time_ms in (item for times in table.times.values() for item in times.items()):
                    ours[sizes] = min(time_ms, ours.get(sizes, math.inf))
    won = {sizes: theirs[sizes] / ours[sizes] for sizes in ours.keys() & theirs.keys()}
    if not won:
        pytest.skip("nothing was measured on this device")
    for sizes, is_library in (
        (min(won, key=lambda each: won[each]), True),
        (max(won, key=lambda each: won[each]), False),
    ):
        m, n, k, batch = sizes
        arrays = [on_gpu("own", x) for x in matrices(batch, m, n, k)]
        names = [
            tuner.dispatch("sgemm", library=library, wait=True).explain(*arrays).kernel for library in (True, False)
        ]
        assert names[0].startswith("library") == is_library
        assert names[1].startswith("sgemm/")


def test_a_graph_captures_kernels_and_the_library(torch: Any, gemm: Any) -> None:
    C, A, B = (torch.from_numpy(x).cuda() for x in matrices(1, 300, 200, 100))
    gemm(C, A, B)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        gemm(C, A, B)
    A.mul_(2)
    C.zero_()
    graph.replay()
    torch.testing.assert_close(C, A @ B, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("shape", [(300, 200, 104), (64, 64, 9000), (256, 512, 4096)])
def test_repeated_calls_of_the_library_multiply_what_the_arrays_hold(shape: tuple[int, int, int], torch: Any) -> None:
    m, n, k = shape

    def drawn(rows: int, columns: int) -> Any:
        return torch.randn(rows, columns, device="cuda").bfloat16()

    def check() -> None:
        torch.testing.assert_close(c.double(), a.double() @ b.double(), rtol=2e-2, atol=1e-3 * k)

    for calls in (
        20,
        BEFORE_CAPTURE,
    ):  # a graph captures a call after it has become a launch, and that which becomes one
        a, b, c = drawn(m, 2 * k)[:, :k], drawn(k, n), torch.empty(m, n, dtype=torch.bfloat16, device="cuda")
        assert tuner.matmul.explain(a, b, c).kernel.startswith("library")
        for _ in range(calls):
            a.normal_()
            c.fill_(math.nan)
            tuner.matmul(a, b, c)
            check()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            tuner.matmul(a, b, c)
        for _ in range(3):
            a.normal_()
            c.fill_(math.nan)
            graph.replay()
            check()
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):  # and one on whose stream the call was a launch before
            for _ in range(BEFORE_CAPTURE + 3):
                c.fill_(math.nan)
                tuner.matmul(a, b, c)
                check()
            a.normal_()
        torch.cuda.synchronize()
        with torch.cuda.graph(graph := torch.cuda.CUDAGraph(), stream=stream):
            tuner.matmul(a, b, c)
        c.fill_(math.nan)
        graph.replay()
        check()


def test_an_algorithm_of_cublaslt_is_tuned_loaded_and_dispatched(tune: Tune, torch: Any, tmp_path: Path) -> None:
    m, n, k = 856, 296, 11672
    about = "gemm16/vendor", f"{m}x{n}x{k}", "--type", "real=bfloat16", "--results", tmp_path
    done = tune(*about, "--budget", "20s", "--device", "cuda")
    assert done.status == 0, done.err
    a, b = (torch.randn(1, *shape, device="cuda").bfloat16() for shape in ((m, k), (k, n)))
    c = torch.empty(1, m, n, dtype=torch.bfloat16, device="cuda")
    kernel = tuner.load(*about[:2], types={"real": "bfloat16"}, results=tmp_path)
    gemm = tuner.dispatch("gemm16", results=tmp_path)
    tuned = kernel.match, kernel.config
    record = kernel.record
    assert record is not None
    assert record.toolchain.startswith("cuBLASLt ")

    def check(call: Callable[[], None]) -> None:
        c.fill_(math.nan)
        call()
        torch.testing.assert_close(c.double(), a.double() @ b.double(), rtol=2e-2, atol=1e-3 * k)

    said = gemm.explain(c, a, b)
    if record.vs_library is not None and record.vs_library > 1.01:
        assert (said.match, said.config) == tuned
        assert said.kernel == "gemm16/vendor"
    for call in (functools.partial(kernel, c, a, b), kernel.bind(c, a, b), functools.partial(gemm, c, a, b)):
        for _ in range(BEFORE_CAPTURE + 3):
            check(call)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            kernel(c, a, b)
        check(graph.replay)
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            check(functools.partial(kernel, c, a, b))
        torch.cuda.synchronize()


def test_a_call_goes_to_the_stream_that_is_named_or_current(torch: Any, gemm: Any) -> None:
    C, A, B = (torch.from_numpy(x).cuda() for x in matrices(1, 300, 200, 100))
    gemm(C, A, B)
    for way in ("current", "named"):
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        C.zero_()
        torch.cuda.synchronize()
        with torch.cuda.stream(stream if way == "current" else None):
            gemm(C, A, B, stream=None if way == "current" else stream)
        stream.synchronize()
        torch.testing.assert_close(C, A @ B, rtol=1e-4, atol=1e-4)


def test_arrays_that_begin_anywhere_are_multiplied(torch: Any, gemm: Any) -> None:
    C, A, B = matrices(1, 304, 208, 112)
    there = []
    for number, array in enumerate((C, A, B)):
        memory = torch.zeros(array.size + number, device="cuda")[number:]
        there.append(memory.view(array.shape).copy_(torch.from_numpy(array)))
    gemm(*there)
    np.testing.assert_allclose(there[0].cpu(), A @ B, atol=1e-3)
    np.testing.assert_allclose(tuner.matmul(*there[1:]).cpu(), A @ B, atol=1e-3)
    assert gemm.explain(*there).sizes == {"M": 304, "N": 208, "K": 112, "batch": 1}


def test_the_handles_of_threads_that_have_ended_are_taken_by_the_next(
    torch: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = torch.ones(300, 200, device="cuda")[:, :100], torch.ones(100, 50, device="cuda")
    assert tuner.matmul.explain(a, b).kernel.startswith("library"), "whose handles are what is looked at"
    begun: list[str] = []

    def counted(begin: Any, *about: Any) -> Any:
        begun.append(begin.__name__)
        return begin(*about)

    for begin in (cublas_products._new_handle, cublas_products._new_workspace):
        monkeypatch.setattr(cublas_products, begin.__name__, functools.partial(counted, begin))
    for _ in range(12):
        thread = threading.Thread(target=lambda: (tuner.matmul(a, b), torch.cuda.synchronize()))
        thread.start()
        thread.join()
    assert len(begun) == len({*begun}), "the second takes what the first has left"


def test_wrong_arrays_are_refused_by_the_library_as_by_kernels(torch: Any, gemm: Any) -> None:
    C, A, B = (torch.from_numpy(x).cuda() for x in matrices(1, 30, 30, 30))
    for arrays, told in (((C, C, B), "C: shares memory"), ((C, A, B.double()), "B: has shape"), ((C, A), "2 arrays")):
        with pytest.raises(ArgumentError, match=told):
            gemm(*arrays)


def test_a_bundle_serves_a_family_without_a_compiler(
    tune: Tune, tmp_path: Path, cuda: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    for stage in ("03_naive", "06_tiled"):
        done = tune("export", f"sgemm/{stage}", "1024", "--to", "cubin", "--output", tmp_path / "bundles" / stage)
        assert done.status == 0, done.err
    monkeypatch.setenv("TUNER_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(type(cuda.compiler), "compile", lambda *_: pytest.fail("it compiles"))
    gemm = tuner.dispatch(["sgemm/03_naive", "sgemm/06_tiled"], binaries=tmp_path / "bundles", library=False)
    C, A, B = matrices(1, 1024, 1024, 1024)
    there = [on_gpu("own", x) for x in (C, A, B)]
    gemm(*there)
    np.testing.assert_allclose(on_host(there[0]), A @ B, atol=1e-2)
    assert not list(build_cache.folder().iterdir())


def test_an_exported_folder_serves_any_size_without_a_compiler(
    tune: Tune, tmp_path: Path, cuda: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = "sgemm/12_warptiled"  # with some ten builds; the family has a thousand
    done = tune("export", stage, "--to", "dispatch", "--device", cuda.name, "--output", tmp_path / "folder")
    if "nor a device with times in the store" in done.err:
        pytest.skip("nothing was measured on this device")
    assert done.status == 0, done.err
    monkeypatch.setenv("TUNER_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(type(cuda.compiler), "compile", lambda *_: pytest.fail("it compiles"))
    gemm = tuner.dispatch(stage, binaries=tmp_path / "folder", library=False)
    for size, matches in ((1024, {"exact"}), (2000, {"predicted", "nearest_size"})):
        C, A, B = matrices(1, size, size, size)
        there = [on_gpu("own", x) for x in (C, A, B)]
        gemm(*there)
        np.testing.assert_allclose(on_host(there[0]), A @ B, atol=1e-2)
        assert gemm.explain(*there).match in matches
    assert not list(build_cache.folder().iterdir())


LYING: dict[str, Callable[[Any, Any], tuple[Any, Any, dict[str, Any]]]] = {
    "matrices": lambda x, dtype: (x(333, 517), x(517, 129), {}),
    "stacks": lambda x, dtype: (x(4, 33, 57), x(4, 57, 29), {}),
    "one for all": lambda x, dtype: (x(4, 33, 57), x(57, 29), {}),
    "a transposed": lambda x, dtype: (x(517, 333), x(517, 129), {"transpose_a": True}),
    "b transposed": lambda x, dtype: (x(333, 517), x(129, 517), {"transpose_b": True}),
    "rows apart": lambda x, dtype: (x(600, 600)[:333, :517], x(517, 129), {}),
    "rows apart, transposed": lambda x, dtype: (x(600, 600)[:517, :333], x(517, 129), {"transpose_a": True}),
    "every other column": lambda x, dtype: (x(333, 1034)[:, ::2], x(517, 129), {}),
    "scaled": lambda x, dtype: (x(333, 517), x(517, 129), {"alpha": 2.0}),
    "an output in a wider one": lambda x, dtype: (x(333, 517), x(517, 129), {"out": x(333, 200)[:, :129]}),
}


@pytest.mark.parametrize("name", LYING)
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_tensors_are_multiplied_however_they_lie(name: str, dtype: str, torch: Any) -> None:
    kind = getattr(torch, dtype)
    a, b, keywords = LYING[name](lambda *shape: torch.randn(*shape, device="cuda").to(kind), kind)
    product = tuner.matmul(a, b, **keywords)
    left = a.mT if keywords.get("transpose_a") else a
    right = b.mT if keywords.get("transpose_b") else b
    expected = keywords.get("alpha", 1.0) * (left.double() @ right.double())
    error = {"float32": 1e-5, "float16": 2e-3, "bfloat16": 1e-2}[dtype]
    assert product.dtype == kind
    assert (product.double() - expected).abs().max() <= error * expected.abs().max()


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_repeated_products_are_right_whichever_arrays_factors_and_streams_a_call_has(dtype: str, torch: Any) -> None:
    kind, sizes = getattr(torch, dtype), ((64, 96, 128), (33, 65, 17))
    for m, n, k in sizes:
        for number in range(40):
            a, b = torch.randn(m, k, device="cuda").to(kind), torch.randn(k, n, device="cuda").to(kind)
            if number % 5 == 4:  # an address that few kernels accept
                a = torch.randn(m * k + 1, device="cuda").to(kind)[1:].view(m, k)
            out, alpha, beta = torch.ones(m, n, device="cuda", dtype=kind), 1.0 + number % 2, float(number % 3 == 2)
            expected = alpha * (a.double() @ b.double()) + beta
            stream = torch.cuda.Stream() if number % 7 == 6 else torch.cuda.current_stream()
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                assert tuner.matmul(a, b, out, alpha=alpha, beta=beta, wait=number < 2) is out
            stream.synchronize()
            error = {"float32": 1e-5, "bfloat16": 1e-2}[dtype]
            assert (out.double() - expected).abs().max() <= error * expected.abs().max()
    with pytest.raises(ArgumentError, match="requires grad"):
        tuner.matmul(a, b, torch.ones(m, n, device="cuda", dtype=kind, requires_grad=True))


@pytest.mark.parametrize("library", [name for name in ("cupy", "pycuda") if name in installed_libraries()])
def test_arrays_of_other_libraries_are_multiplied_too(library: str) -> None:
    _, A, B = matrices(1, 65, 33, 17)
    a, b = (on_gpu(library, x[0]) for x in (A, B))
    np.testing.assert_allclose(on_host(tuner.matmul(a, b)), A[0] @ B[0], atol=1e-4)
    turned = on_gpu(library, np.ascontiguousarray(B[0].T))
    np.testing.assert_allclose(on_host(tuner.matmul(a, turned, transpose_b=True)), A[0] @ B[0], atol=1e-4)


@pytest.fixture(scope="module")
def scale(torch: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("scale")
    (folder / "scale.cu").write_text(SOURCE)
    (folder / "scale.yaml").write_text(SCALE)
    return tuner.torch.operator("tuner_gpu::scale", folder / "scale.yaml")


def test_an_operator_passes_the_checks_of_torch(torch: Any, scale: Any) -> None:
    x = torch.randn(1000, device="cuda")
    torch.testing.assert_close(scale(x, by=3.0), 3 * x)
    for overload, arguments in ((scale.default, (x,)), (scale.out, (torch.empty_like(x), x))):
        told = torch.library.opcheck(overload, arguments, {"by": 3.0})
        assert set(told.values()) == {"SUCCESS"}, told


def test_an_operator_takes_parameters_and_strided_tensors_and_refuses_others_once(torch: Any, scale: Any) -> None:
    x, apart = torch.nn.Parameter(torch.randn(8, device="cuda")), torch.zeros(16, device="cuda")[::2]
    add = tuner.torch.operator("tuner_gpu::vector_add", "gallery/vector_add")  # it has no options
    with torch.no_grad():
        for _ in range(2):
            torch.testing.assert_close(scale(x), 2 * x.detach())
            scale.out(apart, x)
            torch.testing.assert_close(apart, 2 * x.detach())
            torch.testing.assert_close(scale(apart), 2 * apart)
            torch.testing.assert_close(add(x, apart), x.detach() + apart)
    for call, why in (
        (lambda: scale(x), "requires grad"),
        (lambda: add(x, x), "requires grad"),
        (lambda: add(apart.double(), apart), "has .*float64"),
    ):
        with pytest.raises(ArgumentError, match=why) as refused:
            call()
        assert refused.value.__context__ is None or refused.value.__suppress_context__


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch uses what it deprecates
def test_an_operator_is_compiled_with_dynamic_shapes_and_captured(
    torch: Any, scale: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CC")  # torch's compiler takes it for one word

    @torch.compile(dynamic=True, fullgraph=True)
    def function(x: Any) -> Any:
        return scale(x + 1) - 1

    for n in (100, 101, 5000):
        x = torch.randn(n, device="cuda")
        torch.testing.assert_close(function(x), 2 * (x + 1) - 1)
    x, y = torch.randn(64, device="cuda"), torch.empty(64, device="cuda")
    scale.out(y, x)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        scale.out(y, x)
        z = scale(y)
    x.copy_(torch.arange(64.0))
    graph.replay()
    torch.testing.assert_close(z, 4 * torch.arange(64.0, device="cuda"))


@pytest.mark.parametrize("shape", SHAPES)
def test_the_library_tells_how_it_would_run_a_product(shape: tuple[int, int, int, int]) -> None:
    batch, m, n, k = shape
    space, device = catalog.load("sgemm/14_split_k"), devices.shared("cuda:0")
    scope = Scope({"M": m, "N": n, "K": k, "batch": batch}, dict(space.operation.options), "cuda", device.limits)
    tiles = products.tiles(space, scope, device)
    assert tiles is not None
    assert tiles.tile_count >= batch
    assert tiles.tile_count >= tiles.whole > 0
    assert tiles.blocks >= tiles.tile_count
    assert tiles.at_once >= 1
