"""Every answer belongs to its question, and no process outlives the one that it works for."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

import pytest

from helpers.faulty import ENDLESS_MACRO, HOST
from helpers.kernels import BLAS_ARGUMENTS, MULTIPLY, Stage
from helpers.ledgers import finished, outcomes
from helpers.processes import PATIENCE_SECONDS, Tune, of_this_test, reapers, start, wait_until, workers

# What a kernel may do to the process that runs it, by `mode`; it is right in all modes but 9.
TRESPASSES = f"""
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
void trespasser({BLAS_ARGUMENTS}) {{
    {MULTIPLY}
    int i, highest = 6000;
    const char *answer = "{{\\"number\\": 3, \\"pid\\": 1}}\\n";
#if mode == 1
    fork();
#elif mode == 2
    if (!fork()) {{ setsid(); if (!fork()) for (;;) pause(); _exit(0); }}
#elif mode == 3
    if (!fork()) for (i = 3; i < highest; i++) write(i, answer, 25);
#elif mode == 4
    for (i = 0; i < 11; i++) close(i);
#elif mode == 5
    for (i = 0; i < 11; i++) write(i, answer, 25);
#elif mode == 6
    for (i = 0; i < highest; i++) close(i);
#elif mode == 7
    for (i = 0; i < highest; i++) write(i, answer, 25);
#elif mode == 8
    for (i = 3; i < highest; i++) {{ close(i); dup(0); }}
#elif mode == 9
    C[0] += 1;
#elif mode == 10
    kill(getppid(), SIGSTOP);
#elif mode == 11
    if (!vfork()) _exit(0);
#endif
}}
"""


def mode(number: int) -> str:
    return json.dumps({"after": 0, "mode": number})


@pytest.mark.slow
def test_whatever_a_kernel_does_to_its_process_every_answer_belongs_to_its_question(
    tune: Tune, stage: Stage, tmp_path: Path
) -> None:
    numbers = list(range(12))
    mixed = [numbers[5 * position % 12] for position in numbers]  # so that none has the same neighbours
    file = stage(TRESPASSES, "trespasser", f"{{mode: {mixed}, after: [0, 9]}}", "c",
                 'restrictions: ["after == 0 or mode in (1, 2)"]')  # fmt: skip
    done = tune(file, "24", "--timeout", "20", "--json", "--repeats", "3")
    assert done.status == 0, done.err
    assert "Traceback" not in done.err
    failures = outcomes(tmp_path)
    assert failures.pop(mode(3)) in ("crash", None), "its copies write at any moment"
    assert {config: failure for config, failure in failures.items() if failure} == {
        mode(4): "crash", mode(6): "crash", mode(7): "crash", mode(8): "crash", mode(9): "wrong result"
    }  # fmt: skip
    assert all(count == 1 for count in finished(tmp_path).values())
    assert len(failures) == 13
    assert of_this_test() == []


SLOW_TO_COMPILE = ENDLESS_MACRO + HOST.replace("if (v != 7 && fault == 0) usleep(3000);", "")


@pytest.mark.slow
@pytest.mark.parametrize("killed", ["the command", "its reapers", "nothing"])
def test_no_compiler_outlives_the_run_however_it_ends(killed: str, stage: Stage) -> None:
    file = stage(SLOW_TO_COMPILE, "faulty", "{v: [0, 1, 2], fault: [2]}")
    process = start(str(file), "8", "--device", "host", "--timeout", "600")
    wait_until(lambda: sum("cc1" in command for command in of_this_test()) > 1, process)
    assert process.poll() is None
    if killed == "the command":
        process.kill()
    elif killed == "its reapers":
        watched = [*reapers(process.pid), *reapers(process.pid, "compile_worker")]
        assert len(watched) > 1
        for pid in watched:
            os.kill(pid, signal.SIGKILL)
    if killed != "the command":
        process.terminate()
    process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == (-signal.SIGKILL if killed == "the command" else 143)
    for _ in range(600):
        if not of_this_test():
            break
        time.sleep(0.1)
    assert of_this_test() == []


@pytest.mark.slow
def test_compilers_have_a_limit_of_time_and_memory_and_the_worker_has_none(stage: Stage) -> None:
    file = stage(SLOW_TO_COMPILE, "faulty", "{v: [0], fault: [2]}")
    process = start(str(file), "8", "--device", "host", "--timeout", "100")
    limits: dict[str, dict[str, str]] = {}

    def compiling() -> bool:
        for path in Path("/proc").glob("[0-9]*"):
            try:
                mine = f"TUNER_STATE={os.environ['TUNER_STATE']}" in (path / "environ").read_text().split("\0")
                if mine and (path / "comm").read_text().strip() == "cc1":
                    limits["cc1"] = limits_of(path)
            except (OSError, ValueError):
                continue
        return "cc1" in limits

    wait_until(compiling, process)
    limits["worker"] = limits_of(Path(f"/proc/{workers(process.pid)[0]}"))
    process.terminate()
    process.communicate()
    assert limits["cc1"]["Max cpu time"] != "unlimited"
    assert int(limits["cc1"]["Max address space"]) < os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert limits["worker"]["Max cpu time"] == limits["worker"]["Max address space"] == "unlimited"


def limits_of(process: Path) -> dict[str, str]:
    """The soft limits of a process by name."""
    return {line[:25].strip(): line[25:].split()[0] for line in (process / "limits").read_text().splitlines()[1:]}
