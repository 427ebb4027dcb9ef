"""`tune verify`: what others measured becomes a verified record where it gives right results here."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from helpers.own_kernels import scaled
from helpers.processes import Tune
from helpers.records import imported, record
from tuner.catalog import catalog
from tuner.devices import Device
from tuner.space.sources import rendering
from tuner.store.record import Record
from tuner.store.store import Store


def stored(file: Path, host: Device, **changes: Any) -> Record:
    """An imported record of a kernel by `scaled`, in the store."""
    space = catalog.load(str(file))
    about = record(
        device=host.name,
        architecture=host.architecture,
        sizes={"n": 1000},
        options={},
        config={"unroll": 2},
        next=[{"config": {"unroll": 1}, "time_ms": 2.0}],
        signature=rendering.signature(space),
        code=rendering.code(space),
        conditions=dict(host.conditions.values),
    )
    own = replace(imported(about), **changes)
    Store.of(space).put([own])
    return own


def records(file: Path) -> list[Record]:
    return Store.of(catalog.load(str(file))).records


@pytest.mark.slow
def test_imported_records_become_verified_ones_where_they_give_right_results(
    tune: Tune, tmp_path: Path, host: Device
) -> None:
    right, wrong, other = (scaled(tmp_path, name) for name in ("right", "wrong", "other"))
    source = wrong.with_suffix(".c")
    source.write_text(source.read_text().replace("2 * x[j]", "(unroll == 2 ? 3 : 2) * x[j]"))
    for file in (right, wrong):
        stored(file, host)
    stored(other, host, device="Elsewhere")
    stored(other, host, sizes={"n": 2000}, code="an earlier one", signature="an earlier one")
    assert tune("best", right, "--json").json["match"] != "exact"

    done = tune("verify", right, wrong, other, "--json")
    assert done.status == 1, done.err
    first, second, third = done.json
    assert (first["kernel"], first["status"], first["imported_ms"]) == (catalog.load(str(right)).name, "verified", 1.0)
    assert first["time_ms"] > 0
    assert (second["status"], second["config"], second["time_ms"]) == ("failed", {"unroll": 2}, None)
    assert second["reason"].startswith("wrong result")
    assert second["record"]["config"] == {"unroll": 1}, "the runner-up, which is right"
    assert (third["status"], third["sizes"]) == ("not verified", {"n": 2000})
    assert "1 of Elsewhere" in done.err
    (of_right,), (of_wrong,) = records(right), records(wrong)
    assert [of_right.is_verified, of_wrong.is_verified] == [True, True], "in the place of the imported ones"
    assert of_wrong.config == {"unroll": 1}
    assert {each.is_imported for each in records(other)} == {True}
    assert tune("best", right, "--json").json["match"] == "exact"

    again = tune("verify", right, wrong)
    assert (again.status, again.out) == (0, "there is no imported record to verify\n")


def test_a_kernel_without_records_cannot_be_verified(tune: Tune, tmp_path: Path) -> None:
    done = tune("verify", "there/is/none")
    assert (done.status, len(done.err.splitlines())) == (2, 1)
    assert "the store has no record of such a kernel" in done.err
