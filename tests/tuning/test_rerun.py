"""`tune run` beside the record of what it runs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from helpers.own_kernels import scaled
from helpers.processes import Tune
from tuner.catalog import catalog
from tuner.store.store import Store


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changes", "is_said"),
    [
        ({"time_ms": 1e-5, "spread": 0.01}, True),
        ({"time_ms": 1e5, "spread": 0.01}, True),
        ({"time_ms": 1e-5, "spread": 1e12}, False),
        ({"time_ms": 1e-5, "spread": 0.01, "signature": "earlier", "code": "earlier"}, False),
    ],
)
def test_a_time_far_from_the_record_is_said(changes: dict[str, Any], is_said: bool, tune: Tune, tmp_path: Path) -> None:
    file = scaled(tmp_path, "double")
    assert tune(file, "100000", "--device", "host", "--repeats", "7").status == 0
    store = Store.of(catalog.load(str(file)))
    (record,) = store.records
    store.paths[0].unlink()
    Store.of(catalog.load(str(file))).add(replace(record, interval=[], **changes))
    done = tune("run", file, "100000", "--device", "host", "--json")
    assert done.status == 0, done.err
    time_ms, recorded_ms = done.json["time_ms"], changes["time_ms"]
    said = f"{time_ms / recorded_ms:.2f} times as long as in its record, {recorded_ms:.4g} ms (spread 1.0%)"
    assert ("times as long as in its record" in done.err) == is_said, done.err
    assert done.json["recorded_ms"] == (None if "code" in changes else recorded_ms)
    if is_said:
        assert said in done.err
    against = done.json["vs_record"]
    assert (against is None) == ("code" in changes)
    if against is not None:
        assert against["middle"] == time_ms / recorded_ms
        assert against["low"] <= against["middle"] <= against["high"]
    gate = tune("run", file, "100000", "--device", "host", "--fail-above", "1.05")
    if against is None:
        assert gate.status == 2
        assert "--fail-above 1.05: " in gate.err
        assert "has no record of this configuration" in gate.err
    else:
        assert gate.status == (1 if changes["time_ms"] < 1 and is_said else 0)
        assert ("as long as in its record; allowed: 1.05 x" in gate.err) == (gate.status == 1)
        assert " x its record (" in gate.out
