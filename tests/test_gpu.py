"""On a real NVIDIA GPU: `pytest -m gpu -n 0`."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import ROOT, Done, scope_of
from test_launcher import HEAVY, SHAPE, arrays

import tuner
from tuner.devices import Device
from tuner.measure.workbench import Workbench
from tuner.space import catalog

pytestmark = pytest.mark.gpu


def on_gpu(library: str, array: np.ndarray[Any, Any]) -> Any:
    if library == "pycuda":
        from pycuda import gpuarray

        return gpuarray.to_gpu(array)
    if library == "cupy":
        return pytest.importorskip("cupy").asarray(array)
    return pytest.importorskip("torch").from_numpy(array).cuda()


def on_host(array: Any) -> np.ndarray[Any, Any]:
    fetch = getattr(array, "get", None) or (lambda: array.cpu().numpy())
    return np.asarray(fetch())


@pytest.mark.parametrize("library", ["pycuda", "cupy", "torch"])
@pytest.mark.parametrize("kernel", ["sgemm/03_naive", "sgemm/04_strided", "sgemm/07_tiled_1xn"])
def test_a_loaded_kernel_computes_on_arrays_of_every_library(library: str, kernel: str, cuda: Device) -> None:
    C, A, B = arrays()
    before = C.copy()
    given = [on_gpu(library, x) for x in (C, A, B)]
    tuner.load(kernel, SHAPE, device=cuda)(*given, alpha=2.0, beta=0.5)
    cuda.synchronize()
    np.testing.assert_allclose(on_host(given[0]), 2 * (A @ B) + 0.5 * before, rtol=1e-5)


@pytest.mark.parametrize("name", [name for name in catalog.names() if name.startswith("hgemm/")])
def test_a_product_of_halves_is_right_wherever_its_arrays_begin(name: str, cuda: Device) -> None:
    from pycuda import gpuarray

    shapes = {"C": (1, 136, 264), "A": (1, 136, 72), "B": (1, 72, 264)}
    random = np.random.default_rng(1)
    given = []
    for array, shape in shapes.items():
        dtype = np.float32 if array == "C" else np.float16
        whole = gpuarray.to_gpu(random.random(1 + np.prod(shape), dtype=np.float32).astype(dtype))
        given.append(whole[1:].reshape(shape))
    before, A, B = (x.get().astype(np.float64) for x in given)
    tuner.load(name, {"M": 136, "N": 264, "K": 72}, device=cuda)(*given, alpha=2.0, beta=0.5)
    cuda.synchronize()
    np.testing.assert_allclose(given[0].get(), 2 * (A @ B) + 0.5 * before, rtol=1e-5)


@pytest.mark.parametrize("size", ["100x37x53", "37x100x24,batch=3"])
@pytest.mark.parametrize("name", ["sgemm/07_tiled_1xn", "hgemm/07_mma_unrolled"])
def test_the_vendors_product_is_right(name: str, size: str, cuda: Device) -> None:
    space = catalog.load(name)
    bench = Workbench(cuda, space.operation, scope_of(space, cuda, size, alpha=1.5, beta=-0.75))
    library = bench.library()
    assert library is not None
    bench.verify(library)


def test_tuning_on_cuda_stores_a_verified_record_with_cublas_beside_it(tune: Callable[..., Done]) -> None:
    done = tune("sgemm/07_tiled_1xn", "512", "--device", "cuda", "--json")
    assert done.status == 0, done.err
    assert done.json["failed"] == {}
    assert 0.05 < done.json["best"]["vs_library"] < 1.5
    run = tune("run", "sgemm/07_tiled_1xn", "512", "--device", "cuda", "--json")
    assert run.json["verified"] is True
    assert run.json["match"] == "exact"


FAULTY = """
extern "C" __global__ void faulty(float *C, const float *A, const float *B, int M, int N, int K, int batch,
                                  float alpha, float beta) {
#if mode == 1
    this does not compile
#elif mode == 2
    C[1ull << 50] = 0;                      // illegal address: the context is lost
#elif mode == 3
    ((float *)((char *)C + 2))[0] = 1;      // misaligned
#elif mode == 4
    while (*(volatile const float *)A < 100.0f) { }  // never ends
#elif mode == 5
    __shared__ float big[200 * 1024];       // too much
    big[threadIdx.x] = alpha;
    __syncthreads();
    if (big[threadIdx.x ^ 1] == 77) return;
#elif mode == 6
    asm volatile("trap;");
#endif
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= M * N) return;
    float s = 0;
    for (int k = 0; k < K; k++) s += A[i / N * K + k] * B[k * N + i % N];
    C[i] = mode == 7 ? s + 1 : beta == 0 ? alpha * s : alpha * s + beta * C[i];
}
"""


@pytest.mark.parametrize("second", ["energy", "registers"])
def test_time_is_traded_off_against_energy_or_registers(second: str, tune: Callable[..., Done]) -> None:
    strategy = ("--strategy", "optuna:nsga2", "--budget", "12")
    done = tune("07_tiled_1xn", "1024", "--device", "cuda", "--objective", f"time,{second}", *strategy, "--json")
    assert done.status == 0, done.err
    front = done.json["front"]
    values = [tuple(v for name, v in point.items() if name != "config") for point in front]
    assert values == sorted(values)
    assert [second for _, second in values] == sorted((second for _, second in values), reverse=True)
    assert all(value > 0 for point in values for value in point)
    assert done.json["best"]["config"] == front[0]["config"]


def test_a_configuration_that_fails_costs_only_itself(tune: Callable[..., Done], stage: Callable[..., Path]) -> None:
    more = "extent: [M * N]\ngrid_divisors: {x: [threads]}\nblock: [threads]"
    parameters = "{mode: [1, 2, 3, 0, 4, 5, 6, 7], threads: [64]}"
    done = tune(stage(FAULTY, "faulty", parameters, "cuda", more), "64", "--json", "--timeout", "10")
    assert done.status == 0, done.err
    assert done.json["failed"] == {
        "compile": 2, "launch": 1, "illegal memory access": 1, "misaligned address": 1, "timeout": 1, "wrong result": 1
    }  # fmt: skip
    assert done.json["best"]["config"] == {"mode": 0, "threads": 64}


def test_a_launch_with_a_warm_cache_neither_compiles_nor_imports_the_tuning_side() -> None:
    script = f"""
import sys, numpy as np, tuner
kernel = tuner.load("sgemm/07_tiled_1xn", 64, device="cuda")
from pycuda import gpuarray
C, A, B = (gpuarray.to_gpu(np.ones((1, 64, 64), np.float32)) for _ in "CAB")
kernel(C, A, B)
assert (C.get() == 64).all()
print(sorted({{*{HEAVY!r}, "cuda.bindings.nvrtc"}} & set(sys.modules)))
"""
    for _ in range(2):
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("kernel", ["sgemm/04_strided", "sgemm/07_tiled_1xn", "hgemm/07_mma_unrolled"])
def test_an_exported_bundle_runs_without_us(kernel: str, tune: Callable[..., Done], tmp_path: Path) -> None:
    done = tune("export", kernel, "512x256x1024", "--to", "cubin", "--output", tmp_path, "--device", "cuda")
    assert done.status == 0, done.err
    compiler = ["cc", "-std=c11", "-Wall", "-Werror", "-o", "example", "example.c", "-ldl"]
    subprocess.run(compiler, cwd=tmp_path, check=True)
    ran = subprocess.run([tmp_path / "example", tmp_path], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines()[-1] == "C: 1024 1024"


@pytest.mark.parametrize("tool", ["memcheck", "racecheck"])
def test_the_sanitizer_finds_nothing_in_any_stage(tool: str) -> None:
    """The defaults and the shipped bests, where the size is a multiple of nothing."""
    sanitizer = shutil.which("compute-sanitizer")
    if sanitizer is None:
        pytest.skip("compute-sanitizer is not installed")
    stages = "tests/test_stages.py", "-k", "(right_on_cuda and 100x37x53) or bests"
    pytest_ = sys.executable, "-m", "pytest", "-m", "gpu", "-n", "0", *stages
    command = [sanitizer, "--tool", tool, "--error-exitcode", "9", *pytest_]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stdout[-5000:]
    assert "passed" in done.stdout
    assert {"memcheck": "ERROR SUMMARY: 0 errors", "racecheck": "RACECHECK SUMMARY: 0 hazards"}[tool] in done.stdout
