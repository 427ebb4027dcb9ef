"""A PostgreSQL server of a test's own, and what studies in a database say."""

from __future__ import annotations

import functools
import json
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections import Counter
from pathlib import Path

import optuna
from optuna.storages import BaseStorage
from optuna.trial import TrialState

from helpers.processes import wait_until
from tuner.tuning.ledger import storage


class Server:
    """A server on a socket in a folder of its own. `close` it at the end."""

    def __init__(self) -> None:
        programs = max(Path("/usr/lib/postgresql").glob("*/bin"), default=None, key=lambda p: float(p.parent.name))
        assert programs is not None, "PostgreSQL is not installed; sh .ci/setup dev"
        self._programs = programs
        self._folder = Path(tempfile.mkdtemp(prefix="pg-", dir="/tmp"))  # a socket's path may have 107 characters
        self._as_user: list[str] = []
        if os.getuid() == 0:  # it refuses to run as root
            user = pwd.getpwnam("postgres")
            os.chown(self._folder, user.pw_uid, user.pw_gid)
            self._as_user = ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]
        self._run("initdb", "-U", "tuner", "-A", "trust", "-N")
        self.start()

    def start(self) -> None:
        options = f"-k {self._folder} -c listen_addresses= -c fsync=off"
        self._run("pg_ctl", "start", "-w", "-l", str(self._folder / "log"), "-o", options)

    def stop(self) -> None:
        """As an administrator does who wants it to end at once: connections are cut."""
        self._run("pg_ctl", "stop", "-m", "immediate")

    def kill(self) -> None:
        """Kill all its processes."""
        pid = int((self._folder / "data" / "postmaster.pid").read_text().split()[0])
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        for process in (pid, *map(int, children)):
            os.kill(process, signal.SIGKILL)
        wait_until(lambda: not any(Path(f"/proc/{process}/cmdline").exists() for process in (pid, *children)))
        (self._folder / "data" / "postmaster.pid").unlink()

    def is_running(self) -> bool:
        return (self._folder / "data" / "postmaster.pid").exists()

    def close(self) -> None:
        if self.is_running():
            self.stop()
        shutil.rmtree(self._folder, ignore_errors=True)

    def database(self, name: str, password: str = "") -> str:
        """The URL of a new database; no password is asked for."""
        self.execute(f"CREATE DATABASE {name}")
        user = f"tuner:{password}" if password else "tuner"
        return f"postgresql+psycopg://{user}@/{name}?host={self._folder}"

    def execute(self, statement: str, database: str = "postgres") -> None:
        import psycopg  # a machine with a GPU may lack it

        with psycopg.connect(host=str(self._folder), user="tuner", dbname=database, autocommit=True) as connection:
            connection.execute(statement)

    def _run(self, program: str, *arguments: str) -> None:
        command = [*self._as_user, str(self._programs / program), "-D", str(self._folder / "data"), *arguments]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd=self._folder)


@functools.cache
def opened(url: str) -> BaseStorage:
    """The storage at `url`. Waits while another process makes its tables."""
    return storage.at(url)


def measured(url: str) -> tuple[Counter[str], list[optuna.trial.FrozenTrial]]:
    """How often a search measured each configuration, and all trials, of the one study at `url`."""
    (summary,) = optuna.study.get_all_study_summaries(opened(url))
    study = optuna.load_study(study_name=summary.study_name, storage=opened(url))
    done = study.get_trials(states=(TrialState.COMPLETE, TrialState.FAIL))
    return Counter(json.dumps(t.params) for t in done if not t.user_attrs.get("revised")), study.trials


def taken_over(url: str) -> Counter[str]:
    """How often the studies at `url` have copied each configuration from one another: no worker has claimed a copy."""
    names = [summary.study_name for summary in optuna.study.get_all_study_summaries(opened(url))]
    trials = [trial for name in names for trial in optuna.load_study(study_name=name, storage=opened(url)).trials]
    return Counter(json.dumps(trial.params) for trial in trials if "worker" not in trial.user_attrs)


def running_of(url: str) -> set[str]:
    """The configurations that are claimed, and not measured yet, in the study at `url`."""
    try:
        trials = measured(url)[1]
    except ValueError:  # there is no study yet
        return set()
    return {json.dumps(trial.params) for trial in trials if trial.state == TrialState.RUNNING}


def workers_of(url: str, state: TrialState) -> set[str]:
    """The processes that have trials of this state in the study at `url`."""
    try:
        trials = measured(url)[1]
    except ValueError:  # there is no study yet
        return set()
    return {trial.user_attrs["worker"] for trial in trials if trial.state == state}
