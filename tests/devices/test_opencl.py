"""OpenCL through PoCL."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from helpers.processes import PATIENCE_SECONDS, start
from tuner.catalog import catalog
from tuner.devices import Device
from tuner.errors import LaunchError
from tuner.space import parsing
from tuner.space.instance import Instance
from tuner.space.scope import Scope
from tuner.space.sources import rendering


@pytest.mark.slow
def test_pocl_compiles_each_kernel_once_for_the_block_that_it_is_launched_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TUNER_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("POCL_CACHE_DIR", str(tmp_path / "pocl"))
    (tmp_path / "pocl").mkdir()
    process = start("sgemm/03_naive", "64", "--device", "opencl", "--budget", "3", "--json")
    _, err = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 0, err
    programs: dict[Path, list[str]] = {}
    for compiled in (tmp_path / "pocl").glob("**/sgemm_naive/*/sgemm_naive.so"):
        programs.setdefault(compiled.parents[1], []).append(compiled.parent.name)
    assert len(programs) == 3
    assert all(len(shapes) == 1 for shapes in programs.values())
    assert "0-0-0" not in {shape for shapes in programs.values() for shape in shapes}, "for any block"


def test_a_build_of_pocl_that_is_no_source_is_refused(opencl: Device) -> None:
    space = catalog.load("sgemm/03_naive")
    sizes = parsing.parse_size(64, space.operation)
    scope = Scope(sizes, space.operation.options, "opencl", opencl.limits)
    (step,) = rendering.render(Instance(space, dict(space.default), scope))
    build = opencl.build(step.source)
    assert build.binary.decode() == step.source.text
    with pytest.raises(LaunchError, match="loading sgemm_naive: its build was exported by an earlier version"):
        opencl.load(replace(build, binary=b"poclbin\xff\xfe"), step.source)
