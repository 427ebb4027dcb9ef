"""Steps, scratch and constant memory on a real NVIDIA GPU, in streams, threads and graphs: `pytest -m gpu -n 0`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

import tuner
from helpers.arrays import in_threads
from helpers.kernels import outcome_of
from tuner.catalog import catalog
from tuner.devices import Device
from tuner.errors import LaunchError, SpaceError

pytestmark = pytest.mark.gpu

N, BLOCKS, LAUNCHES = 4096, 16, 1000
# What another launch leaves in the filter, in scratch or in the counters changes y.
CODE = """
#ifndef BLOCKS // a reference kernel has no parameters
#define BLOCKS 16
#endif
namespace mine { namespace { __constant__ float filter[2]; } }
extern "C" __global__ void scale(float *between, unsigned *tickets, unsigned *sums, const float *x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) between[i] = x[i] * mine::filter[0];
    if (threadIdx.x == 0) { atomicAdd(tickets, 1); atomicAdd(sums, 1); }
}
extern "C" __global__ void shift(float *y, const float *between, const unsigned *tickets, const unsigned *sums, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float lost = abs(int(*tickets) - BLOCKS) + abs(int(*sums) - BLOCKS);
    if (i < n) y[i] = between[n - 1 - i] + mine::filter[1] + 1000 * lost;
}
extern "C" __global__ void leave(unsigned *tickets) { *tickets = 0; }
"""
SPACE: dict[str, Any] = {
    "title": "Scale, turn round, and shift",
    "operation": {
        "sizes": {"n": None},
        "arguments": [
            {"name": "y", "dtype": "float32", "shape": ["n"], "role": "out"},
            {"name": "x", "dtype": "float32", "shape": ["n"], "role": "in"},
            {"name": "filter", "kind": "constant", "dtype": "float32", "shape": [2], "role": "in"},
            {"name": "between", "dtype": "float32", "shape": ["n"], "role": "scratch"},
            {"name": "tickets", "dtype": "uint32", "shape": [1], "role": "scratch", "zeroed": "once"},
            {"name": "sums", "dtype": "uint32", "shape": [1], "role": "scratch", "zeroed": "each"},
            {"name": "n", "dtype": "int32"},
        ],
        "reference": "x[::-1] * filter[0:1] + filter[1:2]",
    },
    "steps": [
        {"kernel": "scale", "arguments": ["between", "tickets", "sums", "x", "n"], "grid": ["BLOCKS"], "block": [256]},
        {
            "kernel": "shift",
            "arguments": ["y", "between", "tickets", "sums", "n"],
            "grid": ["BLOCKS"],
            "block": [256],
        },
        {"kernel": "leave", "arguments": ["tickets"], "grid": [1], "block": [1]},
    ],
    "languages": ["cuda"],
    "parameters": {"BLOCKS": [BLOCKS]},
}


@pytest.fixture
def kernel(tmp_path: Path, cuda: Device) -> tuner.Kernel:
    (tmp_path / "turn.cu").write_text(CODE)
    (tmp_path / "turn.yaml").write_text(yaml.safe_dump(SPACE))
    return tuner.load(tmp_path / "turn.yaml", N, device=cuda)


class Problem:
    """Arrays of one caller, whose filter no other one has."""

    def __init__(self, cupy: Any, number: int) -> None:
        self.x = cupy.asarray(np.arange(N, dtype=np.float32) % 97)
        self.filter = cupy.asarray(np.array([number + 1, 100 * number], np.float32))
        self.y = cupy.zeros(N, np.float32)
        self.right = (np.arange(N, dtype=np.float32) % 97)[::-1] * (number + 1) + 100 * number

    @property
    def arrays(self) -> tuple[Any, Any, Any]:
        return self.y, self.x, self.filter

    def check(self) -> None:
        np.testing.assert_array_equal(self.y.get(), self.right)
        self.y.fill(-1)


def test_ten_thousand_launches_in_streams_threads_and_graphs_do_not_mix(kernel: tuner.Kernel) -> None:
    cupy = pytest.importorskip("cupy")
    streams = [cupy.cuda.Stream(non_blocking=True) for _ in range(4)]
    problems = [Problem(cupy, number) for number in range(18)]
    cupy.cuda.Device().synchronize()
    bound, called = problems[16:]
    graphs = []
    with streams[2]:
        launch = kernel.bind(*bound.arrays)
        streams[2].begin_capture()
        launch()
        graphs.append(streams[2].end_capture())
    with streams[3]:
        streams[3].begin_capture()
        kernel(*called.arrays)
        graphs.append(streams[3].end_capture())

    def work(thread: int) -> None:
        if thread >= 8:
            graph, stream, mine = graphs[thread - 8], streams[2 + thread - 8], problems[16 + thread - 8]
            for number in range(LAUNCHES):
                graph.launch(stream)
                if number % 100 == 99:
                    with stream:
                        stream.synchronize()
                        mine.check()
                        stream.synchronize()
            return
        mine = problems[2 * thread : 2 * thread + 2]
        for number in range(LAUNCHES):
            for which, one in enumerate(mine):
                if number % 2 == which or number % 100 == 99:
                    kernel(*one.arrays, stream=streams[thread % 2])
            if number % 100 == 99:
                with streams[thread % 2]:
                    streams[thread % 2].synchronize()
                    for one in mine:
                        one.check()
                    streams[thread % 2].synchronize()

    in_threads(work, 10)


def test_a_call_that_is_repeated_reads_and_writes_what_the_arrays_hold_by_then(kernel: tuner.Kernel) -> None:
    cupy = pytest.importorskip("cupy")
    one, other, stream = Problem(cupy, 2), Problem(cupy, 3), cupy.cuda.Stream(non_blocking=True)
    for number in range(40):
        for problem in (one, other) if number % 20 == 19 else (one,):
            problem.x += 1
            problem.right += problem.filter[0].get()
            kernel(*problem.arrays)
            problem.check()
        if number == 30:  # others are captured, and have memory of their own
            cupy.cuda.Device().synchronize()
            with stream:
                stream.begin_capture()
                kernel(*other.arrays)
                graph = stream.end_capture()
                graph.launch(stream)
            stream.synchronize()
            other.check()


def test_bound_launches_have_memory_of_their_own(kernel: tuner.Kernel) -> None:
    cupy = pytest.importorskip("cupy")
    streams, problems = [cupy.cuda.Stream(non_blocking=True) for _ in range(2)], [Problem(cupy, n) for n in range(2)]
    cupy.cuda.Device().synchronize()
    pairs = list(zip(problems, streams, strict=True))
    calls = [kernel.bind(*problem.arrays, stream=stream) for problem, stream in pairs]
    for _ in range(500):
        for call in calls:
            call()
    cupy.cuda.Device().synchronize()
    for problem in problems:
        problem.check()


def test_a_filter_larger_than_the_source_declares_is_one_message(tmp_path: Path, cuda: Device) -> None:
    (tmp_path / "turn.cu").write_text(CODE.replace("filter[2]", "filter[1]").replace("filter[1] +", "filter[0] +"))
    (tmp_path / "turn.yaml").write_text(yaml.safe_dump(SPACE))
    with pytest.raises(SpaceError, match=r"shape: \[2\] exceeds the source's variable filter\[1\]"):
        tuner.load(tmp_path / "turn.yaml", N, device=cuda)


def test_each_source_that_has_a_constant_gets_it_and_others_may_mention_it(tmp_path: Path, cuda: Device) -> None:
    cupy = pytest.importorskip("cupy")
    steps = [{"source": f"{name}.cu", **step} for name, step in zip(("a", "b", "c"), SPACE["steps"], strict=True)]
    for name in "ab":
        (tmp_path / f"{name}.cu").write_text(CODE)
    (tmp_path / "c.cu").write_text('// no filter\nextern "C" __global__ void leave(unsigned *t) { *t = 0; }\n')
    (tmp_path / "turn.yaml").write_text(yaml.safe_dump({**SPACE, "steps": steps, "source": "a.cu"}))
    problem = Problem(cupy, 3)
    tuner.load(tmp_path / "turn.yaml", N, device=cuda)(*problem.arrays)
    problem.check()


def test_a_graph_may_outlive_a_launch_that_was_bound_while_it_captured(kernel: tuner.Kernel) -> None:
    cupy = pytest.importorskip("cupy")
    problem, stream = Problem(cupy, 5), cupy.cuda.Stream(non_blocking=True)
    cupy.cuda.Device().synchronize()
    with stream:
        stream.begin_capture()
        kernel.bind(*problem.arrays)()
        graph = stream.end_capture()
        others = [kernel.bind(*problem.arrays) for _ in range(8)]  # they would be given its memory
        for _ in range(2):
            graph.launch(stream)
            stream.synchronize()
            problem.check()
    assert len(others) == 8


def test_a_reference_kernel_reads_the_same_constants(tmp_path: Path, cuda: Device) -> None:
    right = """
    extern "C" __global__ void right(float *y, const float *x, int n) {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i < n) y[i] = x[n - 1 - i] * mine::filter[0] + mine::filter[1];
    }
    """
    reference = {"kernel": "right", "arguments": ["y", "x", "n"], "grid": [BLOCKS], "block": [256]}
    (tmp_path / "turn.cu").write_text(CODE + right)
    operation = {**SPACE["operation"], "reference": reference}
    (tmp_path / "turn.yaml").write_text(yaml.safe_dump({**SPACE, "operation": operation}))
    assert outcome_of(catalog.load(str(tmp_path / "turn.yaml")), cuda, str(N)) is None


@pytest.mark.parametrize("blocks", [2, 8, 16])
def test_blocks_of_a_cluster_see_one_another(blocks: int, tmp_path: Path, cuda: Device) -> None:
    if cuda.limits.compute_capability < 9:
        pytest.skip("clusters begin with compute capability 9.0")
    code = """
    #include <cooperative_groups.h>
    extern "C" __global__ void f(float *y, int n) {
        __shared__ float own;
        auto cluster = cooperative_groups::this_cluster();
        own = blockIdx.x;
        cluster.sync();
        int next = (cluster.block_rank() + 1) % BLOCKS;
        y[blockIdx.x] = *cluster.map_shared_rank(&own, next);
        cluster.sync();
    }
    """
    space = {
        "title": "The number of the next block of a cluster",
        "operation": {
            "sizes": {"n": None},
            "arguments": [
                {"name": "y", "dtype": "float32", "shape": ["n"], "role": "out"}, {"name": "n", "dtype": "int32"}
            ],
            "reference": "none",
        },
        "kernel": "f", "grid": ["n"], "block": [1], "cluster": ["BLOCKS"],
        "languages": ["cuda"], "parameters": {"BLOCKS": [2, 8, 16]},
    }  # fmt: skip
    (tmp_path / "f.cu").write_text(code)
    (tmp_path / "f.yaml").write_text(yaml.safe_dump(space))
    cupy = pytest.importorskip("cupy")
    y = cupy.zeros(64, np.float32)
    tuner.load(tmp_path / "f.yaml", 64, device=cuda, config={"BLOCKS": blocks})(y)
    number = np.arange(64)
    np.testing.assert_array_equal(y.get(), number // blocks * blocks + (number + 1) % blocks)


def test_a_cooperative_launch_of_more_blocks_than_run_at_once_is_refused(tmp_path: Path, cuda: Device) -> None:
    code = """
    #include <cooperative_groups.h>
    extern "C" __global__ void f(float *y, int n) { cooperative_groups::this_grid().sync(); y[blockIdx.x] = gridDim.x; }
    """
    space = {
        "title": "Number of blocks",
        "operation": {
            "sizes": {"n": None},
            "arguments": [
                {"name": "y", "dtype": "float32", "shape": ["n"], "role": "out"}, {"name": "n", "dtype": "int32"}
            ],
            "reference": "none",
        },
        "kernel": "f", "grid": ["n"], "block": [1024], "cooperative": True,
        "languages": ["cuda"], "parameters": {"a": [1]},
    }  # fmt: skip
    (tmp_path / "f.cu").write_text(code)
    (tmp_path / "f.yaml").write_text(yaml.safe_dump(space))
    cupy = pytest.importorskip("cupy")
    y = cupy.zeros(64, np.float32)
    tuner.load(tmp_path / "f.yaml", 64, device=cuda)(y)
    assert (y.get() == 64).all()
    with pytest.raises(LaunchError, match=r"a cooperative launch of 100000 blocks; the GPU runs \d+ of them at once"):
        tuner.load(tmp_path / "f.yaml", 100_000, device=cuda)


def test_a_programmatic_step_begins_early_and_waits_by_itself(tmp_path: Path, cuda: Device) -> None:
    """The first step lets the second one begin, and writes much later. The second one says when it began."""
    code = """
    typedef unsigned long long word;
    __device__ word now() {
        word time;
        asm volatile("mov.u64 %0, %globaltimer;" : "=l"(time));
        return time;
    }
    extern "C" __global__ void first(float *between, word *ended, const float *x, int n) {
        asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
        word start = now();
        while (now() - start < 1000000) {}
        for (int i = threadIdx.x; i < n; i += 64) between[i] = x[i] + 1;
        if (threadIdx.x == 0) *ended = now();
    }
    extern "C" __global__ void second(float *y, int *early, const float *between, const word *ended, int n) {
        word began = now();
        asm volatile("griddepcontrol.wait;" ::: "memory");
        for (int i = threadIdx.x; i < n; i += 64) y[i] = 2 * between[i];
        if (threadIdx.x == 0) *early = began < *(volatile const word *)ended;
    }
    """

    def one() -> dict[str, Any]:  # YAML would write one that is shared as an anchor
        return {"grid": [1], "block": [64]}

    space = {
        "title": "Add 1 and double",
        "operation": {
            "sizes": {"n": None},
            "arguments": [
                {"name": "y", "dtype": "float32", "shape": ["n"], "role": "out"},
                {"name": "early", "dtype": "int32", "shape": [1], "role": "out"},
                {"name": "x", "dtype": "float32", "shape": ["n"], "role": "in"},
                {"name": "between", "dtype": "float32", "shape": ["n"], "role": "scratch"},
                {"name": "ended", "dtype": "uint64", "shape": [1], "role": "scratch"},
                {"name": "n", "dtype": "int32"},
            ],
            "reference": "none",
        },
        "languages": ["cuda"],
        "source": "f.cu",
        "steps": [
            {"kernel": "first", "arguments": ["between", "ended", "x", "n"], **one()},
            {"kernel": "second", "arguments": ["y", "early", "between", "ended", "n"], **one(), "programmatic": True},
        ],
        "parameters": {"a": [1]},
    }
    (tmp_path / "f.cu").write_text(code)
    (tmp_path / "f.yaml").write_text(yaml.safe_dump(space))
    torch = pytest.importorskip("torch")
    if torch.cuda.get_device_capability() < (9, 0):
        pytest.skip("programmatic launches need compute capability 9.0")
    x, y = torch.arange(1000, dtype=torch.float32, device="cuda"), torch.empty(1000, device="cuda")
    early, kernel = torch.empty(1, dtype=torch.int32, device="cuda"), tuner.load(tmp_path / "f.yaml", 1000, device=cuda)
    began_early = []
    for factor in (1, 2, 3):
        kernel(y, early, factor * x)
        assert torch.equal(y, 2 * (factor * x + 1))
        began_early.append(bool(early))
    assert any(began_early)  # not all, where the host is late
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kernel(y, early, x)
    x += 5
    graph.replay()
    assert torch.equal(y, 2 * (x + 1))
