"""The arrays of a problem serve one kernel after the other, and each is verified as if they were its own."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from helpers.own_kernels import scaled
from helpers.spaces import scope_of
from tuner.catalog import catalog
from tuner.devices import Device
from tuner.measure.benchmark import Bench
from tuner.measure.process.workbench_cache import WorkbenchCache
from tuner.measure.verify import layout
from tuner.space.model import Space

ONE = {"unroll": 1}


def space(folder: Path, stem: str, factor: str = "2", reference: str = "2 * x") -> Space:
    file = scaled(folder, stem)
    file.write_text(file.read_text().replace("reference: 2 * x", f"reference: {reference}"))
    source = file.with_suffix(".c")
    source.write_text(source.read_text().replace("2 * x[j]", f"{factor} * x[j]"))
    return catalog.load(str(file))


@pytest.mark.slow
def test_kernels_of_one_problem_are_verified_on_the_same_arrays(tmp_path: Path, host: Device) -> None:
    workbenches, seeds = WorkbenchCache(host), list[int]()
    buffers = []
    for stem, factor, failure in (("one", "2", None), ("two", "3", "wrong result"), ("three", "2", None)):
        kernel = space(tmp_path, stem, factor)
        scope = scope_of(kernel, host, "1000")
        bench = Bench(host, kernel, scope, predecessor=workbenches.take(kernel, scope))
        assert bench.measure(ONE).failure == failure
        (final,) = bench.finals([ONE], seconds=0.1).candidates
        assert (final.failure or "").partition(":")[0] == (failure or "")
        seeds.append(bench.workbench.inputs.seed)
        buffers.append(bench.workbench.buffers)
        workbenches.add(bench.workbench)
    assert buffers[0] is buffers[1] is buffers[2]
    assert seeds == [2, 3, 4], "each final round is on inputs that no kernel has seen"


@pytest.mark.slow
def test_another_problem_has_arrays_of_its_own(tmp_path: Path, host: Device) -> None:
    kernel = space(tmp_path, "one")
    workbenches = WorkbenchCache(host)
    workbenches.add(Bench(host, kernel, scope_of(kernel, host, "1000")).workbench)
    other = space(tmp_path, "other", reference="2.5 * x")
    for each, size in ((kernel, "1001"), (other, "1000"), (kernel, "1000")):
        assert workbenches.take(each, scope_of(each, host, size)) is None, "which the first one let go"


def test_a_large_array_from_a_file_is_placed_once_for_several_problems_and_written_again_after_a_stray_write(
    tmp_path: Path, host: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layout, "MOST_READ_BACK", 0)  # bytes; no array is compared on the host
    np.save(tmp_path / "x.npy", np.linspace(1, 2, 1000, dtype=np.float32))
    benches = list[Bench]()
    for stem, factor in (("one", "2"), ("two", "3")):
        space(tmp_path, stem, factor, f"{factor} * x")
        file = tmp_path / f"{stem}.yaml"
        file.write_text(file.read_text().replace("role: in", "role: in, fill: {file: x.npy}"))
        kernel = catalog.load(str(file))
        like = benches[0].workbench if benches else None
        benches.append(Bench(host, kernel, scope_of(kernel, host, "1000"), like=like))
        assert benches[-1].measure(ONE).failure is None
    one, two = (bench.workbench._layouts[0] for bench in benches)
    assert one.copies["x"] is two.copies["x"]
    host.write(one.copies["x"].handle, np.zeros(1, np.float32), 0)
    assert two.repair()
    assert not one.repair()
    assert [bench.measure(ONE).failure for bench in benches] == [None, None]
