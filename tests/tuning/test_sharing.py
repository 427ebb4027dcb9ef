"""One study among several processes and devices: nothing is measured twice, nothing is lost."""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import optuna
import pytest
from optuna.trial import TrialState

from helpers.kernels import Stage
from helpers.processes import Tune, start

KERNEL = """
#define _GNU_SOURCE
#include <unistd.h>
void shared(float *C, const float *A, const float *B, int M, int N, int K, int batch, float alpha, float beta) {
    usleep(v == 17 ? 2000 : 6000);
    for (int i = 0; i < M * N; i++) {
        float sum = 0;
        for (int k = 0; k < K; k++) sum += A[i / N * K + k] * B[k * N + i % N];
        C[i] = beta == 0 ? alpha * sum : alpha * sum + beta * C[i];
    }
}
"""


@pytest.fixture(scope="session")
def postgresql() -> Iterator[str]:
    """The URL of a server of our own, on a socket in a folder of its own."""
    programs = max(Path("/usr/lib/postgresql").glob("*/bin"), default=None, key=lambda p: float(p.parent.name))
    assert programs is not None, "PostgreSQL is not installed; sh .ci/setup dev"
    folder = Path(tempfile.mkdtemp(prefix="pg-", dir="/tmp"))  # a socket's path may have 107 characters
    as_user: list[str] = []
    if os.getuid() == 0:  # it refuses to run as root
        user = pwd.getpwnam("postgres")
        os.chown(folder, user.pw_uid, user.pw_gid)
        as_user = ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]
    data = str(folder / "data")

    def run(program: str, *arguments: str) -> None:
        command = [*as_user, str(programs / program), "-D", data, *arguments]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd=folder)

    run("initdb", "-U", "tuner", "-A", "trust", "-N")
    run("pg_ctl", "start", "-w", "-l", str(folder / "log"), "-o", f"-k {folder} -c listen_addresses= -c fsync=off")
    try:
        yield f"postgresql+psycopg://tuner@/postgres?host={folder}"
    finally:
        run("pg_ctl", "stop", "-m", "immediate")
        shutil.rmtree(folder, ignore_errors=True)


def measured(url: str) -> tuple[Counter[str], list[optuna.trial.FrozenTrial]]:
    """How often each configuration was measured, and all trials, of the one study at `url`."""
    (summary,) = optuna.study.get_all_study_summaries(url)
    study = optuna.load_study(study_name=summary.study_name, storage=url)
    done = study.get_trials(states=(TrialState.COMPLETE, TrialState.FAIL))
    return Counter(json.dumps(trial.params) for trial in done), study.trials


def test_four_processes_share_a_study_in_postgresql_and_one_is_killed(stage: Stage, postgresql: str) -> None:
    file = stage(KERNEL, "shared", f"{{v: {list(range(120))}}}")
    request = (str(file), "8", "--device", "host", "--storage", postgresql, "--json", "--full")
    processes = [start(*request) for _ in range(4)]
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        with contextlib.suppress(ValueError):  # as long as there is no study
            if sum(measured(postgresql)[0].values()) > 30:
                break
        time.sleep(0.2)
    processes[0].kill()
    processes[0].communicate()
    for process in processes[1:]:
        out, err = process.communicate(timeout=120)
        assert process.returncode == 0, err
        assert json.loads(out)["best"]["config"] == {"v": 17}
    counts, trials = measured(postgresql)
    assert len(counts) == 120
    assert set(counts.values()) == {1}
    assert {trial.state for trial in trials} <= {TrialState.COMPLETE, TrialState.PRUNED}
    workers = {trial.user_attrs["worker"] for trial in trials if trial.state == TrialState.COMPLETE}
    assert len(workers) == 4
    assert trials[0].params.keys() == {"v"}


def test_the_same_command_goes_on_in_a_database(tune: Tune, stage: Stage, tmp_path: Path) -> None:
    file = stage(KERNEL, "shared", f"{{v: {list(range(12, 20))}}}")
    url = f"sqlite:///{tmp_path}/studies.db"
    first = tune(file, "8", "--storage", url, "--json", "--budget", "3", "--strategy", "brute_force")
    assert first.json["evaluated"] == 3
    again = tune(file, "8", "--storage", url, "--json")
    assert "3 measured before" in again.err
    assert again.json["best"]["config"] == {"v": 17}
    assert set(measured(url)[0].values()) == {1}
    assert "measured before" not in tune(file, "8", "--storage", url, "--fresh").err


def test_a_storage_that_cannot_be_is_one_message(tune: Tune, tmp_path: Path) -> None:
    for url, message in [
        ("redis://localhost", "there is no such storage"),
        ("nonsense", "there is no such storage"),
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
    environment = {**os.environ, "POCL_DEVICES": names}
    command = [sys.executable, "-m", "tuner", *request]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False, timeout=300)
    return done.returncode, done.stdout, done.stderr


def test_two_devices_of_a_kind_share_the_work(tmp_path: Path) -> None:
    request = ("sgemm/03_naive", "33", "--devices", "opencl:0,opencl:1", "--budget", "24", "--json")
    status, out, err = on_two_devices("pthread pthread", *request, "--strategy", "brute_force")
    assert status == 0, err
    assert json.loads(out)["evaluated"] == 24
    (ledger,) = (tmp_path / "state").rglob("*.log")
    claims = [entry for line in ledger.read_text().splitlines() if "params" in (entry := json.loads(line))]
    assert len(claims) == len({json.dumps(claim["params"]) for claim in claims}) == 24


def test_devices_of_different_kinds_refuse_to_share(tune: Tune) -> None:
    status, _, err = on_two_devices("basic pthread", "sgemm/03_naive", "33", "--devices", "all", "--json")
    assert status == 2
    assert "devices of different kinds do not share a study" in err
    assert "do not share a study" in tune("sgemm/03_naive", "33", "--devices", "opencl:0,cuda:0").err
    assert "is there twice" in tune("sgemm/03_naive", "33", "--devices", "opencl:0,opencl:0").err
