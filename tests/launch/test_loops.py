"""Configurations whose steps are launched in loops: called, bound, verified and tuned, on each kind of device."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tuner
from helpers.arrays import in_threads, on_host
from helpers.kernels import outcome_of
from helpers.loops import SPACES, STRUCT, STRUCTURED, written_loop
from helpers.processes import Tune
from helpers.steps import Numbers, given, written
from tuner.catalog import catalog
from tuner.devices import Device
from tuner.errors import LaunchError
from tuner.space.instance import Instance

DEVICES = ["host", "opencl", pytest.param("cuda", marks=pytest.mark.gpu)]
SIZES = {"bitonic": "64", "hotspot": "100x7", "bfs": "100", "wavefront": "20"}


@pytest.fixture(params=DEVICES)
def device(request: pytest.FixtureRequest) -> Device:
    found: Device = request.getfixturevalue(request.param)
    return found


def answers(folder: Path, name: str, function: str) -> Callable[..., Any]:
    """The function of a space's reference."""
    spec = importlib.util.spec_from_file_location(name, folder / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found: Callable[..., Any] = getattr(module, function)
    return found


def left(array: Any, device: Device) -> Numbers:
    """What a launch has left in an array."""
    device.synchronize()
    numbers: Numbers = array if device.kind == "host" else on_host(array)
    return numbers


def test_a_loop_over_powers_of_two_sorts(device: Device, tmp_path: Path) -> None:
    kernel = tuner.load(written_loop(tmp_path, "bitonic"), 64, device=device)
    numbers = np.random.default_rng(3).integers(-1000, 1000, 64).astype(np.int32)
    (x,) = given(device, numbers)
    kernel(x)
    assert np.array_equal(left(x, device), np.sort(numbers))
    (y,) = given(device, numbers[::-1].copy())
    launch = kernel.bind(y)
    for _ in range(2):
        launch()
        assert np.array_equal(left(y, device), np.sort(numbers))


def test_threads_take_turns_with_a_bound_loop(device: Device, tmp_path: Path) -> None:
    """Launches of one thread between those of another would undo what these have sorted."""
    kernel = tuner.load(written_loop(tmp_path, "bitonic"), 64, device=device)
    numbers = np.random.default_rng(6).integers(-1000, 1000, 64).astype(np.int32)
    (x,) = given(device, numbers)
    launch = kernel.bind(x)

    def work(_: int) -> None:
        for _ in range(5):
            launch()

    in_threads(work, 4)
    assert np.array_equal(left(x, device), np.sort(numbers))


@pytest.mark.parametrize("height", [1, 2, 3])  # 7, 4 and 3 passes
def test_the_answer_is_in_the_callers_array_after_any_number_of_swaps(
    height: int, device: Device, tmp_path: Path
) -> None:
    kernel = tuner.load(written_loop(tmp_path, "hotspot"), "100x7", device=device, config={"height": height})
    after = answers(tmp_path, "hotspot", "after")
    cells = np.random.default_rng(4).random(100, dtype=np.float32)
    (t,) = given(device, cells)
    launch = kernel.bind(t)
    for time in (7, 14):
        launch()
        assert np.allclose(left(t, device), after(cells, 100, time)["t"], rtol=1e-5)


def test_a_while_ends_when_a_pass_leaves_its_flag_zero(device: Device, tmp_path: Path) -> None:
    edges = np.random.default_rng(5).integers(0, 100, 200).astype(np.int32)
    file = written_loop(tmp_path, "bfs")
    costs = answers(tmp_path, "bfs", "costs")(edges, 100)["cost"]
    assert costs.max() > 3
    kernel = tuner.load(file, 100, device=device)
    cost, graph = given(device, np.zeros(100, np.int32), edges)
    for _ in range(2):
        kernel(cost, graph)
        assert np.array_equal(left(cost, device), costs)
    short = tuner.load(written_loop(tmp_path, "bfs", "most: 64", "most: 3"), 100, device=device)
    with pytest.raises(LaunchError, match="going is not 0 after 3 passes, and `most:` allows no more"):
        short(cost, graph)


# What is broken in a space: (the space, the place, what becomes of it)
TWINS = {
    "a stage of the sort is missing": ("bitonic", "{halving: [k // 2, 1]}", "{halving: [k // 2, 2]}"),
    "the sort begins too late": ("bitonic", "{powers_of_two: [2, n]}", "{powers_of_two: [4, n]}"),
    "the last pass takes all time steps": ("hotspot", "min(height, time - done)", "height"),
    "the halo is too narrow": ("hotspot", "cells[height + c]", "cells[c]"),
    "a pass is missing": ("hotspot", "to: time - 1", "to: time - 2"),
    "the first pass reads what no pass has written": ("hotspot", "[other, t, n, steps]", "[t, other, n, steps]"),
    "nothing is swapped": ("hotspot", "    swap: [t, other]\n", ""),
    "a node is settled and not counted": ("bfs", "going[0] = 1;", "going[0] = 0;"),
    "a pass visits one edge": ("bfs", "e < 2; e++", "e < 1; e++"),
    "a diagonal is missing": ("wavefront", "to: 2 * n - 2", "to: 2 * n - 3"),
    "a grid lacks a block": ("wavefront", "- max(0, d - n + 1) + 1, threads)", "- max(0, d - n + 1), threads)"),
}


@pytest.mark.slow
@pytest.mark.parametrize("twin", TWINS)
def test_verification_refuses_a_loop_that_is_broken(twin: str, opencl: Device, host: Device, tmp_path: Path) -> None:
    name, text, becomes = TWINS[twin]
    space = catalog.load(str(written_loop(tmp_path, name, text, becomes)))
    config = {"height": 2} if name == "hotspot" else None
    failure = outcome_of(space, opencl if name == "wavefront" else host, SIZES[name], config)
    assert failure in ("wrong result", "not a number", "geometry"), failure


@pytest.mark.slow
@pytest.mark.parametrize("kind", DEVICES[1:])
@pytest.mark.parametrize("name", SPACES)
def test_a_loop_is_tuned_stored_and_loaded(
    name: str, kind: str, request: pytest.FixtureRequest, tmp_path: Path, tune: Tune
) -> None:
    file = written_loop(tmp_path, name)
    done = tune(file, SIZES[name], "--device", kind, "--repeats", "3", "--json")
    configurations = 3 if name == "hotspot" else 2
    assert (done.status, done.json["evaluated"], done.json["failed"]) == (0, configurations, {}), done.err
    kernel = tuner.load(file, SIZES[name], device=request.getfixturevalue(kind))
    assert (kernel.match, kernel.config) == ("exact", done.json["best"]["config"])


# Either one kernel adds 3 to all, or two kernels add 1 and 2, one of them in two passes.
ADD = """\
KERNEL void add(GLOBAL int *x, int n, int by) {
    for (int i = THREAD; i < n; i += THREADS) { x[i] += by; }
}
KERNEL void add_more(GLOBAL int *x, int n) {
    for (int i = THREAD; i < n; i += THREADS) { x[i] += more; }
}
"""
ADD_SPACE = """\
title: Steps that a configuration skips or repeats
operation:
  sizes: {n: }
  arguments:
    - {name: x, dtype: int32, shape: [n], role: inout}
    - {name: n, dtype: int32}
    - {name: by, dtype: int32, value: p + 1}
  reference: x + 3
source: add.cu
languages: [cuda, opencl, c]
steps:
  - {kernel: add_more, arguments: [x, n], grid: [1], block: [32], when: more > 0}
  - repeat: {p: [0, 1]}
    steps:
      - {kernel: add, arguments: [x, n, by], grid: [1 + p], block: [32], when: "more < 3 and p >= more"}
parameters: {more: [0, 1, 3]}
"""


def test_a_configuration_skips_and_repeats_steps(device: Device, tmp_path: Path) -> None:
    space = catalog.load(str(written(tmp_path, "add", ADD, ADD_SPACE)))
    for more in (0, 1, 3):
        assert outcome_of(space, device, "40", {"more": more}) is None
    wrong = catalog.load(str(written(tmp_path, "add", ADD, ADD_SPACE.replace("p >= more", "p > more"))))
    assert outcome_of(wrong, device, "40", {"more": 0}) == "wrong result"


def test_a_struct_may_change_from_launch_to_launch(device: Device, tmp_path: Path) -> None:
    kernel = tuner.load(written(tmp_path, "bitonic", STRUCTURED, STRUCT), 64, device=device)
    numbers = np.random.default_rng(3).integers(-1000, 1000, 64).astype(np.int32)
    (x,) = given(device, numbers)
    kernel(x)
    assert np.array_equal(left(x, device), np.sort(numbers))
    assert outcome_of(kernel.space, device, "64") is None


def test_a_hundred_thousand_launches_are_few_distinct_ones(host: Device, tmp_path: Path) -> None:
    file = written_loop(tmp_path, "hotspot", "{height: [1, 2, 3]}", "{height: [1, 2]}")
    space = catalog.load(str(file))
    for time, launches, distinct in ((100_000, 100_000, 2), (7, 7, 2), (1, 1, 1)):
        scope = space.operation.scope({"n": 8, "time": time}, {}, "c", host.limits, {})
        schedule = Instance(space, {"height": 1}, scope).schedule
        assert schedule is not None
        assert sum(len(each) for stretch in schedule.stretches for each in stretch.passes) == launches
        assert len(schedule.launches) == distinct
