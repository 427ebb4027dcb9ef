"""Loops of steps on a real NVIDIA GPU: in graphs, and timed as graphs: `pytest -m gpu -n 0`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tuner
from helpers.kernels import outcome_of
from helpers.loops import written_loop
from tuner.catalog import catalog
from tuner.devices import Device
from tuner.errors import LaunchError
from tuner.measure.timing.clock import MOST_ENQUEUED

pytestmark = pytest.mark.gpu


def captured(cupy: Any, stream: Any, launch: Any) -> Any:
    """The graph of a launch on a stream."""
    with stream:
        stream.begin_capture()
        launch()
        return stream.end_capture()


@pytest.mark.parametrize("is_bound", [False, True])
@pytest.mark.parametrize("time", [7, 8])  # with an odd number of swaps, the graph has a copy
def test_a_graph_captures_a_loop(time: int, is_bound: bool, cuda: Device, tmp_path: Path) -> None:
    cupy = pytest.importorskip("cupy")
    file = written_loop(tmp_path, "hotspot")
    kernel = tuner.load(file, f"100x{time}", device=cuda, config={"height": 1})
    stream = cupy.cuda.Stream(non_blocking=True)
    cells = cupy.asarray(np.random.default_rng(4).random(100, dtype=np.float32))
    expected = cells.copy()
    kernel(expected)
    kernel(expected)
    cupy.cuda.Device().synchronize()
    with stream:
        launch = kernel.bind(cells) if is_bound else lambda: kernel(cells)
    graph = captured(cupy, stream, launch)
    for _ in range(2):
        graph.launch(stream)
    stream.synchronize()
    assert cupy.array_equal(cells, expected)


def test_no_graph_captures_a_while_and_the_message_says_why(cuda: Device, tmp_path: Path) -> None:
    cupy = pytest.importorskip("cupy")
    kernel = tuner.load(written_loop(tmp_path, "bfs"), 100, device=cuda)
    cost, edges = cupy.zeros(100, np.int32), cupy.zeros(200, np.int32)
    stream = cupy.cuda.Stream(non_blocking=True)
    cupy.cuda.Device().synchronize()
    with stream:
        launch = kernel.bind(cost, edges)
        stream.begin_capture()
        with pytest.raises(LaunchError, match="which a CUDA graph cannot capture; launch it outside of the capture"):
            launch()
        stream.end_capture()
        launch()
        stream.synchronize()


@pytest.mark.parametrize("broken", [False, True])
def test_a_long_loop_is_verified_and_timed_as_a_graph(broken: bool, cuda: Device, tmp_path: Path) -> None:
    place = ("to: time - 1", "to: time - 2") if broken else ("", "")
    space = catalog.load(str(written_loop(tmp_path, "hotspot", *place)))
    size = {"n": 4096, "time": 2 * MOST_ENQUEUED + 1}
    assert outcome_of(space, cuda, size, {"height": 1}) == ("wrong result" if broken else None)
