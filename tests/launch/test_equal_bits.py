"""Processes that ask for one class of bits get equal bits in every run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from helpers import ROOT
from helpers.processes import Tune

# Launches on the same inputs, and prints the digest of each different output. Arrays are NumPy's on the host.
PROGRAM = """
import hashlib, sys
import numpy as np
import tuner
from helpers.gpu_arrays import Own

kernel, size, device, runs = sys.argv[1:]
loaded = tuner.load(kernel, size, device=device, same_bits_as="default")
random = np.random.default_rng(49)
arguments = loaded.space.operation.arrays
values = [random.random(loaded.shapes[a.name], np.float32) for a in arguments]
arrays = values if device == "host" else [Own(loaded.device, each) for each in values]
launch, seen = loaded.bind(*arrays), set()
written = [position for position, argument in enumerate(arguments) if argument.role != "in"]
for _ in range(int(runs)):
    launch()
    loaded.device.synchronize()
    outputs = [values[i] if device == "host" else arrays[i].get() for i in written]
    seen.add(hashlib.sha256(b"".join(output.tobytes() for output in outputs)).hexdigest())
print(*sorted(seen))
"""
CASES = [
    pytest.param("sgemm/01_host_blocked", "24", "host", "3", marks=pytest.mark.slow),
    pytest.param("gallery/softmax", "1000x4096", "cuda", "8", marks=pytest.mark.gpu),
    pytest.param("sgemm/09_coarsened_2d", "512", "cuda", "8", marks=pytest.mark.gpu),
    pytest.param("gallery/sum", "16777216", "cuda", "8", marks=pytest.mark.gpu),
]


@pytest.mark.parametrize(("kernel", "size", "device", "budget"), CASES)
def test_three_processes_that_ask_for_one_class_get_equal_bits_in_100_runs(
    kernel: str, size: str, device: str, budget: str, tune: Tune, tmp_path: Path
) -> None:
    request = (kernel, size, "--device", device, "--budget", budget)
    assert tune(*request).status == 0
    outputs = set()
    for run in range(3):
        if run == 2:  # what is tuned in between does not matter
            assert tune(*request, "--same-bits-as", "default", "--seed", "1").status == 0
        path = os.pathsep.join([str(ROOT), str(ROOT / "tests")])
        command = [sys.executable, "-c", PROGRAM, kernel, size, device, "100"]
        done = subprocess.run(
            command, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        outputs |= {*done.stdout.split()}
    assert len(outputs) == 1
