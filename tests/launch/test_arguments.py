"""An argument that does not fit is named before anything is launched."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import tuner
from helpers.arrays import SHAPE, arrays
from helpers.kernels import Stage
from tuner.devices import Device
from tuner.errors import ArgumentError, DeviceError

# An edited kernel makes the shipped records stale until it is tuned again; that is not what is tested here.
pytestmark = pytest.mark.filterwarnings("ignore:.*earlier version")


def read_only(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    copy = array.copy()
    copy.flags.writeable = False
    return copy


C, A, B = arrays()

MISFITS: dict[str, tuple[tuple[Any, ...], str]] = {
    "shape": ((C, A[:, :39], B), r"A: has shape \(1, 39, 50\).*\(1, 40, 50\)"),
    "dtype": ((C, A, B.astype(np.float64)), "B: has shape .* dtype float64"),
    "order": ((np.asfortranarray(C), A, B), "C: has strides"),
    "slice": ((C, A, np.zeros((1, 50, 60), np.float32)[:, :, ::2]), "B: has strides"),
    "device": ((C, [1.0], B), "A: of type list; pass a NumPy array"),
    "read-only": ((read_only(C), A, B), "C: is read-only"),
    "masked": ((C, np.ma.masked_less(A, 0.5), B), "A: is masked"),
    "too few": ((C, A), "2 arrays given; it takes 3: C, A, B"),
    "none": ((), "0 arrays given"),
    "sizes": (
        (C, A, B, 40, np.int32(50)),
        "5 arguments given; it takes 3: C, A, B; pass no sizes, and options by name",
    ),
    "unaligned": ((C, A, np.zeros(6001, np.uint8)[1:].view(np.float32).reshape(1, 50, 30)), "B: begins . bytes after"),
}


@pytest.mark.parametrize("misfit", MISFITS)
def test_an_argument_that_does_not_fit_is_named(misfit: str, host: Device) -> None:
    given, message = MISFITS[misfit]
    kernel = tuner.load("sgemm/00_host_simple", SHAPE, device=host)
    for launch in (kernel, kernel.bind):
        with pytest.raises(ArgumentError, match=message):
            launch(*given)


@pytest.mark.slow
def test_an_argument_from_another_opencl_context_is_named(opencl: Any) -> None:
    import pyopencl as cl
    from pyopencl import array

    kernel = tuner.load("sgemm/03_naive", SHAPE, device=opencl)
    other = cl.CommandQueue(cl.Context(opencl.context.devices))
    given = [array.to_device(queue, x) for queue, x in zip((opencl.queue, other, opencl.queue), arrays(), strict=True)]
    with pytest.raises(ArgumentError, match="A: is in another OpenCL context"):
        kernel(*given)
    handle = tuner.dispatch("sgemm/03_naive")
    assert handle.device is None  # so the message must say how to get one that has a queue
    with pytest.raises(ArgumentError, match=r"C: is in another .*; `kernel` .* `tuner.dispatch` with `device=.opencl"):
        handle(*(array.to_device(other, x) for x in arrays()))
    part = array.to_device(opencl.queue, np.zeros((2, 40, 50), np.float32))[1:2]
    with pytest.raises(ArgumentError, match="A: begins 8000 bytes inside another array"):
        kernel(given[0], part, given[2])
    with pytest.raises(ArgumentError, match=r"C: of type ndarray; pass .*to_device\(kernel.device.queue, C\)"):
        kernel(*arrays())


@pytest.mark.slow
def test_all_that_name_one_opencl_device_share_its_context(opencl: Any) -> None:
    from pyopencl import array

    kernel = tuner.load("sgemm/03_naive", 16, device="opencl")
    device: Any = kernel.device
    handle = tuner.dispatch("sgemm/03_naive", device="opencl:0")
    assert handle.device is not None
    assert handle.device.id == opencl.id
    A, B = (array.to_device(device.queue, np.ones((1, 16, 16), np.float32)) for _ in "AB")
    for launch in (kernel, handle, tuner.dispatch("sgemm/03_naive", device="opencl")):
        C = array.empty_like(A)
        launch(C, A, B)
        assert (C.get() == 16).all()


ON_THE_SECOND = """
import numpy as np
from pyopencl import array
import tuner
kernel = tuner.load("sgemm/03_naive", 16, device="opencl:1")
C, A, B = (array.to_device(kernel.device.queue, np.ones((1, 16, 16), np.float32)) for _ in "CAB")
handle = tuner.dispatch("sgemm/03_naive")
handle(C, A, B)
assert (C.get() == 16).all()
print(handle.kernel(C, A, B).device.id)
"""


@pytest.mark.slow
def test_a_family_runs_on_the_opencl_device_of_its_arrays() -> None:
    environment = {**os.environ, "POCL_DEVICES": "basic basic"}
    done = subprocess.run([sys.executable, "-c", ON_THE_SECOND], capture_output=True, text=True, env=environment)
    assert done.stdout == "opencl:1\n", done.stderr


def test_arrays_of_the_host_for_a_family_that_does_not_run_there_are_one_message() -> None:
    with pytest.raises(DeviceError, match="not on host, the device of these arrays; create them on a supported device"):
        tuner.dispatch("sgemm/03_naive")(*arrays())


def test_an_output_that_is_an_input_too_is_named(host: Device) -> None:
    kernel = tuner.load("sgemm/00_host_simple", 16, device=host)
    memory = np.zeros(1000, np.float32)
    first, second = (memory[start : start + 256].reshape(1, 16, 16) for start in (0, 255))
    with pytest.raises(ArgumentError, match="C: shares memory with B"):
        kernel(first, np.zeros((1, 16, 16), np.float32), second)
    kernel(first, second.copy(), first.copy())


ALIGNED = "void aligned(float *C, const float *A, const float *B, int M, int N, int K, int batch, float a, float b) { }"


def test_a_stage_says_where_its_arrays_must_begin(stage: Stage, host: Device) -> None:
    kernel = tuner.load(stage(ALIGNED, "aligned", "{x: [1]}", more="alignment: 64"), 16, device=host)
    memory = np.zeros(2000, np.float32)
    begin = -memory.ctypes.data % 64 // 4
    C, A, B = (memory[begin + start : begin + start + 256].reshape(1, 16, 16) for start in (0, 256, 512 + 4))
    with pytest.raises(ArgumentError, match="B: begins 16 bytes after a multiple of 64"):
        kernel(C, A, B)
    kernel(C, A, A)


@pytest.mark.slow
def test_a_stream_that_is_none_is_refused(host: Device, opencl: Any) -> None:
    from pyopencl import array

    with pytest.raises(ArgumentError, match="stream: the host has no streams"):
        tuner.load("sgemm/00_host_simple", SHAPE, device=host)(*arrays(), stream=7)
    with pytest.raises(ArgumentError, match="stream: of type int; pass a queue"):
        tuner.load("sgemm/03_naive", SHAPE, device=opencl)(
            *(array.to_device(opencl.queue, x) for x in arrays()), stream=7
        )


def test_a_pyopencl_array_whose_memory_is_not_what_it_says_is_named(opencl: Any) -> None:
    import pyopencl as cl
    from pyopencl import array

    kernel = tuner.load("sgemm/03_naive", 128, device=opencl)
    nbytes = 4 * 128 * 128

    def over(buffer: Any) -> Any:
        return array.Array(opencl.queue, (1, 128, 128), np.float32, data=buffer)

    def made(size: int, flag: Any = cl.mem_flags.READ_WRITE) -> Any:
        return cl.Buffer(opencl.context, flag, size)

    A, B = over(made(nbytes)), over(made(nbytes))
    whole = made(4 * nbytes)
    first, second = (whole.get_sub_region(begin, nbytes) for begin in (0, nbytes - 4096))
    for given, message in [
        ((over(made(1000)), A, B), "C: its buffer has 1000 bytes; 65536 are needed"),
        ((over(made(nbytes, cl.mem_flags.READ_ONLY)), A, B), "C: its buffer may only be read"),
        ((A, over(made(nbytes, cl.mem_flags.WRITE_ONLY)), B), "A: its buffer may only be written"),
        ((over(first), A, over(second)), "C: shares memory with B"),
        ((over(whole), over(first), B), "C: shares memory with A"),
    ]:
        with pytest.raises(ArgumentError, match=message):
            kernel(*given)
    kernel(over(first), A, over(whole.get_sub_region(nbytes, nbytes)))
    unordered = cl.CommandQueue(opencl.context, properties=cl.command_queue_properties.OUT_OF_ORDER_EXEC_MODE_ENABLE)
    with pytest.raises(ArgumentError, match="stream: is an out-of-order queue"):
        kernel(over(first), A, B, stream=unordered)
