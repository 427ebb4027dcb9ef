"""NVIDIA's sanitizer over every stage: `pytest -m gpu -n 0`."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys

import pytest

from helpers import ROOT

SOME = "((right_on_cuda and (100x37x53 or tma_)) or bests)"


@pytest.mark.gpu
@pytest.mark.parametrize("tool", ["memcheck", "racecheck", "synccheck"])
@pytest.mark.parametrize(
    "tests",
    [
        ("tests/kernels/test_stages.py", "-k", f"{SOME} and sgemm"),
        ("tests/kernels/test_stages.py", "-k", f"{SOME} and hgemm"),
        ("tests/kernels/test_stages.py", "-k", f"{SOME} and gemm16"),
        ("tests/kernels/test_stages.py", "-k", f"{SOME} and not sgemm and not hgemm and not gemm16 and not bests"),
        ("tests/kernels/test_stages.py", "-k", f"{SOME} and not sgemm and not hgemm and not gemm16 and bests"),
        ("tests/kernels/test_wgmma.py", "-k", "border and ragged and not prompt and not bfloat16"),
        ("tests/kernels/test_wgmma.py", "-k", "border and ragged and not prompt and bfloat16"),
        ("tests/kernels/test_wgmma.py", "-k", "border and ragged and prompt"),
        ("tests/launch/test_gpu_gallery.py", "-k", "called"),
    ],
    ids=[
        "sgemm",
        "hgemm",
        "gemm16",
        "other stages",
        "bests of other stages",
        "stages of wgmma",
        "stages of wgmma for bfloat16",
        "prompt stage",
        "kinds of arguments",
    ],
)
def test_the_sanitizer_finds_nothing_in_any_stage(tool: str, tests: tuple[str, ...]) -> None:
    """The defaults and the shipped bests, where the size is a multiple of nothing; steps, scratch and every kind of
    argument through the launcher."""
    assert_clean(tool, *tests)


@pytest.mark.gpu
def test_the_sanitizer_finds_barriers_that_are_used_before_they_are_there() -> None:
    done = sanitized("racecheck", "tests/kernels/test_wgmma.py", "-k", "not_there_yet")
    assert re.search("RACECHECK SUMMARY: [1-9]", done.stdout)


def sanitized(tool: str, *tests: str) -> subprocess.CompletedProcess[str]:
    sanitizer = shutil.which("compute-sanitizer")
    if sanitizer is None:
        pytest.skip("compute-sanitizer is not installed")
    pytest_ = sys.executable, "-m", "pytest", "-m", "gpu", "-n", "0", "-p", "no:benchmark", *tests
    command = [sanitizer, "--tool", tool, "--error-exitcode", "9", *pytest_]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT)


def assert_clean(tool: str, *tests: str) -> None:
    done = sanitized(tool, *tests)
    assert done.returncode == 0, done.stdout[-5000:]
    assert "passed" in done.stdout
    clean = "RACECHECK SUMMARY: 0 hazards" if tool == "racecheck" else "ERROR SUMMARY: 0 errors"
    assert clean in done.stdout
