"""Whatever a kernel does costs one configuration; whatever is killed, what was measured is kept."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path

import optuna
import pytest
from conftest import Done, start
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend

from tuner.devices import Device

Tune = Callable[..., Done]
Stage = Callable[..., Path]

# Forty right configurations, of which v == 7 is by far the fastest, and one to two of every fault.
SPACE = "{v: [%s], fault: [0, %s]}"
MORE = """
restrictions: ["fault == 0 or v < 2", "fault not in [%s] or v == 0"]
%s
"""
SLOW_FAULTS = "2, 4"  # those that cost a whole --timeout
TIMEOUT = "8"

# Each line of a macro stands for two of the line before it: a compiler never comes to the end of 2^40 words.
ENDLESS_MACRO = "".join(["#define E0 sum += 1;\n", *(f"#define E{i} E{i - 1} E{i - 1}\n" for i in range(1, 41))])

HOST = """
#define _GNU_SOURCE
#include <math.h>
#include <stdlib.h>
#include <unistd.h>
static int deep(volatile int *n) { volatile char frame[4096]; frame[0] = 1; return deep(n) + frame[0]; }
void faulty(float *C, const float *A, const float *B, int M, int N, int K, int batch, float alpha, float beta) {
    if (v != 7 && fault == 0) usleep(3000);
    for (int i = 0; i < M * N; i++) {
        float sum = 0;
        for (int k = 0; k < K; k++) sum += A[i / N * K + k] * B[k * N + i % N];
#if fault == 9
        if (C[i] == C[i]) sum += 1;       /* right only where C is not a number beforehand */
#endif
        C[i] = beta == 0 ? alpha * sum : alpha * sum + beta * C[i];
    }
    float sum = 0; int n = 0;
#if fault == 1
    this is not C
#elif fault == 2
    E40
#elif fault == 3
    *(volatile int *)8 = 1;
#elif fault == 4
    for (volatile int forever = 1; forever;) {}
#elif fault == 5
    C[M * N / 2] += 1;
#elif fault == 6
    C[M * N + 3] = 1;
#elif fault == 7
    C[0] = NAN;
#elif fault == 8
    abort();
#elif fault == 10
    exit(3);
#elif fault == 11
    deep(&n);                             /* no stack is large enough */
#elif fault == 12
    ((volatile char *)malloc(1ull << 62))[1] = 1; /* no memory is large enough */
#elif fault == 13
    ((float *)A)[0] = 9;
#endif
}
"""
HOST_REASONS = {
    "compile": 2, "compile timeout": 1, "crash": 10, "timeout": 1, "wrong result": 2, "writes outside": 2,
    "not a number": 2, "changes from run to run": 2, "writes to an input": 2,
}  # fmt: skip

GPU = """
#include "portable.h"
KERNEL void faulty(GLOBAL float *C, GLOBAL const float *A, GLOBAL const float *B, int M, int N, int K, int batch,
                   float alpha, float beta) {
#if fault == 3
    __shared__ float much[1 << 22];
    much[threadIdx.x] = A[threadIdx.x];
#endif
    int i = blockIdx.x * 64 + threadIdx.x;
    float sum = 0;
    if (i < M * N) {
        for (int again = 0; again < (v == 7 || fault ? 1 : 200); again++) {
            sum = again < N + 1000 ? 0 : sum;
            for (int k = 0; k < K; k++) sum += A[i / N * K + k] * B[k * N + i % N];
        }
#if fault == 9
        if (C[i] == C[i]) sum += 1; // right only where C is not a number beforehand
#endif
        C[i] = SCALED(alpha, sum, beta, C[i]);
    }
#if fault == 1
    this is not a kernel
#elif fault == 2
    E40
#elif fault == 3
    if (i == 0) C[0] += much[63 - threadIdx.x] * 0.0f;
#elif fault == 4
    while (A[0] != 77.0f) {
        C[0] += 1;
        if (A[0] == 78.0f) break;
    }
#elif fault == 5
    if (i == M * N / 2) C[i] += 1;
#elif fault == 6
    if (i == 0) C[M * N + 3] = 1;
#elif fault == 7
    if (i == 0) C[0] = 0.0f / (alpha - alpha);
#elif fault == 8
    if (i == 0) C[1ul << 45] = 1; // no such address
#elif fault == 10
    __syncthreads(); // when all that read it have done so
    if (i == M * N - 1) ((GLOBAL float *)A)[(M - 1) * K] = 9;
#elif fault == 11
    if (i == 0) *(GLOBAL float *)((GLOBAL char *)C + 2) = 1; // an address that is no multiple of 4
#elif fault == 12
    float large[1 << 16]; // a quarter of a megabyte for each of many threads
    for (int j = 0; j < 1 << 16; j++) large[j] = A[0] + j;
    for (int j = 0; j < M * N; j++) C[j] += large[(j * 7919 + i) & ((1 << 16) - 1)] * 0.0f;
#endif
}
"""


def of_this_test() -> list[str]:
    """Command lines of the processes that this test's commands have started, and that still run."""
    mark = f"TUNER_STATE={os.environ['TUNER_STATE']}".encode()
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if int(process.name) != os.getpid() and mark in (process / "environ").read_bytes().split(b"\0"):
                found.append((process / "cmdline").read_bytes().replace(b"\0", b" ").decode())
        except (OSError, ValueError):
            continue  # it has ended, or is somebody else's
    return found


def scratch_folders() -> list[Path]:
    return list((Path(os.environ["TUNER_CACHE"]) / "scratch").glob(f"*-{os.getpid()}-*"))


def finished(folder: Path) -> dict[str, int]:
    """How often each configuration has been measured to its end, according to the ledger."""
    counts: dict[str, int] = {}
    for path in (folder / "state" / "studies").rglob("*.log"):
        storage = JournalStorage(JournalFileBackend(str(path)))
        for summary in optuna.study.get_all_study_summaries(storage):
            study = optuna.load_study(study_name=summary.study_name, storage=storage)
            for trial in study.get_trials(states=(optuna.trial.TrialState.COMPLETE, optuna.trial.TrialState.FAIL)):
                key = json.dumps(trial.params, sort_keys=True)
                counts[key] = counts.get(key, 0) + 1
    return counts


def test_no_fault_of_a_host_kernel_ends_the_run_or_wins(tune: Tune, stage: Stage, tmp_path: Path) -> None:
    faults = ", ".join(str(i) for i in range(1, 14))
    more = MORE % (SLOW_FAULTS, "")
    file = stage(ENDLESS_MACRO + HOST, "faulty", SPACE % (", ".join(map(str, range(40))), faults), "c", more)
    survives(tune, file, "host", HOST_REASONS, tmp_path)


OPENCL_REASONS = {
    "compile": 2, "compile timeout": 1, "shared memory": 2, "timeout": 1, "wrong result": 2, "writes outside": 2,
    "not a number": 2, "crash": 2, "changes from run to run": 2, "writes to an input": 2,
}  # fmt: skip


def test_no_fault_of_an_opencl_kernel_ends_the_run_or_wins(tune: Tune, stage: Stage, tmp_path: Path) -> None:
    faults = ", ".join(str(i) for i in range(1, 11))  # an x86 processor minds no alignment; its stack is the host's
    more = MORE % (SLOW_FAULTS, "extent: [M * N]\ngrid_divisors: {x: [64]}\nblock: [64]")
    space = SPACE % (", ".join(map(str, range(40))), faults)
    survives(tune, stage(ENDLESS_MACRO + GPU, "faulty", space, "opencl", more), "opencl", OPENCL_REASONS, tmp_path)


CUDA_REASONS = {
    "compile": 4, "compile timeout": 1, "timeout": 1, "wrong result": 2, "writes outside": 2, "not a number": 2,
    "illegal memory access": 2, "changes from run to run": 2, "writes to an input": 2, "misaligned address": 2,
    "out of memory": 2,
}  # fmt: skip


@pytest.mark.gpu
def test_no_fault_of_a_cuda_kernel_ends_the_run_or_wins(tune: Tune, stage: Stage, cuda: Device, tmp_path: Path) -> None:
    faults = ", ".join(str(i) for i in range(1, 13))
    more = MORE % (SLOW_FAULTS, "extent: [M * N]\ngrid_divisors: {x: [64]}\nblock: [64]")
    space = SPACE % (", ".join(map(str, range(40))), faults)
    taken = cuda.allocate((cuda.free_memory() or 0) - (8 << 30))  # so that a quarter of a megabyte a thread is too much
    survives(tune, stage(ENDLESS_MACRO + GPU, "faulty", space, "cuda", more), "cuda", CUDA_REASONS, tmp_path)
    del taken


def survives(tune: Tune, file: Path, device: str, reasons: dict[str, int], folder: Path) -> None:
    """Every configuration gets its end, its own reason, and leaves nothing behind."""
    done = tune(file, "24", "--device", device, "--timeout", TIMEOUT, "--json")
    assert done.status == 0, done.err
    result = done.json
    assert result["failed"] == reasons, done.err
    assert result["evaluated"] == result["configurations"] == 40 + sum(reasons.values())
    assert result["best"]["config"] == {"v": 7, "fault": 0}
    assert of_this_test() == []
    assert scratch_folders() == []
    assert all(count == 1 for count in finished(folder).values())


@pytest.fixture
def many(stage: Stage) -> Path:
    """A hundred configurations of about ten milliseconds each."""
    body = "usleep(1000 + 10 * v);"
    return stage(
        HOST.replace("if (v != 7 && fault == 0) usleep(3000);", body),
        "faulty",
        f"{{v: {list(range(100))}, fault: [0]}}",
    )


def test_twenty_kills_in_a_row_lose_nothing_and_measure_nothing_twice(many: Path, tmp_path: Path) -> None:
    """Supervisor or worker, at random moments; the same command then goes on."""
    random_moments, known = random.Random(0), 0
    command = (str(many), "8", "--device", "host", "--json")
    for round_ in range(20):
        process = start(*command)
        time.sleep(random_moments.uniform(0.5, 2.5))
        if round_ % 2:
            process.kill()
        else:
            for worker in workers(process.pid):
                os.kill(worker, signal.SIGKILL)
            time.sleep(random_moments.uniform(0.0, 0.5))
            process.kill()
        process.communicate()
        counts = finished(tmp_path)
        assert all(count == 1 for count in counts.values())
        assert len(counts) >= known
        known = len(counts)
    _, err = (process := start(*command)).communicate()
    assert process.returncode == 0, err
    counts = finished(tmp_path)
    assert len(counts) == 100
    assert all(count == 1 for count in counts.values())
    assert of_this_test() == []


def workers(pid: int) -> list[int]:
    """The process that holds the device of the `tune` command with this process id, if it has started."""
    found = []
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        with contextlib.suppress(OSError):
            if b"tuner.measure.process.worker" in Path(f"/proc/{child}/cmdline").read_bytes():
                found.append(int(child))
    return found


def test_what_brings_down_its_process_again_and_again_is_not_tried_any_more(stage: Stage, tmp_path: Path) -> None:
    text = HOST.replace("usleep(3000)", "usleep(v == 1 ? 100000000 : 1000)")
    file = stage(text, "faulty", "{v: [0, 1, 7], fault: [0]}")
    command = (str(file), "8", "--device", "host", "--json")
    number = -1
    for _ in range(3):
        process, before, deadline = start(*command), number, time.monotonic() + 60
        while number == before and time.monotonic() < deadline:
            number = claims(tmp_path).get('{"fault": 0, "v": 1}', before)
            time.sleep(0.1)
        process.kill()
        process.communicate()
    out, err = (process := start(*command)).communicate()
    assert process.returncode == 0, err
    assert json.loads(out)["failed"] == {"repeat offender": 1}


def claims(folder: Path) -> dict[str, int]:
    """The configurations that are being measured, according to the ledger, with the numbers of their trials."""
    running = {}
    for path in (folder / "state" / "studies").rglob("*.log"):
        storage = JournalStorage(JournalFileBackend(str(path)))
        for summary in optuna.study.get_all_study_summaries(storage):
            study = optuna.load_study(study_name=summary.study_name, storage=storage)
            for trial in study.get_trials(states=(optuna.trial.TrialState.RUNNING,)):
                if trial.user_attrs.get("begun"):
                    running[json.dumps(trial.params, sort_keys=True)] = trial.number
    return running


def test_a_full_disk_is_one_message_and_the_same_command_goes_on(many: Path, tmp_path: Path) -> None:
    command = (str(many), "8", "--device", "host", "--json")
    process = start(*command, limit=20_000)  # bytes of a file, the ledger's among them
    _, err = process.communicate()
    assert process.returncode == 2
    assert "File too large" in err.splitlines()[-1]
    assert "Traceback" not in err
    before = finished(tmp_path)
    assert 5 < len(before) < 100
    _, err = (process := start(*command)).communicate()
    assert process.returncode == 0, err
    counts = finished(tmp_path)
    assert len(counts) == 100
    assert all(count == 1 for count in counts.values())
