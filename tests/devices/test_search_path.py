"""The folders in which GCC looks for headers are asked once, not by each process that compiles."""

import os
import shutil
from pathlib import Path

import pytest

from tuner.devices.commands import search_path

GCC = shutil.which("gcc")
pytestmark = pytest.mark.skipif(GCC is None, reason="gcc is not installed")


class Asked:
    """A compiler that writes down each of its runs. It may be GCC by its name."""

    def __init__(self, folder: Path, name: str) -> None:
        self._runs = folder / "runs"
        self._program = folder / name
        self._program.write_text(f'#!/bin/sh\necho >> "{self._runs}"\nexec {GCC} "$@"\n')
        self._program.chmod(0o755)

    def folders(self, first: Path, process: int) -> tuple[str, ...]:
        """What a process is told that differs from others in a variable which GCC does not read."""
        variables = {**os.environ, "PROCESS": str(process)}
        return search_path.folders([str(self._program), "-I", str(first), "-E", "-v", "-x", "c", os.devnull], variables)

    @property
    def runs(self) -> int:
        return len(self._runs.read_text().splitlines())


@pytest.fixture(autouse=True)
def cache(folders: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TUNER_CACHE", str(tmp_path / "cache"))


def test_gcc_is_asked_once_until_a_folder_comes_or_goes(tmp_path: Path) -> None:
    gcc, first = Asked(tmp_path, "gcc"), tmp_path / "first"
    told = gcc.folders(first, 0)
    assert str(first) in told
    assert gcc.folders(first, 1) == told
    assert gcc.runs == 1
    first.mkdir()
    with_it = gcc.folders(first, 2)
    assert sorted(with_it) == sorted(told)
    assert gcc.runs == 2
    first.rmdir()
    assert gcc.folders(first, 3) == told
    assert gcc.runs == 3


def test_a_variable_that_gcc_reads_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gcc = Asked(tmp_path, "x86_64-linux-gnu-gcc-12")
    gcc.folders(tmp_path, 0)
    monkeypatch.setenv("CPATH", str(tmp_path / "cache"))
    assert str(tmp_path / "cache") in gcc.folders(tmp_path, 1)


def test_a_wrapper_is_asked_each_time_because_it_may_read_other_variables(tmp_path: Path) -> None:
    wrapper = Asked(tmp_path, "cc")
    assert wrapper.folders(tmp_path, 0) == wrapper.folders(tmp_path, 1)
    assert wrapper.runs == 2
