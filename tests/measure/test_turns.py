"""Runs that share a device take turns at measuring."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tuner.measure.process import turns

WORK = """
import pathlib, time
from tuner.measure.process import turns
log = pathlib.Path({log!r})
for _ in range(20):
    with turns.taken():
        with log.open("a") as file:
            file.write("{name}\\n")
        time.sleep(0.002)
        with log.open("a") as file:
            file.write("{name}\\n")
"""


def test_while_one_process_has_its_turn_no_other_one_measures(tmp_path: Path) -> None:
    log = tmp_path / "log"
    environment = {**os.environ, "TUNER_TURNS": str(tmp_path / "device.turns")}
    processes = [
        subprocess.Popen([sys.executable, "-c", WORK.format(log=str(log), name=name)], env=environment)
        for name in ("first", "second", "third")
    ]
    assert [process.wait(60) for process in processes] == [0, 0, 0]
    lines = log.read_text().splitlines()
    assert len(lines) == 120
    assert all(begun == ended for begun, ended in zip(lines[::2], lines[1::2], strict=True))


def test_who_waits_for_many_turns_of_others_does_not_lose_patience(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TUNER_TURNS", str(tmp_path / "device.turns"))
    monkeypatch.setattr(turns, "PATIENCE_SECONDS", 1.0)
    measuring, beside_others = threading.Semaphore(1), list[bool]()

    def run() -> None:
        for _ in range(2):
            with turns.taken():
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
        with turns.taken():
            is_over.set()

    with turns.taken():
        other = threading.Thread(target=run)
        other.start()
        assert is_over.wait(60)
    other.join()


def test_a_block_within_a_turn_is_part_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TUNER_TURNS", str(tmp_path / "device.turns"))
    monkeypatch.setattr(turns, "PATIENCE_SECONDS", 3600.0)
    with turns.taken(), turns.taken():
        pass


@pytest.mark.parametrize("file", ["", "/no/such/folder/device.turns"])
def test_without_a_file_that_can_be_locked_nobody_waits(tmp_path: Path, file: str) -> None:
    log = tmp_path / "log"
    environment = {**os.environ, "TUNER_TURNS": file}
    subprocess.run([sys.executable, "-c", WORK.format(log=str(log), name="only")], env=environment, check=True)
    assert len(log.read_text().splitlines()) == 40
