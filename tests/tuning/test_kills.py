"""Whatever is killed, interrupted or full, what was measured is kept."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from helpers.faulty import HOST
from helpers.kernels import MULTIPLY, Stage, c_kernel
from helpers.ledgers import claims, finished, measured, outcomes
from helpers.processes import (
    PATIENCE_SECONDS,
    Tune,
    cpu_seconds,
    of_this_test,
    start,
    strategies_of,
    wait_until,
    workers,
)
from tuner.search import foreign

pytestmark = pytest.mark.slow


@pytest.fixture
def many(stage: Stage) -> Callable[[int], Path]:
    """So many configurations of about a millisecond each."""
    text = HOST.replace("if (v != 7 && fault == 0) usleep(3000);", "usleep(1000 + 10 * v);")
    return lambda count: stage(text, "faulty", f"{{v: {list(range(count))}, fault: [0]}}")


def test_kills_in_a_row_lose_nothing_and_measure_nothing_twice(many: Callable[[int], Path], tmp_path: Path) -> None:
    """Supervisor or worker, at random moments; the same command then goes on."""
    random_moments, known = random.Random(0), 0
    command = (str(many(20)), "8", "--device", "host", "--full", "--json")  # no time is in doubt
    for round_ in range(4):
        process = start(*command)
        if round_ % 2:
            time.sleep(random_moments.uniform(0.0, 1.0))
        else:  # some configurations later: one that is lost three times in a row would be given up
            goal = min(measured(tmp_path) + random_moments.randrange(1, 4), 20)
            wait_until(lambda goal=goal: measured(tmp_path) >= goal, process)
            time.sleep(random_moments.uniform(0.0, 0.05))
        if round_ % 4 < 2:
            for worker in workers(process.pid):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(worker, signal.SIGKILL)
            time.sleep(random_moments.uniform(0.0, 0.1))
        process.kill()
        process.communicate()
        counts = finished(tmp_path)
        assert all(count == 1 for count in counts.values())
        assert len(counts) >= known
        known = len(counts)
    _, err = (process := start(*command)).communicate()
    assert process.returncode == 0, err
    counts = finished(tmp_path)
    assert len(counts) == 20
    assert all(count == 1 for count in counts.values())
    assert of_this_test() == []


def test_what_brings_down_its_process_again_and_again_is_not_tried_any_more(stage: Stage, tmp_path: Path) -> None:
    text = HOST.replace("usleep(3000)", "usleep(v == 1 ? 100000000 : 1000)")
    file = stage(text, "faulty", "{v: [0, 1, 7], fault: [0]}")
    command = (str(file), "8", "--device", "host", "--json")
    number, offender = -1, '{"fault": 0, "v": 1}'
    for _ in range(3):
        process, before = start(*command), number
        wait_until(lambda before=before: claims(tmp_path).get(offender, before) != before, process, pause=0.5)
        number = claims(tmp_path)[offender]
        process.kill()
        process.communicate()
    out, err = (process := start(*command)).communicate()
    assert process.returncode == 0, err
    assert json.loads(out)["failed"] == {"repeat offender": 1}


def test_a_full_disk_is_one_message_and_the_same_command_goes_on(many: Callable[[int], Path], tmp_path: Path) -> None:
    command = (str(many(30)), "8", "--device", "host", "--full", "--json")  # no time is in doubt
    process = start(*command, limit=40_000)  # bytes of a file, the ledger's among them
    _, err = process.communicate()
    assert process.returncode == 2
    assert "File too large" in err.splitlines()[-1]
    assert "Traceback" not in err
    before = finished(tmp_path)
    assert 5 < len(before) < 30
    _, err = (process := start(*command)).communicate()
    assert process.returncode == 0, err
    counts = finished(tmp_path)
    assert len(counts) == 30
    assert all(count == 1 for count in counts.values())


@pytest.mark.parametrize(("sent", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_run_keeps_its_trials_and_says_how_to_go_on(
    sent: signal.Signals, status: int, stage: Stage, tune: Tune, tmp_path: Path
) -> None:
    body = f"if (mode > 2) usleep(100000); {MULTIPLY} if (mode == 0) C[0] += 1;"
    file = stage(c_kernel("slow", body), "slow", f"{{mode: {list(range(40))}}}")
    command = start(str(file), "8", "--json", "--repeats", "1")
    assert command.stderr is not None
    lines = []
    while not lines or not lines[-1].startswith("2/40"):
        lines.append(command.stderr.readline())
        assert lines[-1], "it ended before it could be interrupted"
    before = len(finished(tmp_path))
    command.send_signal(sent)
    out, err = command.communicate(timeout=PATIENCE_SECONDS)
    assert command.returncode == status
    assert len(finished(tmp_path)) <= before + 5, "of forty, most of which take half a second"
    assert out == ""
    assert "finished trials are kept: run the same command again to continue" in err
    assert "Traceback" not in err
    assert "mode=0 failed verification" in tune("best", file, "8").err, "what was found wrong is kept, too"
    again = tune(file, "8", "--json", "--repeats", "1", "--budget", "3")
    assert "measured before" in again.err
    assert ".lock" not in again.err
    assert again.json["failed"] == {"wrong result": 1}, "nothing counts as failed because it was interrupted"


def test_what_an_interrupted_final_round_has_found_wrong_is_kept(stage: Stage, tune: Tune, tmp_path: Path) -> None:
    body = f"""
    if (mode == 0 && alpha != 1.0f) alpha = 0;    /* other options are those of the final round */
    while (mode == 1 && alpha != 1.0f) usleep(1000);
    if (mode == 1) usleep(2000);
    {MULTIPLY}
    """
    file = stage(c_kernel("late", body), "late", "{mode: [0, 1]}")
    process = start(str(file), "8", "--json")
    wait_until(lambda: "finals" in outcomes(tmp_path).values(), process)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 130, err
    assert "mode=0 failed verification" in tune("best", file, "8").err


@pytest.fixture
def endless(stage: Stage) -> Path:
    """Five configurations on which Kernel Tuner's genetic algorithm never comes to an end."""
    names = {name: list(range(5)) for name in "abc"}
    return stage(c_kernel("endless", MULTIPLY), "endless", json.dumps(names), more="restrictions: [a == b, b == c]")


def test_a_strategy_without_end_is_given_up_and_said(
    endless: Path, tune: Tune, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(foreign, "PATIENCE_SECONDS", 1.0)
    done = tune(endless, "8", "--strategy", "kt:genetic_algorithm", "--json")
    assert done.status == 0, done.err
    given_up = "kt:genetic_algorithm has computed for 1 s without asking for anything; random configurations use up"
    assert done.err.count(given_up) == 1
    assert done.json["evaluated"] == 5
    assert set(finished(tmp_path).values()) == {1}


@pytest.mark.parametrize(("sent", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_a_run_inside_a_strategy_without_end(sent: signal.Signals, status: int, endless: Path) -> None:
    process = start(str(endless), "8", "--device", "host", "--strategy", "kt:genetic_algorithm")
    wait_until(lambda: sum(map(cpu_seconds, strategies_of(process.pid))) > 1, process)
    process.send_signal(sent)
    _, err = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == status, err
    assert "finished trials are kept" in err
    assert "computed" not in err, "it ended because the strategy did"
    wait_until(lambda: not of_this_test())
