"""What the vendor's library takes for a problem, as finals of any kernel of the family have measured it."""

from __future__ import annotations

from pathlib import Path

from helpers.records import record, sizes
from tuner.space import catalog
from tuner.store import libraries
from tuner.store.store import Store

MEASURED = {"device": "Fast", "library": "cuBLAS 1", "library_ms": 1.0, "vs_library": 0.5, "sizes": sizes(64)}


def known(kernel: str, device: str, results: Path, size: int = 64) -> libraries.LibraryTime | None:
    options = record().options
    return libraries.known(catalog.load(kernel), device, sizes(size), options, {}, results)


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
