"""A loaded kernel that is copied, or goes to another process."""

from __future__ import annotations

import copy
import pickle
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import tuner
from helpers.arrays import SHAPE, arrays
from helpers.kernels import MULTIPLY, Stage, c_kernel
from helpers.processes import run
from helpers.records import EXACT, HOST_KERNEL, host_config
from tuner.devices import Device
from tuner.errors import RequestError
from tuner.launch.kernel import Kernel
from tuner.store.store import Store

LAUNCH = """
import pickle, sys
import numpy as np
kernel = pickle.loads(open(sys.argv[1], "rb").read())
C, A, B = (np.ones((1, 64, 64), np.float32) for _ in "CAB")
kernel(C, A, B)
assert (C == 128).all()
print(kernel.config, kernel.match, kernel.record.device)
"""


@pytest.mark.slow
def test_a_pickled_kernel_is_the_same_in_another_process(host: Device, tmp_path: Path) -> None:
    Store(HOST_KERNEL).add(
        replace(EXACT, device=host.name, architecture=host.architecture, conditions=dict(host.conditions.values))
    )
    kernel = tuner.load(HOST_KERNEL, 64, device=host, options={"alpha": 2.0})
    file = tmp_path / "kernel.pickle"
    file.write_bytes(pickle.dumps(kernel))
    answer = run(sys.executable, "-c", LAUNCH, file).stdout
    assert answer == f"{host_config(8)} exact {host.name}\n"


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy])
def test_a_copied_kernel_launches(duplicate: Callable[[Kernel], Kernel], host: Device) -> None:
    kernel = duplicate(tuner.load("sgemm/00_host_simple", SHAPE, device=host))
    C, A, B = arrays()
    kernel(C, A, B)
    np.testing.assert_allclose(C, A @ B, rtol=1e-5)


@pytest.mark.slow
def test_a_pickled_kernel_of_a_file_is_checked_against_the_file(stage: Stage, host: Device) -> None:
    file = stage(c_kernel("own", MULTIPLY), "own", "{v: [1, 2]}")
    pickled = pickle.dumps(tuner.load(file, 8, device=host, config={"v": 2}))
    assert pickle.loads(pickled).config == {"v": 2}
    stage(c_kernel("own", MULTIPLY), "own", "{v: [1, 3]}")
    with pytest.raises(RequestError, match="v = 2; allowed: "):
        pickle.loads(pickled)
    file.unlink()
    with pytest.raises(RequestError, match="there is no such file"):
        pickle.loads(pickled)


def test_a_bound_launch_says_why_it_is_not_pickled(host: Device) -> None:
    launch = tuner.load("sgemm/00_host_simple", SHAPE, device=host).bind(*arrays())
    with pytest.raises(RequestError, match=r"a bound launch cannot be pickled: .* pickle the Kernel"):
        pickle.dumps(launch)
    assert copy.copy(launch) is copy.deepcopy(launch) is launch, "as a function is"
