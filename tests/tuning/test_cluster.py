"""One search on the devices of a cluster of Dask: workers come and go, and nothing is lost or measured twice."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import time
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from helpers import commands
from helpers.clusters import GATED, ClusterHere, PipeLine
from helpers.dask_processes import DaskProcesses
from helpers.kernels import Stage
from helpers.ledgers import claims, finished
from helpers.own_kernels import scaled
from helpers.processes import PATIENCE_SECONDS, Tune, wait_until
from tuner import devices
from tuner.catalog import catalog
from tuner.errors import DeviceError, EnvironmentTrouble, OptionError, WorkerDied
from tuner.measure.process import scratch
from tuner.measure.process.replies import failure
from tuner.measure.process.task import Task
from tuner.measure.remote.remote_device import Lost, RemoteDevice
from tuner.measure.remote.remote_supervisor import RemoteLead, RemoteSupervisor
from tuner.space import identity, snapshot
from tuner.tuning.crew import cluster, cluster_crew, cluster_devices, cluster_workers, dask_engine
from tuner.version import VERSION


@pytest.fixture
def dask(tmp_path: Path) -> Iterator[DaskProcesses]:
    processes = DaskProcesses(tmp_path, encrypted=True)
    yield processes
    processes.close()


@pytest.mark.slow
def test_a_worker_is_killed_another_joins_and_each_configuration_is_measured_once(
    stage: Stage, dask: DaskProcesses, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    file = stage(f'#define GATE "{gate}"\n{GATED}', "gated", "{v: [5, 6, 7]}")
    killed = dask.add("killed")
    command = commands.start(
        str(file), "8", "--cluster", dask.address, "--timeout", str(PATIENCE_SECONDS), "--json", "--full",
        environment={**os.environ, **dask.variables},
    )  # fmt: skip
    wait_until(lambda: claims(tmp_path), command)
    os.kill(killed, signal.SIGKILL)
    said = []
    for line in command.stderr:
        said.append(line)
        if "no device is left" in line:
            break
    dask.add("another version", VERSION="0.0.9")
    dask.add("joins")
    wait_until(lambda: claims(tmp_path), command)
    gate.touch()
    out, err = command.communicate(timeout=PATIENCE_SECONDS)
    err = "".join([*said, err])
    assert command.wait() == 0, err
    assert json.loads(out)["best"]["config"] == {"v": 7}
    assert [*finished(tmp_path).values()] == [1, 1, 1]
    assert " is lost: " in err
    assert " joins the search" in err
    assert "it has tuner 0.0.9, not " in err


def test_a_lost_worker_that_was_asked_again_does_not_lengthen_the_wait_for_another() -> None:
    workers = ["tcp://there"]
    them: Any = object.__new__(cluster_devices.ClusterDevices)
    them._cluster = SimpleNamespace(address="tcp://x", workers=lambda: workers, has_ended=False, trouble=None)
    them._joins = [("tcp://there", Future())]
    long_ago = time.monotonic() - 2 * cluster_workers.WORKERS_SECONDS
    assert them.wait_alone(long_ago) > long_ago, "it may join"
    workers.clear()
    with pytest.raises(EnvironmentTrouble, match="no worker can measure any more"):
        them.wait_alone(long_ago)


@pytest.mark.slow
def test_a_cluster_that_cannot_measure_is_one_message(
    tune: Tune, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dask_engine, "CONNECT_SECONDS", 0.5)
    monkeypatch.setattr(cluster_workers, "WORKERS_SECONDS", 0.1)
    processes = DaskProcesses(tmp_path)
    with contextlib.closing(processes):
        for address, message in [
            ("redis://localhost", "not the address of a scheduler; write dask://scheduler:8786"),
            ("dask://127.0.0.1:1", "--cluster dask://127.0.0.1:1: the scheduler does not answer: Timed out"),
            ("dask://there.invalid", "--cluster dask://there.invalid: there.invalid: "),
            (processes.address, "it has no workers; start some with `dask worker"),
        ]:
            done = tune("sgemm/00_host_simple", "8", "--cluster", address)
            assert done.status == 2, done.err
            assert message in done.err.splitlines()[-1]
        processes.add("one")
        monkeypatch.setattr(cluster_workers, "WORKERS_SECONDS", PATIENCE_SECONDS)
        done = tune("sgemm/03_naive", "8", "--device", "cuda", "--cluster", processes.address)
        assert done.status == 2
        assert "1 worker cannot be used: it has no device cuda; see `tune devices` there" in done.err
    assert "it runs on host" in tune("sgemm/00_host_simple", "8", "--device", "cuda", "--cluster", "dask://x").err


def test_an_address_of_a_scheduler_is_written_as_dask_writes_it() -> None:
    assert cluster.checked("dask://node-1.site") == "tcp://node-1.site:8786"
    assert cluster.checked("dask://10.0.0.1:99") == "tcp://10.0.0.1:99"
    assert cluster.checked("tls://[::1]:8786/") == "tls://[::1]:8786"
    for wrong in ("", "dask:", "dask://", "dask://a b", "dask://me:secret@x", "dask://x:65536", "http://x:8786"):
        with pytest.raises(OptionError, match="not the address of a scheduler"):
            cluster.checked(wrong)


@pytest.mark.slow
def test_files_of_a_space_travel_to_a_station_that_does_not_have_them(tmp_path: Path) -> None:
    folder = tmp_path / "kernel"
    file = scaled(folder, "twice")
    text = file.read_text().replace("reference: 2 * x", "reference: {python: check.py:right}")
    file.write_text(text.replace("role: in}", "role: in, fill: {file: x.npy}}"))
    (folder / "check.py").write_text("import doubling\ndef right(x):\n    return doubling.twice(x)\n")
    (folder / "doubling.py").write_text("def twice(x):\n    return 2 * x\n")
    (folder / "declared.h").write_text("/* nothing */\n")
    (folder / "twice.c").write_text('#include "declared.h"\n' + (folder / "twice.c").read_text())
    np.save(folder / "x.npy", np.arange(1000, dtype=np.float32))
    notes: list[str] = []
    with snapshot.kept(notes.append), contextlib.closing(PipeLine()) as line, scratch.file() as products:
        task = Task(space := catalog.load(str(file)), {"n": 1000}, {})
        identity.of(space)  # as each run begins
        shutil.rmtree(folder)
        device = RemoteDevice(line, "there", "host:0", 1, notes.append)
        device.switch_to(task)
        worker = RemoteSupervisor(task, device, products)
        worker.get_ready()
        worker.build({"unroll": 1})
        outcome = worker.measure({"unroll": 1})
        assert outcome.failure is None, outcome.log
        assert outcome.times
        assert worker.verify([{"unroll": 1}])[0].failure is None
    assert any("changed on disk" in note for note in notes)


class ScriptedLine:
    """A line to a station that never was: it replies what it is told, until it is lost."""

    def __init__(self, machine: str, device: dict[str, Any], **others: dict[str, Any]) -> None:
        self.asked: list[str] = []
        self.is_lost = self.is_closed = False
        place = f"{machine} {device['id']}"
        self._replies: dict[str, dict[str, Any]] = {
            "about": {"version": VERSION, "machine": machine, "devices": ["host:0"]},
            "task": {"device": device, "compiler": None, "place": place, "depth": 1, "headers": ""},
            "ready": {"missed_cases": [], "method_notes": []},
            "ask": {"found": [], "answer": {"ms": 1.5}},
            **others,
        }

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        if self.is_lost:
            raise Lost("its machine is off")
        self.asked.append(request["op"])
        return dict(self._replies[request["op"]])

    def close(self) -> None:
        self.is_closed = True


@pytest.fixture(scope="module")
def host() -> dict[str, Any]:
    """The description of this processor, as a station gives it."""
    with contextlib.closing(devices.open_device("host")) as device:
        return asdict(device.info)


def test_the_finals_go_on_with_another_device_when_theirs_is_lost(host: dict[str, Any], tmp_path: Path) -> None:
    task = Task(catalog.load(str(scaled(tmp_path, "twice"))), {"n": 1000}, {})
    lines = ScriptedLine("a", host), ScriptedLine("b", host)
    remotes = [RemoteDevice(line, name, "host:0", 1, print) for line, name in zip(lines, "ab", strict=True)]
    for remote in remotes:
        remote.switch_to(task)
    with scratch.file() as products:
        lead = RemoteLead(task, lambda: [remote for remote in remotes if not remote.is_lost], products)
        assert lead.launch_ms() == 1.5
        lines[0].is_lost = True
        with pytest.raises(EnvironmentTrouble, match="host:0 of a is lost: its machine is off"):
            lead.launch_ms()
        assert lead.launch_ms() == 1.5
        assert lines[1].asked == ["task", "ask"]
        with pytest.raises(WorkerDied, match="the worker of host:0 of b sent a malformed reply"):
            lead.library()
        lines[1].is_lost = True
        for _ in range(2):  # nobody is left
            with pytest.raises(EnvironmentTrouble, match="host:0 of b is lost"):
                lead.launch_ms()
        with pytest.raises(DeviceError, match="host:0 of a is lost: its machine is off"):
            remotes[0].build({"unroll": 1})


def test_one_station_holds_a_device_and_the_stations_of_those_that_do_not_join_end(
    host: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = {**host, "toolchain": "another compiler"}
    lines = {
        "w1": ScriptedLine("a", other),
        "w2": ScriptedLine("b", host),
        "w3": ScriptedLine("c", host),
        "w4": ScriptedLine("c", host),
        "w5": ScriptedLine("d", host, task=failure(DeviceError("it has no C compiler"))),
    }
    monkeypatch.setattr(cluster, "opened", lambda address: ScriptedCluster(address, lines))
    notes: list[str] = []
    task = Task(catalog.load(str(scaled(tmp_path, "twice"))), {"n": 1000}, {})
    crew = cluster_crew.ClusterCrew(task, ["host"], "tcp://x:1", notes.append)
    with contextlib.closing(crew), crew.on(task):
        assert crew.device.toolchain == host["toolchain"]
        assert [line.is_closed for line in lines.values()] == [True, False, False, True, True]
    assert notes == [
        "host:0 of d (w5): it has no C compiler; the search goes on without it",
        f"host:0 of a (w1) does not join: it has another compiler, the others have {host['toolchain']}, and devices of "
        "different kinds do not share a study",
        "tcp://x:1: 2 devices measure",
    ]


class ScriptedCluster(ClusterHere):
    """A cluster with these lines, by the names of its workers."""

    def __init__(self, address: str, lines: dict[str, ScriptedLine]) -> None:
        super().__init__(address)
        self._lines = lines

    def workers(self) -> list[str]:
        return [*self._lines]

    def line(self, actor: str) -> Any:
        return self._lines[actor]


@pytest.mark.gpu
def test_a_gpu_that_two_workers_see_is_used_once(tune: Tune, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "opened", ClusterHere)
    done = tune("sgemm/06_tiled", "512", "--device", "cuda:0", "--cluster", "dask://two", "--budget", "8", "--json")
    assert done.status == 0, done.err
    assert "dask://two: 1 device measures" in done.err
    assert done.json["evaluated"] == 8
    assert done.json["best"]["time_ms"] > 0
