"""The scripts that tune the gallery, and that set its kernels beside their peers."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

SCRIPTS = Path(__file__).resolve().parent.parent / "benchmarks"
ONE = ["sum", "--device", "opencl"]


def run(script: str, *arguments: object) -> str:
    command = [sys.executable, str(SCRIPTS / script), *map(str, arguments)]
    return subprocess.run(command, check=True, capture_output=True, text=True, cwd=SCRIPTS.parent).stdout


def test_what_was_tuned_is_not_tuned_again_and_stands_beside_library_and_ceiling(tmp_path: Path) -> None:
    tuning = ["gallery.py", *ONE, "--sizes", "tiny", "--budget", 1, "--results", tmp_path]
    assert "GB/s" in run(*tuning)
    assert run(*tuning) == "sum 65536: the store has it\n"

    page, figures = tmp_path / "page.md", tmp_path / "peers.json"
    page.write_text("<!-- peers: begin -->\n<!-- peers: end -->\n")
    run("peers.py", *ONE, "--size", "tiny", "--results", tmp_path, "--json", figures, "--write", page)
    (entry,) = json.loads(figures.read_text())
    assert entry["match"] == "exact"
    assert {row["kind"] for row in entry["rows"]} >= {"tuned", "library", "ceiling"}
    assert all(row["ms"] > 0 for row in entry["rows"])
    assert "| sum | n=65536 |" in page.read_text()
    assert "numpy.sum" in page.read_text()


def test_what_time_does_not_allow_is_named(tmp_path: Path) -> None:
    said = run("gallery.py", *ONE, "--sizes", "tiny", "--results", tmp_path, "--seconds", 1)
    assert said == "sum 65536: left out: too little time is left\n"
