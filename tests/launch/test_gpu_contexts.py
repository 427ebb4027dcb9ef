"""Streams, graphs, contexts and GPUs that others make current: `pytest -m gpu -n 0`."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tuner
from helpers.arrays import LIBRARIES, SHAPE, Foreign, arrays, on_gpu, on_host, ones, pycuda_driver
from tuner import devices
from tuner.devices import Device
from tuner.devices.cuda.driver.context import current_context, library
from tuner.errors import ArgumentError, LaunchError

pytestmark = [pytest.mark.gpu, pytest.mark.filterwarnings("ignore:.*earlier version")]


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
        made = pycuda_driver().Stream()
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


OUTLIVES_THE_MODULES = """
import builtins
import tuner
builtins.kernel = tuner.load("sgemm/03_naive", 16, device="cuda")  # deleted after the modules
builtins.buffer = builtins.kernel.device.allocate(16)
print("done")
"""


def test_a_kernel_that_outlives_the_modules_ends_in_silence() -> None:
    done = subprocess.run([sys.executable, "-c", OUTLIVES_THE_MODULES], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr
    assert "Exception ignored" not in done.stderr


@pytest.mark.parametrize("library", LIBRARIES)
def test_what_another_library_makes_current_in_between_does_no_harm(library: str, cuda: Device) -> None:
    kernel = tuner.load("sgemm/03_naive", SHAPE, device=cuda)
    C, A, B = (on_gpu(library, x) for x in arrays())
    launch = kernel.bind(C, A, B, alpha=2.0)
    with other_context() as other:
        kernel(C, A, B)
        cuda.synchronize()
        launch()
        assert current_context() == other
        with pytest.raises(LaunchError, match="invalid"):
            kernel(C, A, B, stream=made("cuStreamCreate", ctypes.c_void_p(), 0))
        far = []
        for x in arrays():
            address = made("cuMemAlloc_v2", ctypes.c_uint64(), ctypes.c_size_t(x.nbytes))
            far.append(Foreign(interface={"shape": x.shape, "typestr": "<f4", "version": 3, "data": (address, False)}))
        with pytest.raises(ArgumentError, match="C: is in another context of cuda:0"):
            kernel(*far)
    cuda.synchronize()
    np.testing.assert_allclose(on_host(C), 2 * (arrays()[1] @ arrays()[2]), rtol=1e-5)


@contextlib.contextmanager
def other_context() -> Iterator[int]:
    """Makes a context that is not the primary one and leaves it current meanwhile. What was made in it goes with it."""
    handle = ctypes.c_void_p(made("cuCtxCreate_v2", ctypes.c_void_p(), 0, 0))
    try:
        yield handle.value or 0
    finally:
        assert library().cuCtxDestroy_v2(handle) == 0


def made(function: str, result: ctypes.c_void_p | ctypes.c_uint64, *arguments: Any) -> int:
    """What a function of the driver makes in the current context."""
    assert getattr(library(), function)(ctypes.byref(result), *arguments) == 0
    return result.value or 0


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
    pytest.importorskip("pycuda")
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
    second = devices.open_device("cuda:1")
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
    with pytest.raises(ArgumentError, match="C: is on cuda:1, but the kernel was loaded on cuda:0"):
        kernels[0](*given[1])


def test_an_array_of_pycuda_on_another_gpu_is_refused(cuda: Device) -> None:
    pycuda_driver()
    if devices.count("cuda") < 2:
        pytest.skip("one GPU")
    second = devices.open_device("cuda:1")
    kernels = [tuner.load("sgemm/03_naive", 16, device=device) for device in (cuda, second)]
    context = primary(1)
    context.push()
    try:
        C, A, B = (on_gpu("pycuda", np.ones((1, 16, 16), np.float32)) for _ in "CAB")
        for _ in range(2):
            kernels[1](C, A, B)
            with pytest.raises(ArgumentError, match="C: is on cuda:1"):
                kernels[0](C, A, B)
        assert (C.get() == 16).all()
    finally:
        context.pop()


@functools.cache
def primary(number: int) -> Any:
    """The primary context of a GPU. Kept, because PyCUDA leaves it current when it gives it back."""
    return pycuda_driver().Device(number).retain_primary_context()
