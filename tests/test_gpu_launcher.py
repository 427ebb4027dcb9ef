"""The launcher on a real NVIDIA GPU, beside the libraries whose arrays it takes: `pytest -m gpu -n 0`."""

from __future__ import annotations

import functools
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import Done
from test_gpu import on_gpu, on_host
from test_launcher import SHAPE, a_record, arrays, in_threads

import tuner
from tuner import devices
from tuner.devices import Device, build_cache
from tuner.errors import ArgumentError, LaunchError
from tuner.space import catalog
from tuner.store.store import Store

pytestmark = [pytest.mark.gpu, pytest.mark.filterwarnings("ignore:.*earlier version")]
LIBRARIES = ["pycuda", "cupy", "torch"]


def ones(cupy: Any) -> tuple[Any, Any, Any]:
    """A C of zeros, an A and a B of ones: each element of their product is 16."""
    return cupy.zeros((1, 16, 16), "float32"), *(cupy.ones((1, 16, 16), "float32") for _ in "AB")


class Foreign:
    """A stream of a library that nobody knows, and an array of one."""

    def __init__(self, stream: int = 0, interface: Any = None) -> None:
        self._handle = stream
        self.__cuda_array_interface__ = interface

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self._handle


def captured(cupy: Any, stream: Any, launch: Callable[[], None], C: Any) -> None:
    """Asserts that what `launch` enqueues goes into `stream`: while that is being captured nothing runs, and then the
    graph does. Captured in the mode that forbids all that might synchronise."""
    C.fill(0)
    cupy.cuda.Device().synchronize()
    stream.begin_capture(cupy.cuda.runtime.streamCaptureModeGlobal)
    try:
        launch()
    finally:
        graph = stream.end_capture()
    cupy.cuda.Device().synchronize()
    assert (C.get() == 0).all()
    for _ in range(2):
        C.fill(0)
        cupy.cuda.Device().synchronize()
        graph.launch(stream)
        stream.synchronize()
        assert (C.get() == 16).all()


@pytest.mark.filterwarnings("ignore:ExternalStream is deprecated")
@pytest.mark.parametrize(
    "way", ["current", "stream", "handle", "protocol", "pycuda", "bound", "bound while current", "foreign"]
)
def test_a_launch_goes_into_the_stream_that_is_named_or_current_and_can_be_captured(way: str, cuda: Device) -> None:
    cupy = pytest.importorskip("cupy")
    kernel = tuner.load("sgemm/03_naive", 16, device=cuda)
    C, A, B = ones(cupy)
    stream = cupy.cuda.Stream(non_blocking=True)
    if way == "pycuda":
        from pycuda import driver

        made = driver.Stream()
        stream = cupy.cuda.ExternalStream(made.handle)
        captured(cupy, stream, lambda: kernel(C, A, B, stream=made), C)
    elif way == "current":
        with stream:
            captured(cupy, stream, lambda: kernel(C, A, B), C)
    elif way == "bound while current":
        with stream:
            captured(cupy, stream, kernel.bind(C, A, B), C)
    elif way == "foreign":
        arrays = [Foreign(interface=x.__cuda_array_interface__) for x in (C, A, B)]
        captured(cupy, stream, lambda: kernel(*arrays, stream=stream), C)
    elif way == "bound":
        captured(cupy, stream, kernel.bind(C, A, B, stream=stream), C)
    else:
        named = {"stream": stream, "handle": stream.ptr, "protocol": Foreign(stream.ptr)}[way]
        captured(cupy, stream, lambda: kernel(C, A, B, stream=named), C)
    kernel(C, A, B, beta=1.0)  # and the next one goes into the default stream again
    assert (C.get() == 32).all()


def test_torchs_own_graph_captures_a_launch(cuda: Device) -> None:
    torch = pytest.importorskip("torch")
    kernel = tuner.load("sgemm/03_naive", 16, device=cuda)
    C, A, B = (torch.full((1, 16, 16), value, device="cuda:0") for value in (0.0, 1.0, 1.0))
    kernel(C, A, B)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kernel(C, A, B, beta=1.0)
        C.mul_(2)
    torch.cuda.synchronize()
    assert bool((C == 16).all())
    graph.replay()
    torch.cuda.synchronize()
    assert bool((C == 64).all())
    other = torch.cuda.Stream()
    with torch.cuda.stream(other):
        kernel(C, A, B)
    kernel(C, A, B, stream=other, beta=1.0)
    other.synchronize()
    assert bool((C == 32).all())


def test_arrays_of_different_libraries_go_together(cuda: Device) -> None:
    kernel = tuner.load("sgemm/03_naive", SHAPE, device=cuda)
    C, A, B = arrays()
    for order in (LIBRARIES, LIBRARIES[::-1], ["cupy", "pycuda", "torch"]):
        given = [on_gpu(library, x) for library, x in zip(order, (C, A, B), strict=True)]
        kernel(*given)
        cuda.synchronize()
        np.testing.assert_allclose(on_host(given[0]), A @ B, rtol=1e-5)
    foreign = [Foreign(interface=x.__cuda_array_interface__) for x in given]
    kernel(*foreign, alpha=3.0)
    cuda.synchronize()
    np.testing.assert_allclose(on_host(given[0]), 3 * (A @ B), rtol=1e-5)


@pytest.mark.parametrize("library", LIBRARIES)
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


IN_A_THREAD = """
import threading
import numpy as np
import cupy, tuner
def work():
    kernel = tuner.load("sgemm/03_naive", 16, device="cuda")
    C, A, B = (cupy.ones((1, 16, 16), "float32") for _ in "CAB")
    kernel(C, A, B)
    assert (C.get() == 16).all()
for _ in range(2):
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
print("done")
"""


def test_a_kernel_can_be_loaded_in_a_thread_that_ends() -> None:
    pytest.importorskip("cupy")
    done = subprocess.run([sys.executable, "-c", IN_A_THREAD], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr


@pytest.mark.parametrize("library", LIBRARIES)
def test_what_another_library_makes_current_in_between_does_no_harm(library: str, cuda: Device) -> None:
    from pycuda import driver

    from tuner.devices.cuda import driver as libcuda

    kernel = tuner.load("sgemm/03_naive", SHAPE, device=cuda)
    C, A, B = (on_gpu(library, x) for x in arrays())
    launch = kernel.bind(C, A, B, alpha=2.0)
    other = driver.Device(0).make_context()
    try:
        before = libcuda.current_context()
        assert before == other.handle
        kernel(C, A, B)
        cuda.synchronize()
        launch()
        assert libcuda.current_context() == before
        with pytest.raises(LaunchError, match="invalid"):
            kernel(C, A, B, stream=driver.Stream())  # of the other context
        with pytest.raises(ArgumentError, match="C: lies in another context of cuda:0"):
            kernel(*(on_gpu("pycuda", x) for x in arrays()))
    finally:
        other.pop()
        other.detach()
    cuda.synchronize()
    np.testing.assert_allclose(on_host(C), 2 * (arrays()[1] @ arrays()[2]), rtol=1e-5)


AUTOINIT = """
import numpy as np
import pycuda.autoinit
from pycuda import gpuarray
import tuner
kernel = tuner.load("sgemm/03_naive", 16, device="cuda")
C, A, B = (gpuarray.to_gpu(np.ones((1, 16, 16), np.float32)) for _ in "CAB")
kernel(C, A, B)
kernel.bind(C, A, B, beta=1.0)()
assert (C.get() == 32).all()
print("done")
"""


def test_a_kernel_works_in_the_context_that_pycudas_autoinit_makes() -> None:
    done = subprocess.run([sys.executable, "-c", AUTOINIT], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr


SECOND_FIRST = """
import threading
import cupy, tuner
kernel = tuner.load("sgemm/03_naive", 16, device="cuda:1")
with cupy.cuda.Device(1):
    given = [cupy.ones((1, 16, 16), "float32") for _ in "CAB"]
    cupy.cuda.Device().synchronize()
def work():
    before = cupy.cuda.runtime.getDevice()
    kernel(*given)
    kernel.device.synchronize()
    assert cupy.cuda.runtime.getDevice() == before == 0
thread = threading.Thread(target=work)
thread.start()
thread.join()
assert (given[0].get() == 16).all()
print("done")
"""


def test_a_launch_on_another_gpu_does_not_change_where_other_libraries_work() -> None:
    pytest.importorskip("cupy")
    if devices.count("cuda") < 2:
        pytest.skip("one GPU")
    done = subprocess.run([sys.executable, "-c", SECOND_FIRST], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr


def test_two_gpus_in_one_process(cuda: Device) -> None:
    cupy = pytest.importorskip("cupy")
    if devices.count("cuda") < 2:
        pytest.skip("one GPU")
    second = devices.open("cuda:1")
    kernels = [tuner.load("sgemm/03_naive", 16, device=device) for device in (cuda, second)]
    given = []
    for number in range(2):
        with cupy.cuda.Device(number):
            given.append(ones(cupy))
    for _ in range(3):
        for kernel, (C, A, B) in zip(kernels, given, strict=True):
            kernel(C, A, B, beta=1.0)
    for number, (kernel, (C, _, _)) in enumerate(zip(kernels, given, strict=True)):
        kernel.device.synchronize()
        with cupy.cuda.Device(number):
            assert (C.get() == 48).all()
    with pytest.raises(ArgumentError, match="C: lies on cuda:1; the kernel was loaded on cuda:0"):
        kernels[0](*given[1])
    context = primary(1)
    context.push()
    try:
        C, A, B = (on_gpu("pycuda", np.ones((1, 16, 16), np.float32)) for _ in "CAB")
        for _ in range(2):
            kernels[1](C, A, B)
            with pytest.raises(ArgumentError, match="C: lies on cuda:1"):
                kernels[0](C, A, B)
        assert (C.get() == 16).all()
    finally:
        context.pop()


@functools.cache
def primary(number: int) -> Any:
    """The primary context of a GPU. Kept, because PyCUDA leaves it current when it gives it back."""
    from pycuda import driver

    return driver.Device(number).retain_primary_context()


def test_each_launch_goes_where_the_arrays_lie_by_then(cuda: Device) -> None:
    from pycuda import driver, gpuarray

    class Turning(driver.PointerHolderBase):  # type: ignore[misc]  # PyCUDA has no types
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
    cuda: Device, stage: Callable[..., Path], tmp_path: Path
) -> None:
    more = "default: {mode: 0}\ngrid: [1]\nblock: [1024]"
    file = stage(CHOOSY, "choosy", "{mode: [0, 1, 2]}", "cuda", more)
    space = catalog.load(str(file))
    assert Store(space.name, tmp_path / "store").add(a_record(cuda, space, [1, 2]))
    with pytest.warns(UserWarning, match="mode=2>: taken because .*: loading choosy: 1024 threads per block"):
        kernel = tuner.load(file, 16, device=cuda, results=tmp_path / "store")
    C, A, B = (on_gpu("pycuda", np.zeros((1, 16, 16), np.float32)) for _ in "CAB")
    kernel(C, A, B)
    assert (C.get() == 2).all()
    assert kernel.match == "exact"


EXPORTED = """
import sys
sys.modules |= {"cuda": None, "nvidia": None}
import numpy as np, tuner
kernel = tuner.load("sgemm/03_naive", 16, device="cuda", binaries=sys.argv[1])
from pycuda import gpuarray
C, A, B = (gpuarray.to_gpu(np.ones((1, 16, 16), np.float32)) for _ in "CAB")
kernel(C, A, B)
assert (C.get() == 16).all()
print(kernel.config)
"""


def test_an_exported_cubin_is_launched_where_there_is_no_compiler(
    cuda: Device, tune: Callable[..., Done], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle = tmp_path / "bundle"
    done = tune("export", "sgemm/03_naive", "16", "--to", "cubin", "--device", "cuda", "--output", bundle)
    assert done.status == 0, done.err
    (exported,) = build_cache.exported(bundle, "sgemm/03_naive")
    space = catalog.load("sgemm/03_naive")
    better = replace(a_record(cuda, space, []), config={"block_size_x": 256, "block_size_y": 4, "fixed_sizes": 0})
    assert better.config != exported.config  # the bundle's is taken all the same
    assert Store(space.name, tmp_path / "store").add(better)
    monkeypatch.setenv("TUNER_RESULTS", str(tmp_path / "store"))
    monkeypatch.setenv("TUNER_CACHE", str(tmp_path / "empty"))
    command = [sys.executable, "-c", EXPORTED, str(bundle)]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (run.returncode, run.stdout) == (0, f"{exported.config}\n"), run.stderr
    assert not list(build_cache.folder().iterdir())
