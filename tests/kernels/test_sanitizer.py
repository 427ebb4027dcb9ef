"""NVIDIA's sanitizer over every stage: `pytest -m gpu -n 0`."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys

import pytest

from helpers import BUILDS, ROOT

STAGES, BORDER = "tests/kernels/test_stages.py", "tests/kernels/test_wgmma.py"
SMALL = "right_on_cuda and 100x37x53"  # the defaults, at a size that is a multiple of nothing

# No part takes longer than some 100 seconds. Stages of the gallery that the TMA feeds are among the kinds of arguments.
PARTS = {
    "sgemm": (STAGES, f"{SMALL} and sgemm"),
    "bests of sgemm, up to 09": (STAGES, "bests and sgemm/0"),
    "bests of sgemm, from 10": (STAGES, "bests and (sgemm/1 or sgemm3x)"),
    "hgemm": (STAGES, f"{SMALL} and hgemm"),
    "bests of hgemm": (STAGES, "bests and hgemm"),
    "gemm16": (STAGES, f"({SMALL} or bests) and gemm16"),
    "gallery": (STAGES, f"{SMALL} and gallery"),
    "triton": (STAGES, f"{SMALL} and triton"),
    "bests of the others": (STAGES, "bests and (gallery or triton)"),
    "wgmma of hgemm": (BORDER, "border and ragged and hgemm"),
    "wgmma of float16": (BORDER, "border and ragged and -float16 and not prompt"),
    "wgmma of bfloat16": (BORDER, "border and ragged and -bfloat16 and not prompt"),
    "prompt stage": (BORDER, "border and ragged and prompt"),
    "kinds of arguments": ("tests/launch/test_gpu_gallery.py", "called"),
}


@pytest.mark.gpu
@pytest.mark.parametrize("tool", ["memcheck", "racecheck", "synccheck"])
@pytest.mark.parametrize("part", PARTS)
def test_the_sanitizer_finds_nothing_in_any_stage(tool: str, part: str) -> None:
    """The defaults and the shipped bests, where the size is a multiple of nothing; steps, scratch and every kind of
    argument through the launcher."""
    if part == "triton":
        pytest.importorskip("triton")
    done = sanitized(tool, *PARTS[part])
    assert done.returncode == 0, done.stdout[-5000:]
    assert "passed" in done.stdout
    clean = "RACECHECK SUMMARY: 0 hazards" if tool == "racecheck" else "ERROR SUMMARY: 0 errors"
    assert clean in done.stdout


@pytest.mark.gpu
def test_the_sanitizer_finds_barriers_that_are_used_before_they_are_there() -> None:
    done = sanitized("racecheck", BORDER, "not_there_yet")
    assert re.search("RACECHECK SUMMARY: [1-9]", done.stdout)


def sanitized(tool: str, file: str, chosen: str) -> subprocess.CompletedProcess[str]:
    sanitizer = shutil.which("compute-sanitizer")
    if sanitizer is None:
        pytest.skip("compute-sanitizer is not installed")
    pytest_ = sys.executable, "-m", "pytest", "-m", "gpu", "-n", "0", "-p", "no:benchmark", file, "-k", chosen
    command = [sanitizer, "--tool", tool, "--error-exitcode", "9", *pytest_]
    environment = {**os.environ, BUILDS: os.environ["TUNER_CACHE"]}  # each tool looks at the same builds
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment)
