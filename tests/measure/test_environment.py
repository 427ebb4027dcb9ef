"""Trouble of the machine costs no configuration: it is said, tried again, and no ledger keeps it."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import optuna
import pytest
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import TrialState, create_trial

from helpers.kernels import MULTIPLY, Stage, c_kernel
from helpers.ledgers import finished, outcomes
from helpers.processes import Tune, fork_servers, of_this_test, start, wait_until, workers

KEPT = "all measurements are kept, and the same command continues from there"


@pytest.fixture
def three(stage: Stage) -> Path:
    """Three right configurations."""
    return stage(c_kernel("right", MULTIPLY), "right", "{v: [0, 1, 2]}")


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 48 KiB; who may mount none skips."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=48k,mode=700", "none", folder]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("only root mounts a disk")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", folder], check=True)


@pytest.mark.slow
def test_a_full_disk_is_no_failure_of_a_configuration_and_with_room_the_run_goes_on(
    three: Path, disk: Path, tune: Tune, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TUNER_CACHE", str(disk))
    done = tune(three, "8", "--device", "host", "--json")
    assert done.status == 2
    last = done.err.splitlines()[-1]
    assert re.match(r"error: (compiling|loading) \w+: no space is left on the disk at ", last), last
    assert last.endswith(KEPT)
    assert done.err.count("trying again") == 1
    assert not any(outcomes(tmp_path).values())
    subprocess.run(["mount", "-o", "remount,size=20m", disk], check=True)
    again = tune(three, "8", "--device", "host", "--json")
    assert again.status == 0, again.err
    assert again.json["failed"] == {}
    assert again.json["evaluated"] == 3
    assert all(count == 1 for count in finished(tmp_path).values())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("limits", "said"), [("--fsize=4000", "no space is left|File too large"), ("--nofile=13", "Too many open files")]
)
def test_a_limit_of_files_is_one_message_and_no_failure(
    limits: str, said: str, three: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TUNER_CACHE", str(tmp_path / "cache"))  # nothing is built yet
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")  # CPython 3.11 would leave the first 4,000 bytes of a module
    process = start(str(three), "8", "--device", "host", "--json", limits=[limits])
    _, err = process.communicate()
    assert process.returncode == 2, err
    assert "Traceback" not in err
    assert re.search(said, err.splitlines()[-1])
    assert outcomes(tmp_path) == {}


CRAMPED = """#!/bin/sh
for file; do
    case "$file" in *.c) grep -q "define v 1$" "$file" && {
        echo "cc1: out of memory allocating 65536 bytes after a total of 1234 bytes" >&2; exit 1; } ;; esac
done
exec cc "$@"
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("limits", "reason", "kept"), [((), "compile memory", 3), (("--as=1000000000",), "no memory", 2)]
)
def test_a_compiler_that_needs_more_than_its_part_fails_and_where_the_machine_has_less_it_is_tried_again(
    limits: Sequence[str], reason: str, kept: int, three: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiler = tmp_path / "cc"
    compiler.write_text(CRAMPED)
    compiler.chmod(0o755)
    monkeypatch.setenv("CC", str(compiler))
    process = start(str(three), "8", "--device", "host", "--json", limits=limits)
    out, err = process.communicate()
    assert process.returncode == 0, err
    assert json.loads(out)["failed"] == {reason: 1}
    assert len(outcomes(tmp_path)) == kept


@pytest.mark.slow
@pytest.mark.parametrize("killed", [(workers, workers), (fork_servers,)], ids=["worker", "fork server"])
def test_a_process_that_somebody_kills_costs_no_configuration(
    killed: Sequence[Callable[[int], list[int]]], stage: Stage, tmp_path: Path
) -> None:
    body = f"usleep(v == 1 ? 600000 : 100); {MULTIPLY}"
    file = stage(c_kernel("slow", body), "slow", "{v: [0, 1, 2]}")
    process = start(str(file), "8", "--device", "host", "--json")
    for of in killed:
        wait_until(lambda: begun(tmp_path) == 2 and workers(process.pid), process)
        (pid,) = of(process.pid)
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda of=of, pid=pid: pid not in of(process.pid), process)
    out, err = process.communicate()
    assert process.returncode == 0, err
    assert json.loads(out)["failed"] == {}
    assert err.count("SIGKILL") == 1, "it is said once"
    assert outcomes(tmp_path) == {json.dumps({"v": v}): None for v in range(3)}


def begun(folder: Path) -> int:
    """How many configurations a device has been given."""
    lines = [line for path in (folder / "state").rglob("*.log") for line in path.read_text().splitlines()]
    return len({json.loads(line)["trial_id"] for line in lines if '"begun"' in line})


@pytest.mark.slow
def test_a_configuration_whose_process_is_killed_every_time_is_given_up_for_this_run_alone(
    stage: Stage, tune: Tune, tmp_path: Path
) -> None:
    greedy = "{v: [0, 1, 2, 3], greedy: [0, 1]}", "c", 'restrictions: ["greedy == 0 or v == 1"]'
    body = f"if (greedy && access(LOCK, 0)) kill(getpid(), 9); {MULTIPLY}"
    lock = tmp_path / "lock"
    before = f'#include <signal.h>\n#define LOCK "{lock}"'
    file = stage(c_kernel("greedy_one", body, before), "greedy_one", *greedy)
    done = tune(file, "8", "--device", "host", "--json")
    assert done.status == 0, done.err
    assert done.json["failed"] == {"killed": 1}
    assert list(outcomes(tmp_path).values()) == [None] * 4
    lock.touch()
    again = tune(file, "8", "--device", "host", "--json")
    assert again.json["failed"] == {}
    assert len(outcomes(tmp_path)) == 5


@pytest.mark.slow
def test_a_space_in_which_every_process_is_killed_ends_with_one_message(stage: Stage, tune: Tune) -> None:
    file = stage(c_kernel("fatal", "kill(getpid(), 9);", "#include <signal.h>"), "fatal", "{v: [0]}")
    done = tune(file, "8", "--device", "host", "--json")
    assert done.status == 2
    assert "was killed by SIGKILL" in done.err.splitlines()[-1]
    assert done.err.splitlines()[-1].endswith(KEPT)


@pytest.mark.slow
@pytest.mark.parametrize(
    "recorded",
    [
        [
            (1, "compile", "/usr/bin/ld: final link failed: No space left on device"),
            (2, "crash", "the process running it was killed by SIGKILL"),
        ],
        [
            (
                1,
                "compile crash",
                "the process running it ended with status 1: FileNotFoundError: [Errno 2] No such file or directory: "
                "'/root/.cache/tuner/scratch/box-1-x/tuner-y'",
            ),
            (2, "compile", "sh: 1: exec: /opt/gcc/bin/gcc: not found"),
        ],
    ],
)
def test_failures_of_earlier_versions_that_the_machine_may_have_caused_are_tried_again(
    recorded: Sequence[tuple[int, str, str]], three: Path, tune: Tune, tmp_path: Path
) -> None:
    command = (three, "8", "--device", "host", "--json")
    assert tune(*command, "--budget", "1").status == 0
    (path,) = (tmp_path / "state" / "studies").rglob("*.log")
    storage = JournalStorage(JournalFileBackend(str(path)))
    (summary,) = optuna.study.get_all_study_summaries(storage)
    study = optuna.load_study(study_name=summary.study_name, storage=storage)
    template = study.get_trials(states=[TrialState.COMPLETE])[0]
    for v, failure, log in recorded:
        measured = {**template.user_attrs["measured"], "config": {"v": v}, "times_ms": [], "values": []}
        study.add_trial(
            create_trial(
                state=TrialState.FAIL,
                params={"v": v},
                distributions=template.distributions,
                user_attrs={"measured": {**measured, "failure": failure, "log": log}},
            )
        )
    done = tune(*command)
    assert done.json["failed"] == {}
    assert done.json["evaluated"] == 3
    assert outcomes(tmp_path) == {json.dumps({"v": v}): None for v in range(3)}
    assert of_this_test() == []
