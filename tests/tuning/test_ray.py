"""One search on a cluster of Ray, where Ray is installed: nodes come and go, and nothing is lost or measured twice."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from helpers import commands
from helpers.clusters import GATED
from helpers.kernels import Stage
from helpers.ledgers import claims, finished
from helpers.processes import PATIENCE_SECONDS, Tune, wait_until


class Nodes:
    """A head node of Ray and others on this machine. Each has a cache of its own, so that it counts as a machine."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._started = folder, list[subprocess.Popen[bytes]]()
        self._own = tempfile.TemporaryDirectory(prefix="ray", ignore_cleanup_errors=True)  # sockets have short names
        self._port, clients, *_ = _free_ports(2)
        self.address = f"ray://127.0.0.1:{clients}"
        self._start("head", "--head", f"--port={self._port}", f"--ray-client-server-port={clients}")
        wait_until(lambda: _answers(clients))

    def add(self, name: str) -> subprocess.Popen[bytes]:
        """Add a node; its processes are a group."""
        return self._start(name, f"--address=127.0.0.1:{self._port}")

    def _start(self, name: str, *options: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "ray.scripts.scripts", "start", "--block", "--num-cpus=2", *options]
        if "--head" in options:
            command += ["--include-dashboard=false", "--disable-usage-stats", f"--temp-dir={self._own.name}"]
        variables = {**os.environ, "TUNER_CACHE": str(self._folder / name)}
        with (self._folder / f"{name}.log").open("wb") as log:
            node = subprocess.Popen(
                command, env=variables, stdout=log, stderr=log, start_new_session=True, cwd=self._folder
            )
        self._started.append(node)
        return node

    def close(self) -> None:
        """End all nodes."""
        for node in self._started:
            kill(node)
        self._own.cleanup()


def kill(node: subprocess.Popen[bytes]) -> None:
    """Kill all processes of a node."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(node.pid, signal.SIGKILL)
    node.wait(PATIENCE_SECONDS)


def _free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def _answers(port: int) -> bool:
    with socket.socket() as asking:
        return asking.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture
def ray(tmp_path: Path) -> Iterator[Nodes]:
    pytest.importorskip("ray")
    nodes = Nodes(tmp_path)
    yield nodes
    nodes.close()


@pytest.mark.slow
def test_a_node_of_ray_leaves_another_joins_and_each_configuration_is_measured_once(
    stage: Stage, ray: Nodes, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    file = stage(f'#define GATE "{gate}"\n{GATED}', "gated", "{v: [5, 6, 7]}")
    leaves = ray.add("leaves")
    command = commands.start(
        str(file), "8", "--cluster", ray.address, "--timeout", str(PATIENCE_SECONDS), "--json", "--full"
    )
    wait_until(lambda: len(claims(tmp_path)) == 2, command)
    kill(leaves)
    said = []
    for line in command.stderr:
        said.append(line)
        if " is lost: " in line:
            break
    ray.add("joins")
    for line in command.stderr:
        said.append(line)
        if " joins the search" in line:
            break
    gate.touch()
    out, err = command.communicate(timeout=PATIENCE_SECONDS)
    assert command.wait() == 0, "".join([*said, err])
    assert json.loads(out)["best"]["config"] == {"v": 7}
    assert [*finished(tmp_path).values()] == [1, 1, 1]


def test_a_cluster_of_ray_that_cannot_be_used_is_one_message(tune: Tune, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = ("sgemm/00_host_simple", "8", "--cluster")
    assert "not the address of a scheduler; write dask://scheduler:8786, " in tune(*kernel, "ray://x:65536").err
    monkeypatch.setitem(sys.modules, "ray", None)
    done = tune(*kernel, "ray://127.0.0.1:1")
    assert done.status == 2
    assert "--cluster ray://127.0.0.1:1: Ray is missing; run pip install 'ray[client]'" in done.err
