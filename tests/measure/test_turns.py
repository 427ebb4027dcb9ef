"""Runs that share a device take turns at measuring."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

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


@pytest.mark.parametrize("file", ["", "/no/such/folder/device.turns"])
def test_without_a_file_that_can_be_locked_nobody_waits(tmp_path: Path, file: str) -> None:
    log = tmp_path / "log"
    environment = {**os.environ, "TUNER_TURNS": file}
    subprocess.run([sys.executable, "-c", WORK.format(log=str(log), name="only")], env=environment, check=True)
    assert len(log.read_text().splitlines()) == 40
