"""The launcher on a real NVIDIA GPU, beside the libraries whose arrays it takes: `pytest -m gpu -n 0`."""

from __future__ import annotations

import itertools
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tuner
from helpers import ROOT
from helpers.arrays import (
    LIBRARIES,
    SHAPE,
    Foreign,
    arrays,
    in_threads,
    installed_libraries,
    on_gpu,
    on_host,
    ones,
    pycuda_driver,
)
from helpers.gpu_arrays import Own
from helpers.kernels import Stage
from helpers.processes import Tune
from helpers.records import choosy
from tuner.catalog import catalog, kernel_lists
from tuner.devices import Device
from tuner.devices.builds import build_cache, bundles
from tuner.errors import ArgumentError
from tuner.store.store import Store

pytestmark = [pytest.mark.gpu, pytest.mark.filterwarnings("ignore:.*earlier version")]


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("kernel", ["sgemm/03_naive", "sgemm/04_strided", "sgemm/07_tiled_1xn"])
def test_a_loaded_kernel_computes_on_arrays_of_every_library(library: str, kernel: str, cuda: Device) -> None:
    C, A, B = arrays()
    before = C.copy()
    given = [on_gpu(library, x) for x in (C, A, B)]
    tuner.load(kernel, SHAPE, device=cuda)(*given, alpha=2.0, beta=0.5)
    cuda.synchronize()
    np.testing.assert_allclose(on_host(given[0]), 2 * (A @ B) + 0.5 * before, rtol=1e-5)


@pytest.mark.parametrize("name", [name for name in kernel_lists.names() if name.startswith("hgemm/")])
def test_a_product_of_halves_is_right_wherever_its_arrays_may_begin(name: str, cuda: Device) -> None:
    shapes = {"C": (1, 136, 264), "A": (1, 136, 72), "B": (1, 72, 264)}
    random = np.random.default_rng(1)
    least = 1 if catalog.load(name).alignment == 1 else 128  # bytes: boxes of the TMA may ask for more than the file
    given = []
    for array, shape in shapes.items():
        values = random.random(shape, dtype=np.float32).astype(np.float32 if array == "C" else np.float16)
        given.append(Own(cuda, values, offset=max(values.itemsize, least)))
    before, A, B = (x.get().astype(np.float64) for x in given)
    tuner.load(name, {"M": 136, "N": 264, "K": 72}, device=cuda)(*given, alpha=2.0, beta=0.5)
    cuda.synchronize()
    np.testing.assert_allclose(given[0].get(), 2 * (A @ B) + 0.5 * before, rtol=1e-5)


def test_arrays_of_different_libraries_go_together(cuda: Device) -> None:
    kernel = tuner.load("sgemm/03_naive", SHAPE, device=cuda)
    C, A, B = arrays()
    for order in itertools.product(installed_libraries(), repeat=3):
        given = [on_gpu(library, x) for library, x in zip(order, (C, A, B), strict=True)]
        kernel(*given)
        cuda.synchronize()
        np.testing.assert_allclose(on_host(given[0]), A @ B, rtol=1e-5)
    foreign = [Foreign(interface=x.__cuda_array_interface__) for x in given]
    kernel(*foreign, alpha=3.0)
    cuda.synchronize()
    np.testing.assert_allclose(on_host(given[0]), 3 * (A @ B), rtol=1e-5)


def test_an_array_that_its_library_changes_is_looked_at_again(cuda: Device) -> None:
    kernel = tuner.load("sgemm/03_naive", 16, device=cuda)
    C, other, A, B = (Own(cuda, np.full((1, 16, 16), value, np.float32)) for value in (0, 0, 1, 1))
    for _ in range(2):
        kernel(C, A, B)
    C.__cuda_array_interface__["data"] = other.__cuda_array_interface__["data"]
    kernel(C, A, B, alpha=2.0)
    assert (C.get() == 16).all()
    assert (other.get() == 32).all()
    for name, value, message in (
        ("data", (A.__cuda_array_interface__["data"][0], True), "C: is read-only"),
        ("shape", (16, 16), "C: has shape"),
        ("typestr", "<f8", "dtype float64"),
    ):
        before, C.__cuda_array_interface__[name] = C.__cuda_array_interface__[name], value
        with pytest.raises(ArgumentError, match=message):
            kernel(C, A, B)
        C.__cuda_array_interface__[name] = before
        kernel(C, A, B)


@pytest.mark.parametrize("library", ["pycuda", "cupy", "torch"])
def test_an_argument_that_does_not_fit_is_named(library: str, cuda: Device) -> None:
    kernel = tuner.load("sgemm/12_warptiled", SHAPE, device=cuda)
    C, A, B = (on_gpu(library, x) for x in arrays())
    wide = on_gpu(library, np.zeros((1, 50, 60), np.float32))
    shifted = on_gpu(library, np.zeros(1501, np.float32))[1:].reshape(1, 50, 30)
    read_only = Foreign(interface={**A.__cuda_array_interface__, "shape": (1, 40, 30), "strides": None})
    read_only.__cuda_array_interface__["data"] = (A.__cuda_array_interface__["data"][0], True)
    misfits: list[tuple[tuple[Any, ...], str]] = [
        ((C, A, wide[:, :, ::2]), "B: has strides"),
        ((C, A, shifted), "B: begins 4 bytes after a multiple of 16"),
        ((C, wide, B), r"A: has shape \(1, 50, 60\)"),
        ((C, on_gpu(library, arrays()[1].astype(np.float64)), B), "A: has shape .* dtype float64"),
        ((C, A, arrays()[2]), "B: of type ndarray, which is not on the GPU"),
        ((C, A), "2 arrays given; it takes 3: C, A, B"),
        ((), "0 arrays given"),
        ((read_only, A, B), "C: is read-only"),
    ]
    if library == "torch":
        misfits.append(((C, A, B.clone().requires_grad_()), r"B: requires grad, .* pass \.detach"))
        misfits.append(((C, A.cpu(), B), "A: of type Tensor, which is not on the GPU"))
    for launch in (kernel, kernel.bind):
        launch(C, A, B)  # what has been taken once is looked at again
        for given, message in misfits:
            with pytest.raises(ArgumentError, match=message):
                launch(*given)
    square = tuner.load("sgemm/12_warptiled", 16, device=cuda)
    C, A = (on_gpu(library, np.zeros((1, 16, 16), np.float32)) for _ in "CA")
    with pytest.raises(ArgumentError, match="C: shares memory with B"):
        square(C, A, C)
    square(C, A, A)
    with pytest.raises(ArgumentError, match="stream: of type str"):
        square(C, A, A, stream="0")
    naive = tuner.load("sgemm/03_naive", SHAPE, device=cuda)
    naive(on_gpu(library, arrays()[0]), on_gpu(library, arrays()[1]), shifted)  # this one loads float by float


def test_threads_share_a_kernel(cuda: Device) -> None:
    cupy = pytest.importorskip("cupy")
    kernel = tuner.load("sgemm/03_naive", 16, device=cuda)
    given = [ones(cupy) for _ in range(8)]
    for number, (_, A, _) in enumerate(given, 1):
        A *= number
    bound = kernel.bind(*given[0], beta=1.0)
    cuda.synchronize()

    def work(number: int) -> None:
        for _ in range(500):
            kernel(*given[number], beta=1.0)
        for _ in range(500 if number == 0 else 0):
            bound()

    in_threads(work, 8)
    cuda.synchronize()
    for number, (C, *_) in enumerate(given, 1):
        assert (C.get() == (1000 if number == 1 else 500 * number) * 16).all()


def test_each_launch_goes_where_the_arrays_lie_by_then(cuda: Device) -> None:
    driver, gpuarray = pycuda_driver(), pytest.importorskip("pycuda.gpuarray")

    class Turning(driver.PointerHolderBase):
        def get_pointer(self) -> int:
            turns.append(turns.pop(0))
            return int(turns[0].gpudata)

    kernel = tuner.load("sgemm/03_naive", 16, device=cuda)
    turns = [on_gpu("pycuda", np.zeros((1, 16, 16), np.float32)) for _ in range(2)]
    A, B = (on_gpu("pycuda", np.ones((1, 16, 16), np.float32)) for _ in "AB")
    C = gpuarray.GPUArray((1, 16, 16), np.float32, gpudata=Turning())
    kernel(C, A, B)
    kernel(C, A, B)
    assert all((one.get() == 16).all() for one in turns)
    C = on_gpu("pycuda", np.zeros((1, 16, 16), np.float32))
    kernel(C, A, B)
    A.gpudata = on_gpu("pycuda", np.full((1, 16, 16), 2, np.float32)).gpudata
    kernel(C, A, B)
    assert (C.get() == 32).all()
    C.gpudata = turns[1].gpudata
    kernel(C, A, B)
    assert (turns[1].get() == 32).all()
    C.gpudata = None
    for _ in range(2):
        with pytest.raises(ArgumentError, match="C: "):
            kernel(C, A, B)
    A.shape = (16, 16)
    with pytest.raises(ArgumentError, match="A: has shape"):
        kernel(turns[0], A, B)


CHOOSY = """
extern "C" __global__ void __launch_bounds__(mode == 1 ? 64 : 1024)
choosy(float *C, const float *A, const float *B, int M, int N, int K, int batch, float a, float b) {
    C[threadIdx.x % 256] = mode;
}
"""


def test_the_next_best_is_taken_with_a_warning_where_the_best_does_not_launch(
    cuda: Device, stage: Stage, tmp_path: Path
) -> None:
    more = "default: {mode: 0}\ngrid: [1]\nblock: [1024]"
    file = stage(CHOOSY, "choosy", "{mode: [0, 1, 2]}", "cuda", more)
    space = catalog.load(str(file))
    assert Store(space.name, tmp_path / "store").add(choosy(cuda, space, [1, 2]))
    with pytest.warns(UserWarning, match="mode=2>: used because .*: loading choosy: 1024 threads per block"):
        kernel = tuner.load(file, 16, device=cuda, results=tmp_path / "store")
    C, A, B = (Own(cuda, np.zeros((1, 16, 16), np.float32)) for _ in "CAB")
    kernel(C, A, B)
    assert (C.get() == 2).all()
    assert kernel.match == "exact"


EXPORTED = """
import sys
sys.path.append(sys.argv[2])
sys.modules |= {"cuda.bindings.nvrtc": None, "nvidia": None}
import numpy as np, tuner
from helpers.gpu_arrays import Own
kernel = tuner.load("sgemm/03_naive", 16, device="cuda", binaries=sys.argv[1])
C, A, B = (Own(kernel.device, np.ones((1, 16, 16), np.float32)) for _ in "CAB")
kernel(C, A, B)
assert (C.get() == 16).all()
print(kernel.config)
"""


def test_an_exported_cubin_is_launched_where_there_is_no_compiler(
    cuda: Device, tune: Tune, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle = tmp_path / "bundle"
    done = tune("export", "sgemm/03_naive", "16", "--to", "cubin", "--device", "cuda", "--output", bundle)
    assert done.status == 0, done.err
    (build,) = bundles.read(bundle, "sgemm/03_naive")
    space = catalog.load("sgemm/03_naive")
    better = replace(choosy(cuda, space, []), config={"block_size_x": 256, "block_size_y": 4, "fixed_sizes": 0})
    assert better.config != build.config  # the bundle's is taken all the same
    assert Store(space.name, tmp_path / "store").add(better)
    monkeypatch.setenv("TUNER_RESULTS", str(tmp_path / "store"))
    monkeypatch.setenv("TUNER_CACHE", str(tmp_path / "empty"))
    command = [sys.executable, "-c", EXPORTED, str(bundle), str(ROOT / "tests")]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (run.returncode, run.stdout) == (0, f"{build.config}\n"), run.stderr
    assert not list(build_cache.folder().iterdir())
