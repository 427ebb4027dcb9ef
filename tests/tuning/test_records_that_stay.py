"""Which configuration is the record after another run: times of the same rounds decide, not those of another day."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from helpers.kernels import MULTIPLY, Stage, c_kernel
from helpers.processes import Tune
from tuner.catalog import catalog
from tuner.store.store import Store


@pytest.mark.slow
def test_a_record_that_loses_in_the_finals_is_replaced_whatever_time_it_has(
    tune: Tune, stage: Stage, tmp_path: Path
) -> None:
    file = stage(c_kernel("late", f"if (mode) usleep(30000); {MULTIPLY}"), "late", "{mode: [0, 1]}")
    results = "--results", tmp_path / "store"
    first = tune(file, "8", "--json", *results).json
    assert first["best"]["config"] == {"mode": 0}
    store = Store(catalog.load(str(file)).name, tmp_path / "store")
    (record,) = store.records
    store.put([replace(record, config={"mode": 1}, time_ms=record.time_ms / 100)])  # as of a machine that was faster
    again = tune(file, "8", "--json", *results).json
    assert (again["best"]["config"], again["stored"]) == ({"mode": 0}, True)
    (now,) = Store(store.kernel, tmp_path / "store").records
    assert now.config == {"mode": 0}


@pytest.mark.slow
def test_a_record_that_is_tied_stays(tune: Tune, stage: Stage, tmp_path: Path) -> None:
    modes = "{mode: [0, 1, 2, 3, 4, 5, 6]}"  # the kernel reads it nowhere: equal code, which is always tied
    file = stage(c_kernel("same", f"usleep(2000); {MULTIPLY}"), "same", modes, more="default: {mode: 0}")
    results = "--results", tmp_path / "store"
    assert tune(file, "8", *results).status == 0
    store = Store(catalog.load(str(file)).name, tmp_path / "store")
    (record,) = store.records
    assert (record.config, record.decided_by) == ({"mode": 0}, "default")
    store.put([replace(record, config={"mode": 6}, time_ms=1e3 * record.time_ms)])  # a faster run of it is the record
    again = tune(file, "8", "--json", *results).json
    (now,) = Store(store.kernel, tmp_path / "store").records
    assert again["best"]["config"] == now.config == {"mode": 6}
    assert (now.decided_by, len(now.tied)) == ("record", 5)
    assert now.config in [each["config"] for each in now.tied]
    assert [each["config"] for each in now.finalists if not each["tied"]] == [now.config]
    assert {each["config"]["mode"] for each in now.finalists} == set(range(7))
