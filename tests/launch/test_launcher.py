"""Kernels loaded and launched on this machine's processor and on OpenCL."""

from __future__ import annotations

import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tuner
from helpers.arrays import SHAPE, arrays
from tuner.devices import Device
from tuner.errors import RequestError, SpaceError

# An edited kernel makes the shipped records stale until it is tuned again; that is not what is tested here.
pytestmark = pytest.mark.filterwarnings("ignore:.*earlier version")


def test_a_loaded_kernel_computes_on_numpy_arrays(host: Device) -> None:
    kernel = tuner.load("sgemm/01_host_blocked", SHAPE, device=host)
    C, A, B = arrays()
    before = C.copy()
    kernel(C, A, B, alpha=2.0, beta=0.5)
    np.testing.assert_allclose(C, 2 * (A @ B) + 0.5 * before, rtol=1e-5)
    assert kernel.match == "default"
    assert kernel.record is None
    assert "01_host_blocked" in repr(kernel)


def test_a_loaded_kernel_computes_on_pyopencl_arrays(opencl: Any) -> None:
    from pyopencl import array

    kernel = tuner.load("sgemm/03_naive", SHAPE, device=opencl)
    C, A, B = arrays()
    on_device = [array.to_device(opencl.queue, x) for x in (C, A, B)]
    kernel(*on_device)
    np.testing.assert_allclose(on_device[0].get(), A @ B, rtol=1e-5)


def test_a_bound_launch_can_be_repeated_and_keeps_its_arrays(host: Device) -> None:
    kernel = tuner.load("sgemm/00_host_simple", SHAPE, device=host)
    C, A, B = arrays()
    launch = kernel.bind(C, A, B, alpha=3.0)
    A *= 2
    launch()
    expected, kept = 3 * (A @ B), weakref.ref(A)
    np.testing.assert_allclose(C, expected, rtol=1e-5)
    del A, B
    C[:] = 0
    launch()
    np.testing.assert_allclose(C, expected, rtol=1e-5)
    del launch, kernel
    assert kept() is None


def test_options_hold_for_one_launch(host: Device) -> None:
    kernel = tuner.load("sgemm/00_host_simple", SHAPE, device=host)
    C, A, B = arrays()
    for options in ({"alpha": 2.0}, {}, {"alpha": 3.0}, {"alpha": 2.0}):
        kernel(C, A, B, **options)
        np.testing.assert_allclose(C, options.get("alpha", 1.0) * (A @ B), rtol=1e-5)


def test_options_are_what_it_was_loaded_with_where_a_launch_names_no_others(host: Device) -> None:
    kernel = tuner.load("sgemm/00_host_simple", SHAPE, device=host, options={"alpha": 2.0})
    C, A, B = arrays()
    for options, factor in (
        ({}, 2),
        ({"alpha": 1.0}, 1),
        ({"beta": 0.0}, 2),
        ({"alpha": -0.0}, 0),
        ({"alpha": 0.0}, 0),
    ):
        kernel(C, A, B, **options)
        np.testing.assert_allclose(C, factor * (A @ B), rtol=1e-5)
    assert not np.signbit(C).any()  # 0.0 is not taken for -0.0, nor True for 1.0
    with pytest.raises(RequestError, match="option alpha = True: a finite number"):
        kernel(C, A, B, alpha=True)
    with pytest.raises(RequestError, match=r"option alpha = 1.*: a finite number"):
        kernel(C, A, B, alpha=10**400)
    for large in (1e300, -(2**200)):
        with pytest.raises(RequestError, match="does not fit the kernel's float32"):
            kernel(C, A, B, alpha=large)


SCALED = """
title: Every step-th element
operation:
  sizes: {n: }
  options: {step: 1, a: 1.0}
  extent: [n]
  arguments:
    - {name: y, dtype: float32, shape: [n * step], role: out}
    - {name: n, dtype: int32}
    - {name: a, dtype: float32}
  reference: a + 0 * y
kernel: scaled
source: scaled.c
languages: [c]
parameters: {x: [1]}
"""


def test_an_option_that_shapes_or_code_depend_on_is_settled_when_the_kernel_is_loaded(
    host: Device, tmp_path: Path
) -> None:
    file = tmp_path / "scaled.yaml"
    file.write_text(SCALED)
    (tmp_path / "scaled.c").write_text(
        "void scaled(float *y, int n, float a) { for (int i = 0; i < n; i++) y[i] = a; }"
    )
    kernel = tuner.load(file, 8, device=host)
    y = np.zeros(8, np.float32)
    kernel(y, a=3.0, step=1)
    assert (y == 3).all()
    for launch in (kernel, kernel.bind):
        with pytest.raises(RequestError, match=r"option step = 4: .* fixed when .*; load it with options={'step'"):
            launch(y, step=4)
    tuner.load(file, 8, device=host, options={"step": 4})(np.zeros(32, np.float32))


def test_load_refuses_what_cannot_be(host: Device) -> None:
    with pytest.raises(RequestError, match="no exact record"):
        tuner.load("sgemm/00_host_simple", 64, device=host, strict=True)
    with pytest.raises(SpaceError, match=r"openmp = 7; allowed: \[0, 1\]"):
        tuner.load("sgemm/00_host_simple", 64, device=host, config={"openmp": 7})
    with pytest.raises(RequestError, match="no such option"):
        tuner.load("sgemm/00_host_simple", SHAPE, device=host)(*arrays(), gamma=1)
    with pytest.raises(RequestError, match="option A: no such option; it is an array: pass arrays by position"):
        tuner.load("sgemm/00_host_simple", SHAPE, device=host)(A=arrays()[1])
    for wrong, message in [
        ({"config": {"openmp": 1}, "strict": True}, "`config` replaces the look-up"),
        ({"config": 5}, r"load\(config=5\): write names with values"),
        ({"options": [1]}, r"load\(options=\[1\]\): write names with values"),
        ({"results": 5}, r"load\(results=5\): write the path"),
        ({"binaries": "a\0b"}, "write the path of a folder"),
    ]:
        with pytest.raises(RequestError, match=message):
            tuner.load("sgemm/00_host_simple", 64, device=host, **wrong)


def test_two_kernels_that_are_loaded_by_name_take_the_same_pyopencl_arrays() -> None:
    from pyopencl import array

    first, second = (tuner.load(name, SHAPE, device="opencl") for name in ("sgemm/03_naive", "sgemm/06_tiled"))
    device: Any = first.device
    C, A, B = (array.to_device(device.queue, x) for x in arrays())
    first(C, A, B)
    second(C, A, B, beta=1.0)
    np.testing.assert_allclose(C.get(), 2 * (A.get() @ B.get()), rtol=1e-5)


@pytest.mark.parametrize("given", ["the array's own", "named", "bound"])
def test_a_launch_goes_into_the_queue_of_the_array_or_the_one_that_is_named(given: str, opencl: Any) -> None:
    import pyopencl as cl
    from pyopencl import array

    kernel = tuner.load("sgemm/03_naive", SHAPE, device=opencl)
    queue, gate = cl.CommandQueue(opencl.context), cl.UserEvent(opencl.context)
    own = queue if given == "the array's own" else opencl.queue
    C, A, B = (array.to_device(own, x) for x in arrays())
    before = C.get()
    cl.enqueue_barrier(queue, wait_for=[gate])  # nothing after it runs in this queue until the gate opens
    if given == "bound":
        kernel.bind(C, A, B, stream=queue)()
    else:
        kernel(C, A, B, **({"stream": queue} if given == "named" else {}))
    now = np.empty_like(before)
    cl.enqueue_copy(opencl.queue, now, C.base_data).wait()
    np.testing.assert_array_equal(now, before)
    gate.set_status(cl.command_execution_status.COMPLETE)
    queue.finish()
    np.testing.assert_allclose(C.get(queue), A.get() @ B.get(), rtol=1e-5)
