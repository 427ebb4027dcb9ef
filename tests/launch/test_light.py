"""What a launch imports, and what it runs without."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from helpers import ROOT
from helpers.packages import installed, linked
from helpers.scripts import HEAVY, LAUNCH
from tuner.catalog import kernel_lists

# An edited kernel makes the shipped records stale until it is tuned again; that is not what is tested here.
pytestmark = pytest.mark.filterwarnings("ignore:.*earlier version")


@pytest.mark.slow
@pytest.mark.parametrize(("kernel", "device"), [("sgemm/01_host_blocked", "host"), ("sgemm/03_naive", "opencl")])
def test_a_launch_with_a_warm_cache_neither_compiles_nor_imports_the_tuning_side(kernel: str, device: str) -> None:
    for sealed in (False, True):
        script = LAUNCH.format(kernel=kernel, device=device, heavy=HEAVY, sealed=sealed)
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[]"


def test_importing_the_package_imports_nothing_heavy() -> None:
    script = f"import sys, tuner; print(sorted({{*{HEAVY!r}, 'numpy'}} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("device", "kernel", "library"),
    [
        ("host", "sgemm/01_host_blocked", []),
        ("opencl", "sgemm/03_naive", ["pyopencl", "pytools", "platformdirs", "siphash24", "typing_extensions"]),
    ],
)
def test_the_package_without_its_dependencies_launches_beside_numpy_and_the_device_library(
    device: str, kernel: str, library: list[str], tmp_path_factory: pytest.TempPathFactory, tmp_path: Path
) -> None:
    script = LAUNCH.format(kernel=kernel, device=device, heavy=HEAVY, sealed=False)
    assert alone(script, installed(tmp_path_factory), ["numpy", *library], tmp_path).strip() == "[]"


@pytest.mark.slow
def test_a_wheel_has_the_launch_form_of_every_kernel_made_with_what_the_build_asks_for(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """The image builds it beside these packages alone."""
    forms = installed(tmp_path_factory) / "tuner/_shipped/forms"
    assert len([*forms.rglob("*.json")]) >= len(kernel_lists.names())


def alone(script: str, package: Path, distributions: Sequence[str], home: Path) -> str:
    """What `script` prints where nothing is installed but `package` and these distributions."""
    beside = linked(home / "beside", distributions)
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", f"import sys; sys.path[:0] = {[str(package), str(beside)]!r}\n{script}"],
        capture_output=True, text=True, check=False, env={"HOME": str(home), "PATH": os.environ["PATH"]},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.gpu
def test_a_launch_on_a_gpu_with_a_warm_cache_neither_compiles_nor_imports_the_tuning_side() -> None:
    script = f"""
import sys
sys.path.append({str(ROOT / "tests")!r})
import numpy as np, tuner
from helpers.gpu_arrays import Own
kernel = tuner.load("sgemm/07_tiled_1xn", 64, device="cuda")
C, A, B = (Own(kernel.device, np.ones((1, 64, 64), np.float32)) for _ in "CAB")
kernel(C, A, B)
assert (C.get() == 64).all()
print(sorted({{*{HEAVY!r}, "cuda.bindings.nvrtc"}} & set(sys.modules)))
"""
    for _ in range(2):
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[]"
