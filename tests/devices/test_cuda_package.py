"""PyCUDA where it can be imported, else cuda-bindings, unless TUNER_CUDA says which; and CUDA's headers in conda."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from helpers import ROOT
from helpers.operations import array, written
from helpers.processes import Done, Tune, run
from tuner import devices
from tuner.devices.cuda import chosen_gpu

# As much of a driver as it takes to describe a GPU: an sm_75 of 4 multiprocessors.
DRIVER = """
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
static void *current;
int cuInit(unsigned f) { return f; }
int cuDriverGetVersion(int *v) { *v = 13020; return 0; }
int cuDeviceGetCount(int *n) { *n = 1; return 0; }
int cuDeviceGet(int *d, int n) { *d = n; return n != 0; }
int cuDeviceGetName(char *n, int l, int d) { snprintf(n, l, "a test's own"); return d; }
int cuDeviceGetPCIBusId(char *n, int l, int d) { snprintf(n, l, "0000:18:00.0"); return d; }
int cuDeviceGetAttribute(int *v, int a, int d) { *v = a == 75 ? 7 : a == 76 ? 5 : a == 16 ? 4 : 1024; return d; }
int cuDevicePrimaryCtxRetain(void **c, int d) { *c = &current; return REFUSED + d; }
int cuCtxGetCurrent(void **c) { *c = current; return 0; }
int cuCtxSetCurrent(void *c) { current = c; return c != &current; }
int cuMemGetInfo_v2(size_t *f, size_t *t) { *f = *t = 1 << 20; return current == NULL; }
int cuGetProcAddress_v2(const char *name, void **f, int version, unsigned long long flags, int *found) {
    char second[200];
    void *self = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    snprintf(second, sizeof second, "%s_v2", name);
    *f = dlsym(self, second) ? dlsym(self, second) : dlsym(self, name);
    if (found) *found = *f == NULL;
    return version < 0 || flags > 2;
}
"""
BROKEN = "raise ImportError('libcurand.so.10 is not here')"

without_driver = pytest.mark.skipif(devices.count("cuda") > 0, reason="there is a driver; -m gpu runs it")


def tune_with(
    tmp_path: Path,
    *arguments: str,
    refused: int = 0,
    broken: tuple[str, ...] = ("pycuda",),
    use: str = "",
) -> Done:
    """`tune` where there is a driver, and the packages `broken` cannot be imported."""
    flags = [f"-DREFUSED={refused}", "-shared", "-fPIC", "-x", "c"]
    run("cc", *flags, "-o", tmp_path / "libcuda.so.1", "-", text=DRIVER)
    for package in broken:
        (tmp_path / "packages" / package).mkdir(parents=True)
        (tmp_path / "packages" / package / "__init__.py").write_text(BROKEN)
    path = os.pathsep.join([str(tmp_path / "packages"), str(ROOT)])
    environment = {**os.environ, "LD_LIBRARY_PATH": str(tmp_path), "PYTHONPATH": path, chosen_gpu.VARIABLE: use}
    command = [sys.executable, "-m", "tuner", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    return Done(done.returncode, done.stdout, done.stderr)


@pytest.mark.slow
@without_driver
@pytest.mark.parametrize("use", ["", "bindings"])
def test_a_gpu_is_reached_through_cuda_bindings_where_pycuda_cannot_be_imported(use: str, tmp_path: Path) -> None:
    done = tune_with(tmp_path, "devices", "--json", use=use)
    assert done.status == 0, done.err
    (found,) = [row for row in json.loads(done.out) if row["device"].startswith("cuda")]
    assert (found["package"], found["name"], found["architecture"]) == ("cuda-bindings", "a test's own", "sm_75")
    assert found["toolchain"].endswith("CUDA driver 13.2")
    assert (found["memory"], found["max_threads"], found["peak"]["multiprocessors"]) == (1 << 20, 1024, 4)


@pytest.mark.slow
@without_driver
def test_a_package_that_is_asked_for_and_cannot_be_imported_is_one_message(tmp_path: Path) -> None:
    done = tune_with(tmp_path, "devices", use="pycuda")
    assert (done.status, done.out) == (2, "")
    reason = "it cannot be imported (libcurand.so.10 is not here); install it, or unset TUNER_CUDA"
    assert done.err == f"error: TUNER_CUDA=pycuda: {reason}\n"


@pytest.mark.slow
@without_driver
def test_without_any_package_there_is_no_gpu_and_a_message_says_why(tmp_path: Path) -> None:
    done = tune_with(tmp_path, "show", "sgemm/03_naive", "16", "--device", "cuda", broken=("pycuda", "cuda"))
    assert (done.status, len(done.err.splitlines())) == (2, 1)
    assert "device 'cuda': neither PyCUDA nor cuda-bindings can be imported (libcurand.so.10 is not here; " in done.err
    assert done.err.endswith("; pip install -e '.[cuda]' in the checkout, or pip install cuda-bindings\n")


@pytest.mark.slow
@without_driver
def test_a_driver_that_refuses_is_one_message(tmp_path: Path) -> None:
    done = tune_with(tmp_path, "show", "sgemm/03_naive", "16", "--device", "cuda", refused=2)
    assert (done.status, done.err) == (2, "error: device 'cuda': the driver reports CUDA_ERROR_OUT_OF_MEMORY\n")


@pytest.mark.slow
@without_driver
def test_a_gpu_that_is_not_there_is_one_message(tmp_path: Path) -> None:
    done = tune_with(tmp_path, "show", "sgemm/03_naive", "16", "--device", "cuda:1")
    assert (done.status, done.err) == (
        2, "error: device cuda:1: NVIDIA GPUs of this machine: 1; see `tune devices`\n"
    )  # fmt: skip


def test_a_word_that_names_no_package_is_one_message(tune: Tune, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(chosen_gpu.VARIABLE, "cupy")
    for arguments in (["devices"], ["show", "sgemm/03_naive", "16", "--device", "cuda"], ["03_naive", "16"]):
        done = tune(*arguments)
        assert (done.status, done.out) == (2, "")
        assert done.err == "error: TUNER_CUDA='cupy': not supported; write pycuda or bindings\n"


@pytest.mark.slow
def test_the_headers_of_a_conda_environment_are_found(tmp_path: Path) -> None:
    headers = tmp_path / "environment/targets/x86_64-linux/include"
    headers.mkdir(parents=True)
    (headers / "of_this_environment.h").write_text("#define ONE 1.0f\n")
    code = """#include <of_this_environment.h>
extern "C" __global__ void f(float *y, int n) { if (threadIdx.x < n) y[threadIdx.x] = ONE; }
"""
    file = written(tmp_path, code, [array("y", "float32", ["n"], "out")], "full(n, 1.0)", "cuda", block=[32])
    prefix = f"import sys; sys.prefix = {str(headers.parents[2])!r}; from tuner.__main__ import main; main()"
    command = [sys.executable, "-c", prefix, "validate", str(file), "32", "--compile"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert "the default compiles" in done.stdout, done.stderr


@pytest.mark.gpu
def test_both_packages_say_the_same_of_a_gpu() -> None:
    pytest.importorskip("pycuda.driver")
    from tuner.devices.cuda.bindings_gpu import BindingsGpu
    from tuner.devices.cuda.pycuda_gpu import PycudaGpu

    found = []
    for gpus in (PycudaGpu, BindingsGpu):
        count, version = gpus.count(), gpus.driver_version()
        one = gpus(count - 1)
        attributes = [one.attribute(name) for name in ("CLOCK_RATE", "L2_CACHE_SIZE", "MAX_BLOCKS_PER_MULTIPROCESSOR")]
        facts = (one.name, one.compute_capability, one.bus_id, one.primary_context())
        found.append((count, version, attributes, facts))
    assert found[0] == found[1]
