"""Runs that share a device take turns at measuring."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from helpers.kernels import Stage
from helpers.ledgers import finished, is_begun
from helpers.processes import PATIENCE_SECONDS, start, wait_until
from tuner.devices import Device
from tuner.measure import turns

PLACE = "0000:18:00.0"  # of a GPU

WORK = """
import pathlib, time
from tuner.measure import turns
log = pathlib.Path({log!r})
for _ in range(20):
    with turns.taken({place!r}):
        with log.open("a") as file:
            file.write("{name}\\n")
        time.sleep(0.002)
        with log.open("a") as file:
            file.write("{name}\\n")
"""


@pytest.mark.slow
@pytest.mark.parametrize("file", ["device.turns", None])
def test_while_one_process_has_its_turn_no_other_one_measures(
    file: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if file is None:
        monkeypatch.delenv("TUNER_TURNS")
    else:
        monkeypatch.setenv("TUNER_TURNS", str(tmp_path / file))
    log = tmp_path / "log"
    works = [WORK.format(log=str(log), name=name, place="" if file else PLACE) for name in ("one", "two", "three")]
    processes = [subprocess.Popen([sys.executable, "-c", work]) for work in works]
    assert [process.wait(PATIENCE_SECONDS) for process in processes] == [0, 0, 0]
    lines = log.read_text().splitlines()
    assert len(lines) == 120
    assert all(begun == ended for begun, ended in zip(lines[::2], lines[1::2], strict=True))


def test_who_measures_on_one_device_does_not_wait_for_another_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TUNER_TURNS")
    with turns.taken(PLACE):
        in_time = threading.Event()

        def run() -> None:
            with turns.taken("0000:2a:00.0"):
                in_time.set()

        other = threading.Thread(target=run)
        other.start()
        assert in_time.wait(PATIENCE_SECONDS)
        other.join()


@pytest.mark.slow
def test_who_waits_for_many_turns_of_others_does_not_lose_patience(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TUNER_TURNS", str(tmp_path / "device.turns"))
    monkeypatch.setattr(turns, "PATIENCE_SECONDS", 1.0)
    measuring, beside_others = threading.Semaphore(1), list[bool]()

    def run() -> None:
        for _ in range(2):
            with turns.taken(PLACE):
                beside_others.append(not measuring.acquire(blocking=False))
                time.sleep(0.2)
                measuring.release()

    runs = [threading.Thread(target=run) for _ in range(8)]
    for each in runs:
        each.start()
    for each in runs:
        each.join()
    assert beside_others == [False] * 16


def test_a_turn_that_lasts_longer_than_patience_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TUNER_TURNS", str(tmp_path / "device.turns"))
    monkeypatch.setattr(turns, "PATIENCE_SECONDS", 0.1)
    is_over = threading.Event()

    def run() -> None:
        with turns.taken(PLACE):
            is_over.set()

    with turns.taken(PLACE):
        other = threading.Thread(target=run)
        other.start()
        assert is_over.wait(PATIENCE_SECONDS)
    other.join()


def test_a_block_within_a_turn_is_part_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TUNER_TURNS", str(tmp_path / "device.turns"))
    monkeypatch.setattr(turns, "PATIENCE_SECONDS", 3600.0)

    def run() -> None:
        with turns.taken(PLACE), turns.taken(PLACE):
            pass

    nested = threading.Thread(target=run, daemon=True)
    nested.start()
    nested.join(PATIENCE_SECONDS)
    assert not nested.is_alive(), "the inner block waits for the outer one"


QUICK = """
void quick(float *C, const float *A, const float *B, int M, int N, int K, int batch, float alpha, float beta) {
    for (int i = 0; i < M * N; i++) {
        float sum = 0;
        for (int k = 0; k < K; k++) sum += A[i / N * K + k] * B[k * N + i % N];
        C[i] = beta == 0 ? alpha * sum : alpha * sum + beta * C[i];
    }
}
"""


@pytest.mark.slow
def test_a_run_measures_nothing_in_the_turn_of_another_one_and_its_timeouts_begin_with_its_own(
    stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TUNER_TURNS", str(tmp_path / "device.turns"))
    check_waits(str(stage(QUICK, "quick", "{v: [0, 1]}")), "host", "", tmp_path)


@pytest.mark.gpu
def test_runs_on_a_gpu_take_turns_unasked(cuda: Device, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TUNER_TURNS")
    check_waits("sgemm/03_naive", "cuda", cuda.place, tmp_path)


def check_waits(kernel: str, device: str, place: str, folder: Path) -> None:
    timeout = 5.0
    with turns.taken(place):
        process = start(kernel, "8", "--device", device, "--timeout", str(timeout), "--budget", "2", "--json")
        wait_until(lambda: is_begun(folder), process)
        time.sleep(2 * timeout)
        assert sum(finished(folder).values()) == 0
    out, err = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 0, err
    assert json.loads(out)["failed"] == {}
    assert sum(finished(folder).values()) == 2


@pytest.mark.slow
@pytest.mark.parametrize("file", ["", "/no/such/folder/device.turns"])
def test_without_a_file_that_can_be_locked_nobody_waits(tmp_path: Path, file: str) -> None:
    log = tmp_path / "log"
    environment = {**os.environ, "TUNER_TURNS": file}
    work = WORK.format(log=str(log), name="only", place=PLACE)
    subprocess.run([sys.executable, "-c", work], env=environment, check=True)
    assert len(log.read_text().splitlines()) == 40


def test_a_turn_that_was_outlasted_is_not_waited_for_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TUNER_TURNS", str(tmp_path / "device.turns"))
    monkeypatch.setattr(turns, "PATIENCE_SECONDS", 0.1)
    begun: list[str] = []

    def run() -> None:
        for _ in range(2):
            with turns.taken(PLACE):
                monkeypatch.setattr(turns, "PATIENCE_SECONDS", 3600.0)
                begun.append(PLACE)

    with turns.taken(PLACE):
        other = threading.Thread(target=run, daemon=True)
        other.start()
        other.join(PATIENCE_SECONDS)
    assert len(begun) == 2


def test_who_is_told_to_end_waits_no_longer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TUNER_TURNS", str(tmp_path / "device.turns"))
    is_told, is_over = threading.Event(), threading.Event()

    def run() -> None:
        with turns.taken(PLACE, is_told.is_set):
            is_over.set()

    with turns.taken(PLACE):
        other = threading.Thread(target=run, daemon=True)
        other.start()
        assert not is_over.wait(0.2)
        is_told.set()
        assert is_over.wait(PATIENCE_SECONDS)
