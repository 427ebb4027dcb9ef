"""Calls that are repeated become graphs: a library in C stands in for the driver, and counts its calls."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tuner.devices.cuda import call_graphs, device
from tuner.devices.cuda.arrays import CurrentStreams, PlacedArray
from tuner.devices.cuda.driver.context import Context
from tuner.devices.cuda.driver.modules import LoadedKernel
from tuner.devices.work import Function, Passed, Run, Work
from tuner.space.step import Geometry

STAND_IN = """
long capturing = 0, captured = 0, refused = 0, graphs = 0, of_graph[4096], steps = 0, replays = 0, last = 0, where = 0;
struct config { unsigned numbers[7]; long stream; };
int cuLaunchKernelEx(struct config *config, void *function, long **parameters, void **extra) {
    if (capturing && config->stream == capturing) captured = *parameters[0];
    else steps++, last = *parameters[0], where = config->stream;
    return 0;
}
int cuStreamCreate(long *stream, unsigned flags) { *stream = 77; return 0; }
int cuStreamDestroy_v2(long stream) { return 0; }
int cuStreamSynchronize(long stream) { return 0; }
int cuStreamBeginCapture_v2(long stream, int mode) { capturing = stream; return refused; }
int cuStreamEndCapture(long stream, long *graph) { capturing = 0; *graph = 5; return 0; }
int cuGraphInstantiateWithFlags(long *made, long graph, long flags) { of_graph[*made = ++graphs] = captured; return 0; }
int cuGraphDestroy(long graph) { return 0; }
int cuGraphExecDestroy(long graph) { return 0; }
int cuGraphUpload(long graph, long stream) { return 0; }
int cuGraphLaunch(long graph, long stream) { replays++; last = of_graph[graph]; where = stream; return 0; }
int cuGetErrorString(int status, char **text) { *text = "refused"; return 0; }
int cuCtxGetCurrent(long *context) { *context = 0x1234; return 0; }
int cuThreadExchangeStreamCaptureMode(int *mode) { return 0; }
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("stand-in")
    (folder / "stand_in.c").write_text(STAND_IN)
    subprocess.run(["cc", "-shared", "-fPIC", folder / "stand_in.c", "-o", folder / "stand_in.so"], check=True)
    return folder / "stand_in.so"


@pytest.fixture
def library(built: Path, monkeypatch: pytest.MonkeyPatch) -> ctypes.CDLL:
    loaded = ctypes.CDLL(str(built))
    for module in ("driver.context", "driver.addresses", "launches"):
        monkeypatch.setattr(f"tuner.devices.cuda.{module}.library", lambda: loaded)
    monkeypatch.setattr(device.chosen_gpu, "count", lambda: 1)
    monkeypatch.setattr("tuner.devices.cuda.launcher.membership", lambda context: lambda addresses: True)
    for name in ("refused", "steps", "replays", "graphs"):
        ctypes.c_long.in_dll(loaded, name).value = 0
    return loaded


def launcher(steps: int, has_scratch: bool = True) -> Callable[[int, int, Any], None]:
    """A function that launches a work of so many steps: it takes the array's address, a stream and packed scalars."""
    geometry = Geometry((1, 1, 1), (32, 1, 1), 0)
    loaded: Any = object.__new__(LoadedKernel)
    loaded.handle, loaded.programmatic = ctypes.c_void_p(1), False
    run = Run(Function(loaded, "step", geometry), (0,))
    work = Work((Passed(0),), (run,) * steps, (("memory", "never"),) if has_scratch else ())
    gpu: Any = object.__new__(device.CudaDevice)
    gpu._context, gpu._number = Context(0x1234, 0), 0
    gpu._streams = CurrentStreams(0)
    launch = gpu.launcher(work, [])
    return lambda address, stream, scalars: launch([PlacedArray(address, stream)], None, scalars)


def counts(library: ctypes.CDLL) -> tuple[int, ...]:
    """Steps that were launched one by one, launches of graphs, the array and the stream of the last launch."""
    return tuple(ctypes.c_long.in_dll(library, name).value for name in ("steps", "replays", "last", "where"))


def test_a_call_of_several_steps_that_is_repeated_is_one_call_of_the_driver(library: ctypes.CDLL) -> None:
    call, scalars, most = launcher(4), list[int](), call_graphs.BEFORE_GRAPH
    for _ in range(most):
        call(4096, 0, scalars)
    assert counts(library) == (4 * most, 0, 4096, 0)
    for stream in (0, 33, 0):
        call(4096, stream, scalars)
        assert counts(library)[2:] == (4096, stream)
    assert counts(library)[:2] == (4 * most, 3)
    call(8192, 0, scalars)
    assert counts(library) == (4 * most + 4, 3, 8192, 0), "another array"
    call(4096, 0, scalars)
    assert counts(library) == (4 * most + 4, 4, 4096, 0), "the graph of the first one is still there"
    for _ in range(most + 1):
        call(8192, 0, scalars)
    assert counts(library)[1:3] == (6, 8192)


@pytest.mark.parametrize(("steps", "has_scratch"), [(1, True), (4, False), (call_graphs.MOST_STEPS + 1, True)])
def test_one_step_many_and_those_that_a_graph_may_capture_are_launched_as_they_are(
    library: ctypes.CDLL, steps: int, has_scratch: bool
) -> None:
    call, scalars = launcher(steps, has_scratch), list[int]()
    for _ in range(20):
        call(4096, 0, scalars)
    assert counts(library) == (20 * steps, 0, 4096, 0)


def test_where_the_driver_captures_no_such_launches_they_go_on_one_by_one(library: ctypes.CDLL) -> None:
    ctypes.c_long.in_dll(library, "refused").value = 801
    call, scalars = launcher(2), list[int]()
    for _ in range(20):
        call(4096, 0, scalars)
    assert counts(library) == (40, 0, 4096, 0)


def test_only_so_many_sets_of_arrays_are_remembered(library: ctypes.CDLL, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call_graphs, "MOST_ARGUMENTS", 3)
    call, scalars = launcher(2), list[int]()
    for _ in range(20):
        for number in range(4):
            call(4096 * (1 + number), 0, scalars)
            assert counts(library)[2] == 4096 * (1 + number)
    assert counts(library)[1] == 0, "each is forgotten before it is repeated often enough"
