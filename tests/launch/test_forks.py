"""A kernel in a process that was forked from one that used its kind of device: an error at once, never a hang."""

from __future__ import annotations

import subprocess
import sys

import pytest

from helpers.processes import PATIENCE_SECONDS, run

SCRIPT = """
import os, signal, sys
import numpy as np
import tuner
from tuner import devices
kind, space, state, use = sys.argv[1:]
device = devices.shared(kind)
arrays = [np.ones((1, 64, 64), np.float32) for _ in "CAB"]
if kind == "opencl":
    import pyopencl.array
    arrays = [pyopencl.array.to_device(device.queue, array) for array in arrays]
elif kind == "cuda":
    import cupy
    arrays = [cupy.asarray(array) for array in arrays]
kernel, gemm = tuner.load(space, 64, device=kind), tuner.dispatch([space], device=kind)
launch = kernel.bind(*arrays)
if state == "launched":
    kernel(*arrays)
    gemm(*arrays)
    launch()
    device.synchronize()
uses = {
    "call": lambda: kernel(*arrays),
    "bound launch": launch,
    "bind": lambda: kernel.bind(*arrays),
    "check": lambda: kernel.check(*arrays),
    "load": lambda: tuner.load(space, 32, device=kind),
    "load on the open device": lambda: tuner.load(space, 32, device=device),
    "dispatch": lambda: gemm(*arrays),
    "new dispatch": lambda: tuner.dispatch([space], device=kind)(*arrays),
}
child = os.fork()
if child == 0:
    signal.alarm(300)
    try:
        uses[use]()
    except tuner.DeviceError as error:
        print(error, flush=True)
        os._exit(7)  # PyCUDA would abort: the parent's context is still current
    os._exit(1)
ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
kernel(*arrays)  # the parent goes on
device.synchronize()
sys.exit(ended)
"""
USES = ["call", "bound launch", "bind", "check", "load", "load on the open device", "dispatch", "new dispatch"]
DEVICES = [
    ("host", "sgemm/01_host_blocked"),
    ("opencl", "sgemm/06_tiled"),
    pytest.param("cuda", "sgemm/06_tiled", marks=pytest.mark.gpu),
]


@pytest.mark.slow
@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("state", ["loaded", "launched"])
@pytest.mark.parametrize(("kind", "space"), DEVICES)
def test_a_fork_of_a_process_that_has_a_kernel_is_told_at_once(kind: str, space: str, state: str, use: str) -> None:
    command = [sys.executable, "-c", SCRIPT, kind, space, state, use]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE_SECONDS)
    assert done.returncode == 7, done.stderr
    assert done.stdout.startswith((f"{kind}: ", space))
    assert f"forked from one that has used {kind}" in done.stdout
    assert 'multiprocessing.get_context("spawn")' in done.stdout


FIRST_USED_IN_FORKS = """
import os, sys
import numpy as np
import tuner
gemm = tuner.dispatch(["sgemm/01_host_blocked"])
children = []
for _ in range(2):
    child = os.fork()
    if child == 0:
        C, A, B = (np.ones((1, 64, 64), np.float32) for _ in "CAB")
        tuner.load("sgemm/01_host_blocked", 64)(C, A, B)
        gemm(C, A, B)
        os._exit(int(not (C == 64).all()))
    children.append(child)
sys.exit(max(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children))
"""


@pytest.mark.slow
def test_forks_of_a_process_that_has_loaded_no_kernel_launch_their_own() -> None:
    run(sys.executable, "-c", FIRST_USED_IN_FORKS)
