"""What is built ahead of the device's worker is what the worker builds."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import pytest

from helpers.operations import array, written
from helpers.spaces import scope_of
from tuner.catalog import catalog
from tuner.devices import Device
from tuner.measure.benchmark import Bench
from tuner.measure.kernels import device_kernels
from tuner.measure.process import compile_pool
from tuner.measure.verify import rehearsal
from tuner.space.sources.source import Source

LARGE = "4200000"  # elements of 4 bytes, just enough to be drawn on the device
COPY = "void f(float *y, const float *x, int n) { for (int i = 0; i < n; i++) y[i] = x[i]; }"
IN_PYTHON = "def right(x):\n    raise RuntimeError('is called')\n"


def problem(folder: Path, reference: Any, tolerance: Any, **more: Any) -> Path:
    arguments = [array("y", "float32", ["n"], "out"), array("x", "float32", ["n"], **more)]
    return written(folder, COPY, arguments, reference, tolerance=tolerance)


def test_a_rehearsal_builds_what_a_workbench_builds(
    opencl: Device, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = problem(tmp_path, "exp(x - max(x))", {"wrong": 0.001}, fill={"normal": [0, 1]})
    space = catalog.load(str(file))
    scope = scope_of(space, opencl, LARGE)
    built: list[str] = []
    build = opencl.build

    def noted(source: Source) -> Any:
        built.append(source.text)
        return build(source)

    monkeypatch.setattr(opencl, "build", noted)
    monkeypatch.setattr(device_kernels, "_loaded", WeakKeyDictionary())  # as in a process that has loaded none
    Bench(opencl, space, scope)
    common, *others = [source.text for source in rehearsal.sources(space, scope)]
    assert common in built
    assert [text for text in reversed(built) if text != common] == others


def test_a_rehearsal_calls_no_function_of_the_user(opencl: Device, tmp_path: Path) -> None:
    (tmp_path / "check.py").write_text(IN_PYTHON)
    space = catalog.load(str(problem(tmp_path, {"python": "check.py:right"}, "epsilon")))
    found = rehearsal.sources(space, scope_of(space, opencl, LARGE))
    assert {source.kernel for source in found} >= {"restore", "check_reals", "draw_standard"}


@pytest.mark.slow
def test_compile_workers_build_these_kernels_before_any_configuration_is_asked_for(
    host: Device, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TUNER_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(compile_pool, "FEW", 0)  # as on a machine with many cores
    space = catalog.load(str(problem(tmp_path, "exp(x - max(x))", "8 * epsilon")))
    scope = scope_of(space, host, LARGE)
    missing = rehearsal.sources(space, scope)
    with contextlib.closing(compile_pool.CompilePool(60.0, ["host:0"])) as pool:
        pool.switch_to(space, scope, host.info)
        end = time.monotonic() + 60
        while missing and time.monotonic() < end:
            time.sleep(0.05)
            missing = [source for source in missing if host.compiler.cached(source) is None]
        assert not missing
        pool.wait({"a": 1})  # by a worker that may have built ours
