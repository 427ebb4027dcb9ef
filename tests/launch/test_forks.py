"""A kernel in a process that was forked from one that used its kind of device: an error at once, never a hang."""

from __future__ import annotations

import json
import sys

import pytest

from helpers.processes import run

SCRIPT = """
import json, os, signal, sys
import numpy as np
import tuner
from tuner import devices
kind, space = sys.argv[1:]
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
def told_in_a_fork(use):
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(300)
        try:
            uses[use]()
        except tuner.DeviceError as error:
            os.write(writing, str(error).encode())
            os._exit(7)  # PyCUDA would abort: the parent's context is still current
        os._exit(1)
    os.close(writing)
    with os.fdopen(reading) as told:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), told.read()
found = {}
for state in ("loaded", "launched"):
    if state == "launched":
        gemm(*arrays)
        launch()
        device.synchronize()
    found[state] = {use: told_in_a_fork(use) for use in uses}
    kernel(*arrays)  # the parent goes on
    device.synchronize()
print(json.dumps(found))
"""
USES = {"call", "bound launch", "bind", "check", "load", "load on the open device", "dispatch", "new dispatch"}
DEVICES = [
    ("host", "sgemm/01_host_blocked"),
    ("opencl", "sgemm/06_tiled"),
    pytest.param("cuda", "sgemm/06_tiled", marks=pytest.mark.gpu),
]


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "space"), DEVICES)
def test_a_fork_of_a_process_that_has_a_kernel_is_told_at_once(kind: str, space: str) -> None:
    found = json.loads(run(sys.executable, "-c", SCRIPT, kind, space).stdout)
    assert {state: uses.keys() for state, uses in found.items()} == {"loaded": USES, "launched": USES}
    for case, (status, told) in ((f"{s}, {u}", end) for s, uses in found.items() for u, end in uses.items()):
        assert status == 7, case
        assert told.startswith((f"{kind}: ", space)), case
        assert f"forked from one that has used {kind}" in told, case
        assert 'multiprocessing.get_context("spawn")' in told, case


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
