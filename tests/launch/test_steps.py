"""Configurations of several launches, loaded and called: on the host, on OpenCL and on CUDA."""

from __future__ import annotations

import pickle
import signal
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tuner
from helpers.arrays import in_threads, on_host
from helpers.kernels import outcome_of
from helpers.processes import Tune, run
from helpers.steps import DERIVED, LAST, PARTS, SUM, given, integers, written, written_sum
from tuner.catalog import catalog
from tuner.devices import Device
from tuner.errors import ArgumentError, RequestError

DEVICES = ["host", "opencl", pytest.param("cuda", marks=pytest.mark.gpu)]
N = 1000


@pytest.fixture(params=DEVICES)
def device(request: pytest.FixtureRequest) -> Device:
    found: Device = request.getfixturevalue(request.param)
    return found


def result(array: Any, device: Device) -> Any:
    """What a launch has left in an array."""
    device.synchronize()
    return array if device.kind == "host" else on_host(array)


def test_two_steps_are_one_launch_that_is_called_and_bound(device: Device, tmp_path: Path) -> None:
    kernel = tuner.load(written_sum(tmp_path), N, device=device)
    x = integers(N)
    total, on_device = given(device, np.zeros(1, np.float32), x)
    kernel(total, on_device)
    assert result(total, device) == x.sum()
    kernel(total, on_device, scale=2.0)
    assert result(total, device) == 2 * x.sum()
    launch = kernel.bind(total, on_device, scale=3.0)
    for _ in range(3):
        launch()
        assert result(total, device) == 3 * x.sum()
    kernel(total, on_device)
    assert result(total, device) == x.sum()
    assert kernel.shapes == {"total": (1,), "x": (N,)}  # no caller passes scratch
    with pytest.raises(ArgumentError, match="3 arrays given; it takes 2: total, x"):
        kernel(total, on_device, total)


def test_what_a_launch_with_scratch_cannot_take_is_named_and_the_next_launch_is_right(
    opencl: Any, tmp_path: Path
) -> None:
    import pyopencl as cl

    kernel = tuner.load(written_sum(tmp_path), N, device=opencl)
    good = given(opencl, np.zeros(1, np.float32), integers(N))
    elsewhere = given(opencl, np.zeros(1, np.float32), integers(N), queue=cl.CommandQueue(cl.Context([opencl._device])))
    for arrays, message in (
        ((), "0 arrays given; it takes 2: total, x"),
        ((np.zeros(1, np.float32), integers(N)), "total: of type ndarray"),
        ((None, None), "total: of type NoneType"),
        (elsewhere, "total: is in another"),
        ((good[1], good[0]), r"total: has shape \(1000,\)"),
    ):
        for launch in (kernel, kernel.bind):
            with pytest.raises(ArgumentError, match=message):
                launch(*arrays)
        kernel(*good)
        assert good[0].get() == integers(N).sum()
    with pytest.raises(ArgumentError, match="stream: of type int"):
        kernel(*good, stream=3)


def test_a_bound_launch_tells_what_its_scratch_holds(device: Device, tmp_path: Path) -> None:
    kernel = tuner.load(written_sum(tmp_path), N, device=device)
    x = integers(N)
    launch = kernel.bind(*given(device, np.zeros(1, np.float32), x))
    launch()
    partial = launch.scratch("partials")
    assert (partial.dtype, partial.sum()) == (np.float32, x.sum())
    with pytest.raises(RequestError, match=r"scratch\(.total.\): the scratch arrays of .* are partials"):
        launch.scratch("total")


@pytest.mark.slow
def test_a_step_may_have_a_source_of_its_own(device: Device, tmp_path: Path) -> None:
    written(tmp_path, "last", LAST, "")
    file = written(tmp_path, "sum", PARTS, SUM.replace("kernel: sum_last,", "kernel: sum_last, source: last.cu,"))
    total, x = given(device, np.zeros(1, np.float32), integers(N))
    tuner.load(file, N, device=device)(total, x)
    assert result(total, device) == integers(N).sum()


def test_a_step_with_an_edited_source_is_another_kernel(host: Device, tmp_path: Path) -> None:
    written(tmp_path, "last", LAST, "")
    file = written(tmp_path, "sum", PARTS, SUM.replace("kernel: sum_last,", "kernel: sum_last, source: last.cu,"))
    total, x = given(host, np.zeros(1, np.float32), integers(N))
    tuner.load(file, N, device=host)(total, x)
    written(tmp_path, "last", LAST.replace("scale * sum", "scale * sum + 1"), "")
    tuner.load(file, N, device=host)(total, x)
    assert total == integers(N).sum() + 1


@pytest.mark.slow
@pytest.mark.parametrize("name", DEVICES)
def test_several_steps_tune_store_and_load(
    name: str, request: pytest.FixtureRequest, tmp_path: Path, tune: Tune
) -> None:
    file = written_sum(tmp_path)
    done = tune(file, N, "--device", name, "--repeats", "3", "--json")
    assert (done.status, done.json["evaluated"], done.json["failed"]) == (0, 4, {}), done.err
    kernel = tuner.load(file, N, device=request.getfixturevalue(name))
    assert kernel.match == "exact"
    assert kernel.config == done.json["best"]["config"]


@pytest.mark.slow
def test_a_pickled_kernel_of_several_steps_launches_in_another_process(host: Device, tmp_path: Path) -> None:
    kernel = tuner.load(written_sum(tmp_path), N, device=host, options={"scale": 2.0})
    file = tmp_path / "kernel.pickle"
    file.write_bytes(pickle.dumps(kernel))
    launch = (
        "import pickle, sys, numpy as np\n"
        "kernel = pickle.loads(open(sys.argv[1], 'rb').read())\n"
        f"total, x = np.zeros(1, np.float32), np.ones({N}, np.float32)\n"
        "kernel(total, x)\n"
        "print(total[0])"
    )
    assert run(sys.executable, "-c", launch, file).stdout == f"{2.0 * N}\n"


@pytest.mark.slow
def test_calls_of_several_threads_and_queues_share_no_scratch(opencl: Any, tmp_path: Path) -> None:
    import pyopencl as cl

    kernel = tuner.load(written_sum(tmp_path), N, device=opencl)
    queues = [cl.CommandQueue(opencl.context) for _ in range(2)]
    xs = [integers(N, seed) for seed in range(8)]
    arrays = [
        [given(opencl, np.zeros(1, np.float32), x, queue=queues[(i + j) % 2]) for j in range(2)]
        for i, x in enumerate(xs)
    ]

    def work(number: int) -> None:
        bound = kernel.bind(*arrays[number][1], stream=queues[number % 2])
        for _ in range(100):
            kernel(*arrays[number][0])
            kernel(*arrays[number][1], stream=queues[number % 2])
            for queue in queues:
                queue.finish()
            assert arrays[number][0][0].get() == arrays[number][1][0].get() == xs[number].sum()
            bound()

    in_threads(work, 8)


def test_threads_share_a_kernel_of_several_steps_on_the_host(host: Device, tmp_path: Path) -> None:
    kernel = tuner.load(written_sum(tmp_path), 100_000, device=host)
    xs = [integers(100_000, seed) for seed in range(8)]

    def work(number: int) -> None:
        total = np.zeros(1, np.float32)
        for _ in range(50):
            kernel(total, xs[number])
            assert total == xs[number].sum()

    in_threads(work, 8)


COUNT = """\
KERNEL void mark(GLOBAL int *marks, GLOBAL const int *x, int n) {
    for (int i = THREAD; i < n; i += THREADS) { marks[x[i]] += 1; }
}
KERNEL void collect(GLOBAL int *y, GLOBAL int *marks, int n) {
    for (int i = THREAD; i < n; i += THREADS) {
        y[i] = marks[i];
#if clears
        marks[i] = 0;
#endif
    }
}
"""
COUNTS = """\
title: Marks at the places that a permutation names
operation:
  sizes: {n: }
  arguments:
    - {name: y, dtype: int32, shape: [n], role: out}
    - {name: x, dtype: int32, shape: [n], role: in, fill: permutation}
    - {name: marks, dtype: int32, shape: [n], role: scratch, zeroed: ZEROED}
    - {name: n, dtype: int32}
  reference: 0 * x + 1
source: count.cu
languages: [cuda, opencl, c]
steps:
  - {kernel: mark, arguments: [marks, x, n], grid: [4], block: [32]}
  - {kernel: collect, arguments: [y, marks, n], grid: [4], block: [32]}
parameters: {clears: [CLEARS]}
"""


@pytest.mark.slow
@pytest.mark.parametrize(("zeroed", "clears"), [("each", 0), ("once", 1)])
def test_scratch_is_zero_before_each_call(zeroed: str, clears: int, device: Device, tmp_path: Path) -> None:
    text = COUNTS.replace("ZEROED", zeroed).replace("CLEARS", str(clears))
    kernel = tuner.load(written(tmp_path, "count", COUNT, text), N, device=device)
    x = np.random.default_rng(1).permutation(N).astype(np.int32)
    y, on_device = given(device, np.zeros(N, np.int32), x)
    launch = kernel.bind(y, on_device)
    for call in (lambda: kernel(y, on_device), launch) * 3:
        call()
        assert (result(y, device) == 1).all()


@pytest.mark.slow
@pytest.mark.parametrize(("zeroed", "clears"), [("each", 0), ("once", 1)])
def test_threads_take_turns_with_a_bound_launch_that_has_scratch(
    zeroed: str, clears: int, device: Device, tmp_path: Path
) -> None:
    """None runs its first step between the steps of another."""
    text = COUNTS.replace("ZEROED", zeroed).replace("CLEARS", str(clears)).replace("role: out", "role: inout")
    code = COUNT.replace("y[i] = marks[i];", "y[i] += marks[i] == 1;")
    kernel = tuner.load(written(tmp_path, "count", code, text), N, device=device)
    y, x = given(device, np.zeros(N, np.int32), np.random.default_rng(1).permutation(N).astype(np.int32))
    launch = kernel.bind(y, x)
    in_threads(lambda number: [launch() for _ in range(250)] and None)
    assert (result(y, device) == 1000).all()


NEXT = """\
KERNEL void keep(GLOBAL int *before, GLOBAL const int *y, int n) {
    for (int i = THREAD; i < n; i += THREADS) { before[i] = y[i]; }
}
KERNEL void add(GLOBAL int *y, GLOBAL const int *before, int n) {
    for (int i = THREAD; i < n; i += THREADS) { y[i] = before[i] + 1; }
}
"""
NEXTS = """\
title: One more than before, which the caller gets too
operation:
  sizes: {n: }
  arguments:
    - {name: y, dtype: int32, shape: [n], role: inout}
    - {name: before, dtype: int32, shape: [n], role: out}
    - {name: n, dtype: int32}
  reference: {y: y + 1, before: y}
source: next.cu
languages: [cuda, opencl, c]
steps:
  - {kernel: keep, arguments: [before, y, n], grid: [4], block: [32]}
  - {kernel: add, arguments: [y, before, n], grid: [4], block: [32]}
parameters: {p: [1]}
"""


@pytest.mark.slow
def test_threads_take_turns_with_a_bound_launch_of_steps_that_meet_in_an_output(device: Device, tmp_path: Path) -> None:
    kernel = tuner.load(written(tmp_path, "next", NEXT, NEXTS), 20_000, device=device)
    y, before = given(device, *(np.zeros(20_000, np.int32) for _ in range(2)))
    launch = kernel.bind(y, before)
    in_threads(lambda number: [launch() for _ in range(250)] and None)
    assert (result(y, device) == 1000).all()


@pytest.mark.slow
def test_a_signal_handler_may_call_a_bound_launch_within_a_call(opencl: Any, tmp_path: Path) -> None:
    kernel = tuner.load(written(tmp_path, "next", NEXT, NEXTS), N, device=opencl)
    y, before = given(opencl, *(np.zeros(N, np.int32) for _ in range(2)))
    launch, random, calls, within = kernel.bind(y, before), np.random.default_rng(1), 0, False

    def handle(*_: object) -> None:
        nonlocal calls, interrupted
        calls, interrupted = calls + 1, interrupted + within
        launch()

    interrupted, handler = 0, signal.signal(signal.SIGALRM, handle)
    try:
        for _ in range(500):
            signal.setitimer(signal.ITIMER_REAL, random.uniform(5e-6, 8e-5))
            within = True
            launch()
            within, calls = False, calls + 1
            signal.setitimer(signal.ITIMER_REAL, 0)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, handler)
    assert interrupted > 10
    assert (result(y, opencl) == calls).all()


@pytest.mark.slow
def test_a_launch_that_an_interrupt_ends_leaves_no_dirty_scratch_to_the_next_one(opencl: Any, tmp_path: Path) -> None:
    text = COUNTS.replace("ZEROED", "once").replace("CLEARS", "1")
    kernel = tuner.load(written(tmp_path, "count", COUNT, text), N, device=opencl)
    y, x = given(opencl, np.zeros(N, np.int32), np.random.default_rng(1).permutation(N).astype(np.int32))

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    launch, random, interrupted = kernel.bind(y, x), np.random.default_rng(1), 0
    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        for call in (launch, lambda: kernel(y, x)) * 100:
            try:
                signal.setitimer(signal.ITIMER_REAL, random.uniform(5e-6, 8e-5))
                call()
                signal.setitimer(signal.ITIMER_REAL, 0)
            except KeyboardInterrupt:
                interrupted += 1
            call()
            assert (y.get() == 1).all()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert interrupted > 10


@pytest.mark.slow
def test_a_loaded_kernel_tells_and_checks_the_shape_that_its_configuration_gives_an_output(
    device: Device, tmp_path: Path
) -> None:
    file = written(tmp_path, "sum", PARTS, DERIVED)
    for blocks in (8, 64):
        kernel = tuner.load(file, N, device=device, config={"blocks": blocks})
        assert kernel.shapes == {"partials": (blocks,), "x": (N,)}
        partials, short, x = given(device, *(np.zeros(b, np.float32) for b in (blocks, blocks // 2)), integers(N))
        kernel(partials, x)
        assert result(partials, device).sum() == integers(N).sum()
        with pytest.raises(ArgumentError, match=rf"partials: .*{blocks // 2}.*{blocks}"):
            kernel(short, x)


CONSTANT = """\
#ifdef __CUDACC__
__constant__ float weights[16];
#define WEIGHTS
#elif defined(__OPENCL_VERSION__)
#define WEIGHTS __constant float *weights,
#else
#define WEIGHTS const float *weights,
#endif
KERNEL void apply(GLOBAL float *y, WEIGHTS GLOBAL const float *x, int n) {
    for (int i = THREAD; i < n; i += THREADS) {
        float sum = 0;
        for (int j = 0; j < width; j++) { sum += weights[j] * x[i + j]; }
        y[i] = sum;
    }
}
"""
CONSTANTS = """\
title: A filter of constant memory
operation:
  sizes: {n: , width: 5}
  arguments:
    - {name: y, dtype: float32, shape: [n], role: out}
    - {name: weights, kind: constant, dtype: float32, shape: [width], role: in}
    - {name: x, dtype: float32, shape: [n + width - 1], role: in}
    - {name: n, dtype: int32}
  reference: "correlate(x, weights, mode='valid')"
kernel: apply
source: constant.cu
languages: [cuda, opencl, c]
grid: [8]
block: [threads]
derived: {width_: width}
parameters: {threads: [32, 64]}
"""


@pytest.fixture
def constant(tmp_path: Path) -> Path:
    return written(tmp_path, "constant", CONSTANT.replace("width", "width_"), CONSTANTS)


@pytest.mark.slow
def test_a_constant_is_passed_in_the_order_of_the_operation(device: Device, constant: Path) -> None:
    kernel = tuner.load(constant, N, device=device)
    x = integers(N + 4)
    filters = [integers(5, seed) for seed in (2, 3)]
    y, on_device, *weights = given(device, np.zeros(N, np.float32), x, *filters)
    bound = [kernel.bind(y, w, on_device) for w in weights]
    for _ in range(3):
        for weight, launch, w in zip(weights, bound, filters, strict=True):
            for call in (launch, lambda weight=weight: kernel(y, weight, on_device)):
                call()
                np.testing.assert_allclose(result(y, device), np.correlate(x, w, "valid"))


@pytest.mark.slow
def test_a_constant_is_verified_on_several_sets_of_inputs(device: Device, constant: Path) -> None:
    assert outcome_of(catalog.load(str(constant)), device, "1000") is None


LOCAL = """\
__kernel void reverse(__global float *y, __global const float *x, __local float *tile, int n) {
    const int i = get_global_id(0), l = get_local_id(0);
    tile[l] = x[i];
    barrier(CLK_LOCAL_MEM_FENCE);
    y[i] = tile[get_local_size(0) - 1 - l];
}
"""
LOCALS = """\
title: Each group reversed
operation:
  sizes: {n: }
  arguments:
    - {name: y, dtype: float32, shape: [n], role: out}
    - {name: x, dtype: float32, shape: [n], role: in}
    - {name: tile, kind: local, dtype: float32, shape: [threads]}
    - {name: n, dtype: int32}
  derive: {total: sum(y)}
  reference: {total: sum(x)}
  tolerance: {total: {atol: 1e-6 * n}}
kernel: reverse
languages: [opencl]
source: local.cl
restrictions: [n % threads == 0]
grid: [n // threads]
block: [threads]
parameters: {threads: [32, 64]}
"""


@pytest.mark.slow
def test_local_memory_is_an_argument_that_no_caller_passes(opencl: Any, tmp_path: Path) -> None:
    (tmp_path / "local.cl").write_text(LOCAL)
    (tmp_path / "local.yaml").write_text(LOCALS)
    assert outcome_of(catalog.load(str(tmp_path / "local.yaml")), opencl, "1024", {"threads": 64}) is None
    kernel = tuner.load(tmp_path / "local.yaml", 1024, device=opencl, config={"threads": 64})
    x = integers(1024)
    y, on_device = given(opencl, np.zeros(1024, np.float32), x)
    for call in (lambda: kernel(y, on_device), kernel.bind(y, on_device)):
        call()
        assert (y.get() == x.reshape(-1, 64)[:, ::-1].ravel()).all()


def test_local_memory_beyond_the_device_is_no_valid_configuration(tmp_path: Path, tune: Tune) -> None:
    (tmp_path / "local.cl").write_text(LOCAL)
    (tmp_path / "local.yaml").write_text(LOCALS.replace("shape: [threads]", "shape: [1_000_000 * threads]"))
    done = tune(tmp_path / "local.yaml", 1024)
    assert (done.status, len(done.err.splitlines())) == (2, 1)
    assert "the device's local memory" in done.err


@pytest.mark.slow
def test_local_memory_beside_that_of_the_kernel_itself_must_fit_too(opencl: Any, tmp_path: Path) -> None:
    """Whatever a restriction says: what the kernel declares is known when it is built."""
    most = opencl.limits.max_shared_memory
    own = f"__local float own[{most // 8}]; own[l ^ 1] = x[i]; barrier(CLK_LOCAL_MEM_FENCE); tile[l] = own[l];"
    (tmp_path / "local.cl").write_text(LOCAL.replace("tile[l] = x[i];", own))
    (tmp_path / "local.yaml").write_text(LOCALS.replace("shape: [threads]", f"shape: [{most // 8} + threads]"))
    space = catalog.load(str(tmp_path / "local.yaml"))
    assert outcome_of(space, opencl, "1024", {"threads": 64}) == "too many resources"
