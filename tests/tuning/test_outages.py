"""A database may go away at any moment: nothing is lost or measured twice, and no password is shown."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path
from threading import Timer

import pytest
from optuna.trial import TrialState

from helpers.commands import Command
from helpers.databases import Server, measured, workers_of
from helpers.kernels import MULTIPLY, Stage, c_kernel
from helpers.processes import PATIENCE_SECONDS, Tune, start, wait_until
from helpers.records import sizes
from tuner.catalog import catalog
from tuner.errors import RequestError
from tuner.measure.results import Outcome
from tuner.tuning.ledger import patience
from tuner.tuning.ledger.ledger import Ledger
from tuner.tuning.ledger.study import StudyKey
from tuner.tuning.ledger.trial import Trial

pytestmark = pytest.mark.slow

SECRET = "s3cr3t"
KEY = StudyKey(sizes(8), {}, "device", "signature", "toolchain")


def line_with(text: str, process: subprocess.Popen[str] | Command) -> str:
    """The next line on standard error that says `text`."""
    assert process.stderr is not None
    said = []
    for line in process.stderr:
        said.append(line)
        if text in line:
            return line
    raise AssertionError(f"it never said {text!r}, but {''.join(said)}")


def gated(stage: Stage, gate: Path) -> tuple[str, ...]:
    """A request of 6 configurations, half of which run only when there is a file `gate`."""
    text = c_kernel("gated", f'while (v > 2 && access("{gate}", F_OK)) usleep(20000); {MULTIPLY}')
    file = stage(text, "gated", f"{{v: {list(range(6))}}}")
    return (str(file), "8", "--device", "host", "--repeats", "1", "--timeout", str(PATIENCE_SECONDS))


def test_a_database_that_is_killed_and_comes_back_costs_nothing(server: Server, stage: Stage, tmp_path: Path) -> None:
    request, url = gated(stage, tmp_path / "gate"), server.database("outage", SECRET)
    processes = [start(*request, "--storage", url, alone=alone) for alone in (True, False)]
    try:
        wait_until(lambda: len(workers_of(url, TrialState.RUNNING)) == 2, processes[0], pause=0.5)
        server.kill()
        (tmp_path / "gate").touch()
        said = [line_with("does not answer", process) for process in processes]
        assert all("; trying again for 120 s" in line for line in said)
        assert not any("invalid data" in line for line in said), "it names the cause"
        assert SECRET not in Path(f"/proc/{processes[0].pid}/cmdline").read_text()
    finally:
        server.start()
    for process in processes:
        assert line_with("answers again", process)
        _, err = process.communicate(timeout=PATIENCE_SECONDS)
        assert process.returncode == 0, err
        assert SECRET not in err
    counts, _ = measured(url)
    assert len(counts) == 6
    assert set(counts.values()) == {1}


def test_a_run_that_waits_for_its_database_ends_at_once_when_it_is_told(
    server: Server, stage: Stage, tmp_path: Path
) -> None:
    request, url = gated(stage, tmp_path / "gate"), server.database("ended")
    process = start(*request, "--storage", url)
    wait_until(lambda: workers_of(url, TrialState.RUNNING), process, pause=0.5)
    server.kill()
    (tmp_path / "gate").touch()
    line_with("does not answer", process)
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 143, err
    assert "cannot be used" not in err, "it ended because it had waited long enough"
    assert "Traceback" not in err


def test_a_cut_connection_is_made_again_and_a_dead_database_is_given_up(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    space, url = catalog.load("sgemm/01_host_blocked"), server.database("ledger")
    config = dict(space.default)
    with Ledger(space, KEY, url=url, say=said.append) as ledger:
        assert ledger.claim(config, 60)
        server.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()")
        assert ledger.begin(config)
        server.kill()
        restart = Timer(1.0, server.start)
        restart.start()
        assert ledger.finish(Trial(config, Outcome(times=(1.0,)), (1.0,), 60.0))
        restart.join()
        assert len(said) == 2
        assert "does not answer: " in said[0]
        assert said[1].endswith("the database answers again")
        server.stop()
        monkeypatch.setattr(patience, "PATIENCE_SECONDS", 0.5)
        with pytest.raises(RequestError, match=r"cannot be used: .*(socket|connection).*; all measurements are kept"):
            ledger.news()
    server.start()
    with Ledger(space, KEY, url=url) as ledger:
        assert [trial.config for trial in ledger.trials] == [config]


@pytest.mark.parametrize(
    "url",
    [
        "postgresql+psycopg://me:{}@nowhere.invalid/db",
        "postgresql+psycopg://me:{}/more@nowhere.invalid/db",
        "postgresql+psycopg://me:more@{}@nowhere.invalid/db",
        "postgresql+psycopg://me:{}%40%2F@nowhere.invalid/db",
        "postgresql+psycopg://me:more%40{}@nowhere.invalid/db",
        "postgresql+psycopg://me@nowhere.invalid/db?password={}",
        "postgresql+psycopg://nowhere.invalid/db?password=more@{}&sslmode=disable",
        "postgresql+psycopg://me:{}@",
        "postgresql+psycopg://me:{}",
        "postgresql+psycopg://:{}@/db?host=/nowhere",
        "postgresql+psycopg:me:{}@nowhere.invalid/db",
        "postgresql+psycopg:/me:{}@nowhere.invalid/db",
        "postgresql+psycopg://me:{}@nowhere.invalid:port/db",
        "postgresql+psycopg://me:{{{}}}@nowhere.invalid/db",
        "me:{}@nowhere.invalid/db",
        "//me:{}@nowhere.invalid/db",
        "oracle://me:{}@nowhere.invalid/db",
        "mysql+pymysql://me:{}@nowhere.invalid/db",
        "grpc://me:{}@somewhere",
        "grpc://somewhere:{}",
    ],
)
def test_no_message_shows_a_password(url: str, tune: Tune) -> None:
    for request in (("sgemm/00_host_simple", "8"), ("export", "sgemm/00_host_simple", "8", "--to", "csv")):
        result = tune(*request, "--storage", url.format(SECRET))
        assert result.status == 2, result.err
        assert SECRET not in result.err + result.out
        assert len(result.err.splitlines()) == 1
