"""One study among several processes and devices: nothing is measured twice, nothing is lost."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path

import pytest
from optuna.trial import TrialState

from helpers import commands
from helpers.databases import Server, measured, running_of, workers_of
from helpers.kernels import Stage
from helpers.ledgers import asked_for
from helpers.own_kernels import scaled
from helpers.processes import PATIENCE_SECONDS, Tune, start, wait_until
from tuner.catalog import catalog
from tuner.measure.process import scratch
from tuner.measure.process.supervisor import Supervisor
from tuner.measure.process.task import Task

KERNEL = """
#define _GNU_SOURCE
#include <unistd.h>
#ifndef GATE
#define GATE "/"
#endif
void shared(float *C, const float *A, const float *B, int M, int N, int K, int batch, float alpha, float beta) {
    while (v >= 11 && access(GATE, F_OK)) usleep(1000);
    usleep(v == 17 ? 500 : 6000);
    for (int i = 0; i < M * N; i++) {
        float sum = 0;
        for (int k = 0; k < K; k++) sum += A[i / N * K + k] * B[k * N + i % N];
        C[i] = beta == 0 ? alpha * sum : alpha * sum + beta * C[i];
    }
}
"""


@pytest.mark.slow
def test_three_processes_share_a_study_in_postgresql_and_one_is_killed(
    stage: Stage, postgresql: Server, tmp_path: Path
) -> None:
    url = postgresql.database("shared")
    gate = tmp_path / "gate"  # most configurations wait for it, so that none comes too late to take part
    file = stage(f'#define GATE "{gate}"\n{KERNEL}', "shared", "{v: [9, 10, 14, 15, 16, 17]}")
    options = ("--device", "host", "--storage", url, "--timeout", str(PATIENCE_SECONDS), "--json", "--full")
    processes = [start(str(file), "8", *options) for _ in range(3)]
    # Two may claim the same one, and the second withdraws: each must wait at the gate with one of its own.
    wait_until(lambda: len(running_of(url)) == len(workers_of(url, TrialState.RUNNING)) == 3, processes[0], pause=0.5)
    gate.touch()
    wait_until(lambda: len(workers_of(url, TrialState.COMPLETE)) == 3, processes[0], pause=0.5)
    processes[0].kill()
    processes[0].communicate()
    for process in processes[1:]:
        out, err = process.communicate(timeout=PATIENCE_SECONDS)
        assert process.returncode == 0, err
        assert json.loads(out)["best"]["config"] == {"v": 17}
    counts, trials = measured(url)
    assert len(counts) == 6
    assert set(counts.values()) == {1}
    # The killed one may have claimed what another had claimed before, and was not there to withdraw.
    others = [trial for trial in trials if f" {processes[0].pid} " not in trial.user_attrs["worker"]]
    assert {trial.state for trial in others} <= {TrialState.COMPLETE, TrialState.PRUNED}
    assert len(workers_of(url, TrialState.COMPLETE)) == 3
    assert trials[0].params.keys() == {"v"}


@pytest.mark.slow
def test_the_same_command_goes_on_in_a_database(tune: Tune, stage: Stage, tmp_path: Path) -> None:
    file = stage(KERNEL, "shared", "{v: [16, 17, 18, 19]}")
    url = f"sqlite:///{tmp_path}/studies.db"
    first = tune(file, "8", "--storage", url, "--json", "--budget", "2", "--strategy", "brute_force")
    assert first.json["evaluated"] == 2
    again = tune(file, "8", "--storage", url, "--json")
    assert "2 measured before" in again.err
    assert again.json["best"]["config"] == {"v": 17}
    assert set(measured(url)[0].values()) == {1}
    assert "measured before" not in tune(file, "8", "--storage", url, "--fresh", "--budget", "1").err


@pytest.mark.slow
def test_a_storage_that_cannot_be_is_one_message(tune: Tune, tmp_path: Path) -> None:
    for url, message in [
        ("redis://localhost", "unknown kind of storage"),
        ("nonsense", "unknown kind of storage"),
        ("grpc://me:secret@somewhere", "write grpc://host:port"),
        ("sqlite://", "a database in memory"),
        (f"sqlite:///{tmp_path}/no/such/folder/x.db", "unable to open database file"),
        ("postgresql+psycopg://tuner@/postgres?host=/nowhere", "the ledger cannot be used"),
    ]:
        done = tune("sgemm/00_host_simple", "8", "--storage", url)
        assert done.status == 2, done.err
        assert message in done.err
        assert "secret" not in done.err
        assert len(done.err.splitlines()) == 1


def on_two_devices(names: str, *request: str) -> tuple[int, str, str]:
    """The `tune` command where PoCL shows the processor as the devices `names`."""
    out, err = (command := commands.start(*request, environment={**os.environ, "POCL_DEVICES": names})).communicate()
    return command.wait(), out, err


@pytest.mark.slow
def test_two_devices_of_a_kind_share_the_work(tmp_path: Path) -> None:
    request = ("sgemm/03_naive", "33", "--devices", "opencl:0,opencl:1", "--budget", "6", "--json")
    status, out, err = on_two_devices("pthread pthread", *request, "--strategy", "brute_force")
    assert status == 0, err
    assert json.loads(out)["evaluated"] == 6
    (journal,) = (tmp_path / "state").rglob("*.log")
    asked = asked_for(journal)
    assert len(asked) == len({json.dumps(config) for config in asked}) == 6


def test_a_worker_draws_inputs_beside_the_one_that_it_follows_and_takes_its_answers(tmp_path: Path) -> None:
    file, computed = scaled(tmp_path, "twice"), tmp_path / "computed"
    text = file.read_text().replace("reference: 2 * x", "reference: {python: check.py:right}")
    file.write_text(text.replace("role: in}", "role: in, fill: {python: check.py:drawn}}"))
    (tmp_path / "check.py").write_text(f"""
import os, pathlib, time
HERE = pathlib.Path({str(tmp_path)!r})
calls = 0
def drawn(rng, n):  # returns when both workers draw the same set
    global calls
    calls += 1
    (HERE / f"{{calls}}-{{os.getpid()}}.drawn").touch()
    deadline = time.monotonic() + {PATIENCE_SECONDS}
    while len(list(HERE.glob(f"{{calls}}-*.drawn"))) < 2:
        assert time.monotonic() < deadline, "the other does not draw"
        time.sleep(0.01)
    return rng.random(n, dtype="float32")
def right(x):
    with open({str(computed)!r}, "a") as file:
        print(x[:3], file=file)
    return 2 * x
""")
    task = Task(catalog.load(str(file)), {"n": 1000}, {})
    with (
        scratch.file() as products,
        contextlib.closing(Supervisor(task, "host:0", products)) as lead,
        contextlib.closing(Supervisor(task, "host:0", products, follows=True)) as other,
    ):
        for worker in (lead, other):
            worker.switch_to(task)
        lead.get_ready()
        assert [worker.measure({"unroll": 1}).failure for worker in (lead, other)] == [None, None]
    sets = computed.read_text().splitlines()
    assert len(sets) == len(set(sets)) > 1


@pytest.mark.slow
def test_devices_of_different_kinds_refuse_to_share(tune: Tune) -> None:
    status, _, err = on_two_devices("basic pthread", "sgemm/03_naive", "33", "--devices", "all", "--json")
    assert status == 2
    assert "devices of different kinds do not share a study" in err
    assert "do not share a study" in tune("sgemm/03_naive", "33", "--devices", "opencl:0,cuda:0").err
    assert "is listed twice" in tune("sgemm/03_naive", "33", "--devices", "opencl:0,opencl:0").err
