"""Calls of cuBLAS, and the host's times of calls: a library in C stands in for the driver and for cuBLAS."""

from __future__ import annotations

import ctypes
import subprocess
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tuner.devices.cuda import driver, host_times, launches
from tuner.devices.cuda.arrays import PlacedArray, Readers
from tuner.devices.cuda.blas import products
from tuner.devices.product import Matrices, MatrixProduct

STAND_IN = """
long numbers[16]; float factors[2]; long handles = 0, launched = 0, current = 0x1234;
int cublasGemmEx(void *handle, int tb, int ta, int n, int m, int k, float *alpha, long b, int bt, int ldb, long a,
                 int at, int lda, float *beta, long c, int ct, int ldc, int compute, int algorithm) {
    long all[] = {(long)handle, tb, ta, n, m, k, b, ldb, a, lda, c, ldc, compute, algorithm};
    for (int i = 0; i < 14; i++) numbers[i] = all[i];
    factors[0] = *alpha; factors[1] = *beta; launched++;
    return 0;
}
int cublasCreate_v2(long *handle) { *handle = ++handles; return 0; }
int cublasSetStream_v2(long handle, void *stream) { return 0; }
int cuCtxGetCurrent(long *context) { *context = current; return 0; }
int cuCtxSetCurrent(long context) { current = context; return 0; }
int cuCtxPushCurrent_v2(long context) { return 0; }
int cuCtxPopCurrent_v2(long *context) { return 0; }
int cuThreadExchangeStreamCaptureMode(int *mode) { return 0; }
int cuModuleLoadData(long *module, const char *image) { *module = 1; return 0; }
int cuModuleUnload(void *module) { return 0; }
int cuModuleGetFunction(long *function, void *module, const char *name) { *function = 2; return 0; }
int cuFuncGetAttribute(int *value, int attribute, void *function) { *value = 1024; return 0; }
int cuLaunchKernelEx(void *config, void *function, void **parameters, void **extra) { launched++; return 0; }
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
    for module, name in ((driver, "library"), (launches, "library"), (products, "_library")):
        monkeypatch.setattr(module, name, lambda: library)
    handles = products._Handles({})
    monkeypatch.setattr(products, "_handles", lambda number: handles)
    return driver.Context(0x1234, 0)


def numbers(library: ctypes.CDLL) -> list[int]:
    return [*(ctypes.c_long * 14).in_dll(library, "numbers")]


def arrays(stream: int = 0, first: int = 4096) -> list[PlacedArray]:
    return [PlacedArray(first + 256 * number, stream) for number in range(3)]


def test_a_call_passes_what_the_product_is_and_each_thread_and_stream_has_its_handle(
    library: ctypes.CDLL, context: Any
) -> None:
    launch = products.launch(PRODUCT, [], Readers([], 0, None, lambda arrays: []), context)
    assert launch is not None
    used: dict[str, int] = {}

    def run(name: str, stream: int, alpha: float = 1.0, beta: float = 0.0) -> None:
        launch(arrays(stream), None, alpha, beta)
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
    launch(arrays(0, 1 << 20), None, 1.0, 0.0)
    assert numbers(library)[10] == 1 << 20


def test_a_call_in_another_context_makes_its_own_current(library: ctypes.CDLL, context: Any) -> None:
    launch = products.launch(PRODUCT, [], Readers([], 0, None, lambda arrays: []), context)
    assert launch is not None
    current = ctypes.c_long.in_dll(library, "current")
    current.value = 0
    launch(arrays(), None, 1.0, 0.0)
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
    monkeypatch.setattr(products, "_library", lambda: None)
    device.name = "another, without cuBLAS"
    assert host_times.of(device, context) is None
