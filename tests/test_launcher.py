from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tuner
from tuner.devices import Device
from tuner.errors import ArgumentError, RequestError, SpaceError

# An edited kernel makes the shipped records stale until it is tuned again; that is not what is tested here.
pytestmark = pytest.mark.filterwarnings("ignore:.*earlier version")
SHAPE = {"M": 40, "N": 30, "K": 50}
HEAVY = ["kernel_tuner", "optuna", "pandas", "scipy", "sklearn", "matplotlib", "pydantic", "yaml", "rich", "click"]


def arrays() -> tuple[np.ndarray[Any, Any], ...]:
    random = np.random.default_rng(1)
    return tuple(random.random((1, *s), dtype=np.float32) for s in ((40, 30), (40, 50), (50, 30)))


def test_a_loaded_kernel_computes_on_numpy_arrays(host: Device) -> None:
    kernel = tuner.load("sgemm/01_host_blocked", SHAPE, device=host)
    C, A, B = arrays()
    before = C.copy()
    kernel(C, A, B, alpha=2.0, beta=0.5)
    np.testing.assert_allclose(C, 2 * (A @ B) + 0.5 * before, rtol=1e-5)
    assert kernel.match == "default"
    assert kernel.record is None
    assert "01_host_blocked" in repr(kernel)


def test_a_loaded_kernel_computes_on_pyopencl_arrays(opencl: Any) -> None:
    from pyopencl import array

    kernel = tuner.load("sgemm/03_naive", SHAPE, device=opencl)
    C, A, B = arrays()
    on_device = [array.to_device(opencl.queue, x) for x in (C, A, B)]
    kernel(*on_device)
    np.testing.assert_allclose(on_device[0].get(), A @ B, rtol=1e-5)


def test_a_bound_launch_can_be_repeated(host: Device) -> None:
    kernel = tuner.load("sgemm/00_host_simple", SHAPE, device=host)
    C, A, B = arrays()
    launch = kernel.bind(C, A, B)
    A *= 2
    launch()
    np.testing.assert_allclose(C, A @ B, rtol=1e-5)


def read_only(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    copy = array.copy()
    copy.flags.writeable = False
    return copy


C, A, B = arrays()
MISFITS: dict[str, tuple[tuple[Any, ...], str]] = {
    "shape": ((C, A[:, :39], B), r"A: has shape \(1, 39, 50\).*\(1, 40, 50\)"),
    "dtype": ((C, A, B.astype(np.float64)), "B: has shape .* dtype float64"),
    "order": ((np.asfortranarray(C), A, B), "C: has strides"),
    "slice": ((C, A, np.zeros((1, 50, 60), np.float32)[:, :, ::2]), "B: has strides"),
    "device": ((C, [1.0], B), "A: a list; pass a NumPy array"),
    "read-only": ((read_only(C), A, B), "C: is read-only"),
    "too few": ((C, A), "2 arrays given; it takes 3: C, A, B"),
}


@pytest.mark.parametrize("misfit", MISFITS)
def test_an_argument_that_does_not_fit_is_named(misfit: str, host: Device) -> None:
    given, message = MISFITS[misfit]
    kernel = tuner.load("sgemm/00_host_simple", SHAPE, device=host)
    with pytest.raises(ArgumentError, match=message):
        kernel(*given)


def test_an_argument_from_another_opencl_context_is_named(opencl: Any) -> None:
    import pyopencl as cl
    from pyopencl import array

    kernel = tuner.load("sgemm/03_naive", SHAPE, device=opencl)
    other = cl.CommandQueue(cl.Context(opencl.context.devices))
    given = [array.to_device(queue, x) for queue, x in zip((opencl.queue, other, opencl.queue), arrays(), strict=True)]
    with pytest.raises(ArgumentError, match="A: lies in another OpenCL context"):
        kernel(*given)
    part = array.to_device(opencl.queue, np.zeros((2, 40, 50), np.float32))[1:2]
    with pytest.raises(ArgumentError, match="A: begins 8000 bytes inside another array"):
        kernel(given[0], part, given[2])
    with pytest.raises(ArgumentError, match="C: a ndarray; pass a pyopencl array"):
        kernel(*arrays())


def test_an_output_that_is_an_input_too_is_named(host: Device) -> None:
    kernel = tuner.load("sgemm/00_host_simple", 16, device=host)
    memory = np.zeros(1000, np.float32)
    first, second = (memory[start : start + 256].reshape(1, 16, 16) for start in (0, 255))
    with pytest.raises(ArgumentError, match="C: shares memory with B"):
        kernel(first, np.zeros((1, 16, 16), np.float32), second)


def test_load_refuses_what_cannot_be(host: Device) -> None:
    with pytest.raises(RequestError, match="no exact record"):
        tuner.load("sgemm/00_host_simple", 64, device=host, strict=True)
    with pytest.raises(SpaceError, match=r"openmp = 7; allowed: \[0, 1\]"):
        tuner.load("sgemm/00_host_simple", 64, device=host, config={"openmp": 7})
    with pytest.raises(RequestError, match="no such option"):
        tuner.load("sgemm/00_host_simple", SHAPE, device=host)(*arrays(), gamma=1)


LAUNCH = """
import sys
import numpy as np
import tuner
if {sealed}:
    def refuse(*args, **kwargs): raise AssertionError("it compiles")
    if {device!r} == "host":
        from tuner.devices.host import HostCompiler as Compiler
    else:
        from tuner.devices.opencl import OpenCLCompiler as Compiler
    Compiler.compile = refuse
kernel = tuner.load({kernel!r}, 64, device={device!r})
if {device!r} == "host":
    C, A, B = (np.ones((1, 64, 64), np.float32) for _ in "CAB")
    kernel(C, A, B)
else:
    from pyopencl import array
    C, A, B = (array.to_device(kernel.device.queue, np.ones((1, 64, 64), np.float32)) for _ in "CAB")
    kernel(C, A, B)
    C = C.get()
assert (C == 64).all()
print(sorted(set({heavy!r}) & set(sys.modules)))
"""


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


def test_a_launch_needs_only_numpy_platformdirs_and_the_device(tmp_path: Path, stage: Callable[..., Path]) -> None:
    """The tuning side's packages are made impossible to import, as on a machine installed with --no-deps."""
    blocked = tmp_path / "blocked"
    script = LAUNCH.format(kernel="sgemm/01_host_blocked", device="host", heavy=HEAVY, sealed=False)
    warm = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert warm.returncode == 0, warm.stderr
    for name in HEAVY:
        (blocked / name).mkdir(parents=True)
        (blocked / name / "__init__.py").write_text("raise ImportError('not installed')")
    path = os.pathsep.join([str(blocked), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-c", script.replace("print(", "0 and print(")],
        capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": path},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
