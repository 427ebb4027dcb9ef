"""Times of a kernel as a program launches it: `--as`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tuner
from helpers.kernels import MULTIPLY, Stage, c_kernel
from helpers.processes import Tune
from helpers.spaces import scope_of
from tuner.catalog import catalog
from tuner.devices import Device
from tuner.devices.host.device import HostDevice
from tuner.devices.work import Work
from tuner.errors import RequestError
from tuner.measure.benchmark import Bench
from tuner.measure.method import Method
from tuner.measure.timing import clock
from tuner.measure.timing.deployed import LAUNCHES


class Seen:
    """A device, its timer and the conditions of its runs, which note what happens."""

    asynchronous = True

    def __init__(self, may_repeat: bool = True) -> None:
        self.log: list[str] = []
        self.may_repeat = lambda: may_repeat

    def __getattr__(self, name: str) -> Any:
        return lambda *_: self.log.append(name) or 8.0

    def timer(self) -> Any:
        return self


class Captured:
    """A call that can be a graph."""

    def __init__(self, log: list[str]) -> None:
        self._log = log

    def __call__(self) -> None:
        self._log.append("call")

    def graph(self, count: int) -> Any:
        return lambda: self._log.append(f"graph of {count}")


@pytest.mark.parametrize(
    ("deployment", "before", "calls"),
    [
        ("stream", "occupy", ["call"] * LAUNCHES),
        ("eager", "synchronize", ["call"] * LAUNCHES),  # the device is idle, so that it waits for the host
        ("graph", "occupy", [f"graph of {LAUNCHES}"]),
    ],
)
def test_one_time_covers_several_launches_and_is_that_of_one(deployment: Any, before: str, calls: list[str]) -> None:
    device: Any = Seen()
    time_ms = clock.Stopwatch(device, device, deployment=deployment).time(Captured(device.log))
    order = ["synchronize", "prepare", before, "start", *calls, "stop", "synchronize", "milliseconds"]
    assert device.log == ["expect", *order, "check"]
    assert time_ms == 8.0 / LAUNCHES


def test_a_launch_that_reads_what_it_wrote_is_not_repeated() -> None:
    device: Any = Seen(may_repeat=False)
    assert clock.Stopwatch(device, device, deployment="stream").time(Captured(device.log)) == 8.0
    assert device.log.count("call") == 1


@pytest.mark.slow
def test_each_deployment_has_its_own_study_and_record_and_load_finds_the_one_asked_for(
    tune: Tune, stage: Stage, tmp_path: Path
) -> None:
    """Back to back, mode 1 is faster: only the first of several launches finds poison, and takes long."""
    body = f"""
    int is_first = !(C[0] > -1e3f && C[0] < 1e3f);
    usleep(mode == 0 ? 3000 : is_first ? 10000 : 300);
    {MULTIPLY}
    """
    file = stage(c_kernel("pausing", body), "pausing", "{mode: [0, 1]}", more="default: {mode: 0}")
    plain = tune(file, "8", "--json")
    assert plain.status == 0, plain.err
    found = tune(file, "8", "--as", "stream", "--json")
    assert found.status == 0, found.err
    assert "measured before" not in found.err, "a study of its own"
    assert [done.json["best"]["config"]["mode"] for done in (plain, found)] == [0, 1]
    said = [tune(file, "8", *how).out for how in ((), ("--as", "stream"))]  # their studies are complete
    assert ["back to back" in text for text in said] == [False, True]
    kernel = str(file)
    for as_, mode in (("stream", 1), (None, 0)):
        arrays = [np.ones((1, 8, 8), np.float32) for _ in range(3)]
        assert tuner.dispatch(kernel, as_=as_).kernel(*arrays).config == {"mode": mode}
    assert tuner.load(kernel, 8, device="host").config == {"mode": 0}
    assert tuner.load(kernel, 8, device="host", as_="stream", strict=True).config == {"mode": 1}
    with pytest.raises(RequestError, match="no exact record"):
        tuner.load(kernel, 8, device="host", as_="cold", strict=True)
    assert tuner.load(kernel, 8, device="host", as_="cold").config == {"mode": 0}, (
        "the usual record serves, if not strict"
    )


def test_flush_is_another_name_of_cold_and_its_studies_go_on() -> None:
    assert Method.from_json({**Method().to_json(), "cold": True}) == Method(deployment="cold")
    assert Method(deployment="cold").to_json()["cold"] is True
    assert "deployment" not in Method(deployment="cold").to_json(), "which an earlier version reads"
    assert Method.from_json(Method(deployment="graph").to_json()) == Method(deployment="graph")


def test_what_cannot_be_measured_is_said(tune: Tune) -> None:
    for more, why in (
        (["--as", "graph"], "--as graph: needs an NVIDIA GPU"),
        (["--as", "eager"], "--as eager: needs an NVIDIA GPU"),
        (["--as", "warm"], "--as 'warm': write one of isolated, graph, stream, eager, cold"),
        (["--as", "stream", "--flush"], "--as stream: the caches are flushed for `cold` alone"),
        (["--as", "stream", "--objective", "energy"], ""),
    ):
        done = tune("sgemm/00_host_simple", "8", "--device", "host", *more)
        assert done.status == 2
        assert why in done.err


def test_a_program_that_asks_for_another_one_is_told() -> None:
    for call in (
        lambda: tuner.load("sgemm/00_host_simple", 8, as_="warm"),
        lambda: tuner.dispatch("sgemm", as_="warm"),
    ):
        with pytest.raises(RequestError, match=r"as_='warm'.: write one of isolated, graph, stream, eager, cold"):
            call()
    with pytest.raises(RequestError, match="drop one of the two"):
        tuner.load("sgemm/00_host_simple", 8, as_="stream", config={"openmp": 0})
    with pytest.raises(RequestError, match="drop one of the two"):
        tuner.dispatch("sgemm", as_="graph", one_class=True)


class Gpu(HostDevice):
    """The host in the place of a device with graphs, which repeat the launch; notes how many launches each has."""

    asynchronous = True

    def __init__(self) -> None:
        super().__init__(0)
        self.graphs = list[int]()

    def occupy(self, ms: float) -> None:
        pass

    def bind_graph(self, work: Work, handles: Sequence[Any], count: int) -> Callable[[], None]:
        call = self.bind(work, handles)

        def launch() -> None:
            for _ in range(count):
                call()

        self.graphs.append(count)
        return launch


@pytest.mark.parametrize("deployment", ["graph", "eager", "stream"])
def test_candidates_are_verified_and_timed_as_deployed_also_in_the_finals(deployment: Any, stage: Stage) -> None:
    device = Gpu()
    space = catalog.load(str(stage(c_kernel("plain", MULTIPLY), "plain", "{mode: [0, 1]}", more="default: {mode: 0}")))
    bench = Bench(device, space, scope_of(space, device, "8"), Method(deployment=deployment))
    assert bench.measure({"mode": 0}).failure is None
    (final,) = bench.finals([{"mode": 0}], 0.05).candidates
    assert final.failure is None
    assert len(final.times) >= 5
    assert set(device.graphs) == ({LAUNCHES} if deployment == "graph" else set())
    count = len(device.graphs)
    bench.finals([{"mode": 0}], 0.05)
    assert len(device.graphs) - count in (0, 1), "a graph is made once for all rounds"


@pytest.mark.gpu
@pytest.mark.parametrize("deployment", ["graph", "stream", "eager"])
@pytest.mark.parametrize(("kernel", "size"), [("gallery/softmax", "256x1024"), ("gallery/sum", "1048576")])
def test_launches_of_a_gpu_are_right_and_short_in_each_way(
    kernel: str, size: str, deployment: Any, cuda: Device
) -> None:
    space = catalog.load(kernel)
    bench = Bench(cuda, space, scope_of(space, cuda, size), Method(deployment=deployment))
    assert space.default is not None
    outcome = bench.measure(space.default)
    assert outcome.failure is None, outcome.log
    assert 0.0005 < min(outcome.times) < 1.0
    (final,) = bench.finals([space.default], 0.2, with_library=False).candidates
    assert final.failure is None
