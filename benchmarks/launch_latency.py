"""Host time of a launch, beside other libraries.

    python benchmarks/launch_latency.py --device cuda

Each installed library launches a kernel many times in a row, and synchronises before and after. The kernel is so small
that the device keeps up. The ways to launch alternate in rounds. The floor is the driver's launch function, called
through ctypes with arguments built beforehand.
"""

from __future__ import annotations

import argparse
import ctypes
import importlib.util
import itertools
import tempfile
import time
from collections.abc import Callable
from functools import partial
from statistics import quantiles
from typing import Any

import numpy as np

import tuner
from tuner.devices.work import Function, Run, Work
from tuner.families import vendor
from tuner.space.instance import Instance
from tuner.space.sources import rendering
from tuner.space.sources.source import StepSource
from tuner.store.lookup import Candidate

SIZE = 16
KERNELS = {"cuda": "sgemm/03_naive", "opencl": "sgemm/03_naive", "host": "sgemm/00_host_simple"}
_READ_AT_EACH_CALL: list[object] = []
Ways = dict[str, Callable[[], object]]  # by name; each adds no call of ours or Python's to the one it measures


def numpy_arrays() -> list[Any]:
    """C, A and B."""
    return [np.ones((1, SIZE, SIZE), np.float32) for _ in "CAB"]


def installed(name: str) -> bool:
    """Whether a package is installed."""
    return importlib.util.find_spec(name) is not None


def alternating(kernel: tuner.Kernel, *sets: list[Any]) -> Callable[[], object]:
    """A call that takes the sets of arrays in turn."""
    turns = itertools.cycle([partial(kernel, *arrays) for arrays in sets])
    return lambda: next(turns)()


class Array:
    """An array of no library, in the memory of a GPU."""

    def __init__(self, device: tuner.devices.Device, values: Any) -> None:
        self._memory = device.upload(values)
        self.ptr = int(self._memory.handle)
        self.__cuda_array_interface__ = {
            "shape": values.shape, "typestr": values.dtype.str, "data": (self.ptr, False), "version": 3
        }  # fmt: skip


def dispatched(kernel: tuner.Kernel) -> Callable[..., object]:
    """The same kernel through a handle for any size, which has loaded it."""
    return tuner.dispatch(kernel.space.name, device=kernel.device, library=False)


def by_library(kernel: tuner.Kernel, arrays: list[Any]) -> Callable[..., object]:
    """A handle for any size that runs the vendor's library on arrays like these, whatever is faster."""
    handle = tuner.dispatch(kernel.space.name, device=kernel.device, library=False, wait=True)
    handle.kernel(*arrays)
    candidate = Candidate({}, "default")
    library = vendor.load(kernel.space, kernel.scope, kernel.device, candidate, kind=vendor.LibraryKernel)
    assert library is not None, "the library is not installed"
    for key in handle._loaded:
        handle._loaded[key] = library
    return handle


def function_of(kernel: tuner.Kernel) -> Function:
    """The loaded function of its only step."""
    return next(action.function for action in kernel.program.work().actions if isinstance(action, Run))


def on_cuda(kernel: tuner.Kernel) -> Ways:
    """The ways on an NVIDIA GPU."""
    from tuner.devices.cuda.driver.context import library
    from tuner.devices.cuda.launches import Launch

    (code,) = rendering.render(Instance(kernel.space, kernel.config, kernel.scope))
    binary, geometry, function = kernel.device.build(code.source).binary, code.geometry, function_of(kernel)
    arrays = [Array(kernel.device, x) for x in numpy_arrays()]
    scalars = [np.int32(SIZE)] * 3 + [np.int32(1), np.float32(1), np.float32(0)]
    values: list[Any] = [ctypes.c_uint64(x.ptr) for x in arrays]
    values += [ctypes.c_int(int(x)) if x.dtype.kind == "i" else ctypes.c_float(float(x)) for x in scalars]
    parameters = (ctypes.c_void_p * len(values))(*(ctypes.addressof(value) for value in values))
    numbers = [ctypes.c_uint(n) for n in (*geometry.grid, *geometry.block, geometry.shared_memory)]
    arguments = (function.handle.handle, *numbers, ctypes.c_void_p(0), parameters, None)
    floor = partial(library().cuLaunchKernel, *arguments)
    extended = Launch(Work.of(function, [*(x.ptr for x in arrays), *scalars]))
    _READ_AT_EACH_CALL.append((arrays, values, extended))  # by the driver, so they must live
    ways: Ways = {
        "the floor: ctypes cuLaunchKernel": floor,
        "ctypes cuLaunchKernelEx": extended.enqueue,
        "tuner: bind(C, A, B)()": kernel.bind(*arrays),
        "tuner: kernel(C, A, B), any array": partial(kernel, *arrays),
        "tuner: dispatch(...)(C, A, B), any array": partial(dispatched(kernel), *arrays),
        "tuner: kernel(C, A, B, alpha=2.0), any array": partial(kernel, *arrays, alpha=2.0),
    }
    ways |= with_two_steps(kernel.device)
    if kernel.device.package == "pycuda":
        ways |= with_pycuda(kernel, code, binary, scalars)
    if installed("cupy"):
        ways |= with_cupy(kernel, code, binary, scalars)
    if installed("torch"):
        ways |= with_torch(kernel)
    return ways


def with_two_steps(device: tuner.devices.Device) -> Ways:
    """Ours of two steps with scratch between them: two launches."""
    sums = tuner.load("gallery/sum", 64, device=device)
    arrays = [Array(device, x) for x in (np.zeros(1, np.float32), np.zeros(64, np.float32))]
    return {
        "tuner: bind(total, x)(), two steps": sums.bind(*arrays),
        "tuner: kernel(total, x), two steps, any array": partial(sums, *arrays),
    }


def with_pycuda(kernel: tuner.Kernel, code: StepSource, binary: bytes, scalars: list[Any]) -> Ways:
    """Ours with PyCUDA's arrays, and PyCUDA's own."""
    from pycuda import driver, gpuarray

    geometry = code.geometry
    arrays, others = ([gpuarray.to_gpu(x) for x in numpy_arrays()] for _ in range(2))
    function = driver.module_from_buffer(binary).get_function(code.kernel)
    function.prepare("PPPiiiiff")
    plain = [*(x.gpudata for x in arrays), *(x.item() for x in scalars)]
    own = partial(function.prepared_async_call, geometry.grid, geometry.block, None, *plain)
    return {
        "tuner: kernel(C, A, B), PyCUDA": partial(kernel, *arrays),
        "tuner: dispatch(...)(C, A, B), PyCUDA": partial(dispatched(kernel), *arrays),
        "tuner: the same with other arrays each time, PyCUDA": alternating(kernel, arrays, others),
        "tuner: kernel(C, A, B, alpha=2.0), PyCUDA": partial(kernel, *arrays, alpha=2.0),
        "PyCUDA: prepared_async_call": own,
        "PyCUDA: function(...)": partial(function, *arrays, *scalars, block=geometry.block, grid=geometry.grid),
    }


def with_cupy(kernel: tuner.Kernel, code: StepSource, binary: bytes, scalars: list[Any]) -> Ways:
    """Ours with CuPy's arrays, and CuPy's own."""
    import cupy

    C, A, B = (cupy.asarray(x) for x in numpy_arrays())
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(binary)
        file.flush()
        raw = cupy.RawModule(path=file.name).get_function(code.kernel)
        own = partial(raw, code.geometry.grid, code.geometry.block, (C, A, B, *scalars))
        own()
    return {
        "tuner: kernel(C, A, B), CuPy": partial(kernel, C, A, B),
        "tuner: dispatch(...)(C, A, B), CuPy": partial(dispatched(kernel), C, A, B),
        "CuPy: RawKernel": own,
    }


def with_torch(kernel: tuner.Kernel) -> Ways:
    """Ours with torch's tensors, torch's own, and Triton's."""
    import torch

    C, A, B = (torch.from_numpy(x).cuda() for x in numpy_arrays())
    tuner.matmul(A[0], B[0], C[0], wait=True)
    ways: Ways = {
        "tuner: kernel(C, A, B), torch": partial(kernel, C, A, B),
        "tuner: dispatch(...)(C, A, B), torch": partial(dispatched(kernel), C, A, B),
        "tuner: dispatch(...)(C, A, B) that runs cuBLAS, torch": partial(by_library(kernel, [C, A, B]), C, A, B),
        "tuner: matmul(A, B, out), torch": partial(tuner.matmul, A[0], B[0], C[0]),
        "tuner: matmul(A, B, out) of padded rows, by cuBLAS, torch": partial(
            tuner.matmul, torch.rand(SIZE, 2 * SIZE, device="cuda")[:, :SIZE], B[0], C[0]
        ),
        "tuner: matmul(A, B), torch": partial(tuner.matmul, A[0], B[0]),
        "torch: mm(A, B)": partial(torch.mm, A[0], B[0]),
        "torch: add(A, B, out=C)": partial(torch.add, A, B, out=C),
        "torch: mm(A, B, out=C)": partial(torch.mm, A[0], B[0], out=C[0]),
    }
    if installed("triton"):
        import triton
        from triton import language

        globals()["language"] = language  # Triton looks names up in the module

        @triton.jit  # type: ignore[untyped-decorator]
        def added(C, A, B, n, block: language.constexpr):  # type: ignore[no-untyped-def]
            at = language.arange(0, block)
            sums = language.load(A + at, mask=at < n) + language.load(B + at, mask=at < n)
            language.store(C + at, sums, mask=at < n)

        ways["Triton: kernel[grid](C, A, B, n)"] = lambda: added[(1,)](C, A, B, SIZE * SIZE, block=256)
    return ways


def on_opencl(kernel: tuner.Kernel) -> Ways:
    """The ways on an OpenCL device."""
    import pyopencl as cl
    from pyopencl import array

    device: Any = kernel.device
    C, A, B = (array.to_device(device.queue, x) for x in numpy_arrays())
    handles: list[Any] = [x.data for x in (C, A, B)]
    function = function_of(kernel)
    geometry = function.geometry
    total = tuple(blocks * threads for blocks, threads in zip(geometry.grid, geometry.block, strict=True))
    floor_kernel = cl.Kernel(function.handle, function.kernel)
    scalars = [np.int32(SIZE)] * 3 + [np.int32(1), np.float32(1), np.float32(0)]
    floor_kernel.set_args(*handles, *scalars)

    def floor() -> None:
        cl.enqueue_nd_range_kernel(device.queue, floor_kernel, total, geometry.block)
        device.queue.flush()

    own = cl.Kernel(function.handle, function.kernel)
    return {
        "the floor: enqueue_nd_range_kernel, flush": floor,
        "tuner: bind(C, A, B)()": kernel.bind(C, A, B),
        "tuner: kernel(C, A, B)": partial(kernel, C, A, B),
        "tuner: dispatch(...)(C, A, B)": partial(dispatched(kernel), C, A, B),
        "pyopencl: kernel(queue, ...)": partial(own, device.queue, total, geometry.block, *handles, *scalars),
    }


def on_host(kernel: tuner.Kernel) -> Ways:
    """The ways on the host, where a launch includes the kernel."""
    C, A, B = numpy_arrays()
    addresses = [ctypes.c_void_p(x.ctypes.data) for x in (C, A, B)]
    arguments = [*addresses, *[ctypes.c_int(SIZE)] * 3, ctypes.c_int(1), ctypes.c_float(1), ctypes.c_float(0)]
    function = function_of(kernel).handle
    return {
        "the floor: ctypes": partial(function, *arguments),
        "tuner: bind(C, A, B)()": kernel.bind(C, A, B),
        "tuner: kernel(C, A, B)": partial(kernel, C, A, B),
        "tuner: dispatch(...)(C, A, B)": partial(dispatched(kernel), C, A, B),
    }


def microseconds(way: Callable[[], object], launches: int, device: tuner.devices.Device) -> float:
    """Host time of a launch, the mean of `launches`."""
    device.synchronize()
    start = time.perf_counter()
    for _ in range(launches):
        way()
    seconds = time.perf_counter() - start
    device.synchronize()
    return seconds / launches * 1e6


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument(
        "--launches", type=int, default=500, help="launches in a row; a GPU's queue holds about a thousand"
    )
    options = parser.parse_args()
    kind = options.device.partition(":")[0]
    kernel = tuner.load(KERNELS[kind], SIZE, device=options.device)
    ways = {"cuda": on_cuda, "opencl": on_opencl, "host": on_host}[kind](kernel)
    times: dict[str, list[float]] = {name: [] for name in ways}
    for way in ways.values():
        microseconds(way, 50, kernel.device)
    for _ in range(options.rounds):
        for name, way in ways.items():
            times[name].append(microseconds(way, options.launches, kernel.device))
    quartiles = {name: quantiles(values, n=4) for name, values in times.items()}
    floor = next(iter(quartiles.values()))[1]
    where = ", ".join(filter(None, (kernel.device.name, kernel.device.package)))
    print(f"{kernel.space.name} at {SIZE} on {where}: {options.rounds} rounds of {options.launches}\n")
    print("| way | us, median | quartiles | of the floor |\n|---|---|---|---|")
    for name, (low, median, high) in quartiles.items():
        print(f"| {name} | {median:.2f} | {low:.2f} to {high:.2f} | {median / floor:.2f} |")


if __name__ == "__main__":
    main()
