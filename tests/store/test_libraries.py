"""What the vendor's library takes for a problem, as finals of any kernel of the family have measured it."""

from __future__ import annotations

from pathlib import Path

import pytest

from helpers.processes import Tune
from helpers.records import record, sizes
from tuner.catalog import catalog
from tuner.store import libraries
from tuner.store.store import Store

MEASURED = {"device": "Fast", "library": "cuBLAS 1", "library_ms": 1.0, "vs_library": 0.5, "sizes": sizes(64)}


def known(kernel: str, device: str, results: Path, size: int = 64) -> libraries.LibraryTime | None:
    options = record().options
    return libraries.known(catalog.load(kernel), device, sizes(size), options, {}, results)


@pytest.mark.parametrize("device", ["Fast", 'Fast "é\\"'])
def test_a_device_of_any_name_has_the_time_of_another_stage(device: str, tmp_path: Path) -> None:
    Store("sgemm/06_tiled", tmp_path).add(record(**{**MEASURED, "device": device}))
    assert known("sgemm/03_naive", device, tmp_path) == ("cuBLAS 1", 1.0)


def test_of_stages_without_a_record_of_the_device_no_space_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    space, loaded = catalog.load("sgemm/03_naive"), list[str]()
    Store("sgemm/06_tiled", tmp_path).add(record(**MEASURED))
    Store("sgemm/07_tiled_1xn", tmp_path).add(record(**{**MEASURED, "device": "Slow"}))
    load = catalog.load
    monkeypatch.setattr(catalog, "load", lambda name: loaded.append(name) or load(name))
    assert libraries.known(space, "Fast", sizes(64), record().options, {}, tmp_path) == ("cuBLAS 1", 1.0)
    assert loaded == ["sgemm/06_tiled"]


@pytest.mark.slow
def test_the_time_beside_another_stage_of_the_same_operation_counts(tmp_path: Path) -> None:
    assert known("sgemm/03_naive", "Fast", tmp_path) is None
    Store("sgemm/06_tiled", tmp_path).add(record(**MEASURED))
    assert known("sgemm/03_naive", "Fast", tmp_path) == ("cuBLAS 1", 1.0)
    assert known("sgemm/02_naive_uncoalesced", "Fast", tmp_path) == ("cuBLAS 1", 1.0), "it launches other blocks"
    assert known("sgemm/03_naive", "Slow", tmp_path) is None
    assert known("sgemm/03_naive", "Fast", tmp_path, size=65) is None
    assert known("hgemm/02_mma_naive", "Fast", tmp_path) is None, "halves"


def test_a_kernels_own_record_comes_first_and_without_a_library_there_is_none(tmp_path: Path) -> None:
    Store("sgemm/06_tiled", tmp_path).add(record(**MEASURED))
    Store("sgemm/03_naive", tmp_path).add(record(**{**MEASURED, "library_ms": 2.0}))
    assert known("sgemm/03_naive", "Fast", tmp_path) == ("cuBLAS 1", 2.0)
    space = catalog.load("gallery/axpy")
    assert libraries.known(space, "Fast", {"n": 64}, {}, {"real": "float32"}, tmp_path) is None


def test_the_rates_of_the_library_are_told_apart_by_type(tune: Tune, tmp_path: Path) -> None:
    for real, library_ms in (("float16", 1.0), ("bfloat16", 2.0)):
        changes = {**MEASURED, "types": {"real": real}, "sizes": sizes(4096), "library_ms": library_ms}
        Store("gemm16/wgmma_quick", tmp_path).add(record(**changes))
    report = tune("report", "--device", "Fast", "--results", tmp_path).out
    for library in ("| cuBLAS 1, real=float16 | 1 GFLOP/s |", "| cuBLAS 1, real=bfloat16 | 0.5 GFLOP/s |"):
        assert report.count(library) == 1
    assert "| gemm16: cuBLAS 1, real=bfloat16 | 0.5 GFLOP/s |" in report
