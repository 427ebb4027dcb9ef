"""Rates stand beside one another, as shares of what the device was measured to do."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from helpers import ceilings
from helpers.ceilings import CEILINGS, RATES
from helpers.processes import Tune
from helpers.records import record
from helpers.spaces import scope_of
from tuner.catalog import catalog
from tuner.devices import Device
from tuner.store import rates
from tuner.store.ceilings_file import StoredCeilings
from tuner.store.record import Record

SPACE = """
title: t
kernel: triad
languages: [c]
parameters: {{fast: [0, 1]}}
operation:
  sizes: {{n: }}
  extent: [n]
  {work}
  reference: {reference}
  arguments:
    - {{name: y, dtype: {dtype}, shape: [{written}], role: {role}}}
    - {{name: x, dtype: {dtype}, shape: [{read}], role: in}}
    - {{name: n, dtype: int32}}
"""
TEXT = "void triad(float *y, const float *x, int n) { for (int i = 0; i < n; i++) y[i] = 2 * x[i] + 1; }"
WORK = "flops: 2 * n\n  bytes: 8 * n"


def space_in(
    folder: Path, work: str = WORK, dtype: str = "float32", written: str = "n", read: str = "n", role: str = "out"
) -> Path:
    in_c = {"float16": "unsigned short", "complex64": "float _Complex", "float64": "double", "int32": "int"}
    (folder / "triad.c").write_text(f"/* fast */ {TEXT}".replace("float", in_c.get(dtype, "float")))
    reference = "2 * x + 1" if read == written else "none"
    text = SPACE.format(work=work, dtype=dtype, written=written, read=read, role=role, reference=reference)
    (folder / "triad.yaml").write_text(text)
    return folder / "triad.yaml"


@pytest.mark.slow
def test_bandwidth_stands_beside_arithmetic_wherever_a_rate_is_told(tmp_path: Path, tune: Tune, host: Device) -> None:
    ceilings.keep(tmp_path / "results", host)
    file = space_in(tmp_path)
    done = tune(file, "100000", "--json")
    assert done.status == 0, done.err
    best, time_ms = done.json["best"], done.json["best"]["time_ms"]
    assert best["gflops"] == pytest.approx(2 * 100_000 / time_ms / 1e6)
    assert best["gbytes"] == pytest.approx(8 * 100_000 / time_ms / 1e6)
    assert (best["peak"], best["memory"]) == ("FMA", "copy")
    assert best["vs_peak"] == pytest.approx(best["gflops"] / RATES["FMA"])
    assert best["vs_memory"] == pytest.approx(best["gbytes"] / RATES["copy"])
    rate = f"{best['gflops']:{'.1f' if best['gflops'] >= 1 else '.2g'}}"  # a slow machine has less than 1
    shown = f"{rate} GFLOP/s ({best['vs_peak']:.1%} of FMA), {best['gbytes']:.1f} GB/s "
    shown += f"({best['vs_memory']:.1%} of copy)"
    assert " of FMA), " in done.err, "the live line"
    assert " of copy): fast=" in done.err, "the live line"
    assert shown in tune("best", file, "100000").out
    stored = tune("best", file, "100000", "--json").json["record"]
    assert {key: stored[key] for key in best} == best
    run = tune("run", file, "100000", "--json").json
    assert run["vs_memory"] == pytest.approx(run["gbytes"] / RATES["copy"])
    table = tune("report", "--device", "host").out
    assert f" GFLOP/s ({best['vs_peak']:.1%} of FMA), " in table
    assert f" GB/s ({best['vs_memory']:.1%} of copy)" in table


@pytest.mark.slow
def test_rates_are_shares_of_nothing_where_nothing_was_measured(tmp_path: Path, tune: Tune) -> None:
    done = tune(space_in(tmp_path), "1000", "--json")
    best = done.json["best"]
    assert best["gflops"] > 0
    assert best["gbytes"] > 0
    assert [best[key] for key in ("peak", "vs_peak", "memory", "vs_memory")] == [None] * 4
    assert " GFLOP/s, " in done.err, "the live line"
    assert " GB/s: fast=" in done.err, "the live line"


@pytest.mark.parametrize(
    ("changes", "peak", "memory"),
    [
        ({}, "FMA", "copy"),
        ({"role": "inout"}, "FMA", "copy"),
        ({"written": "1"}, "FMA", "read"),
        ({"read": "1"}, "FMA", "write"),
        ({"read": "1", "role": "inout"}, "FMA", "copy"),
        ({"dtype": "float16"}, "tensor", "copy"),
        ({"dtype": "complex64"}, "FMA", "copy"),
        ({"dtype": "float64"}, None, "copy"),
        ({"dtype": "int32"}, None, "copy"),
        ({"work": "bytes: 8 * n"}, None, "copy"),
        ({"work": "flops: 8 * n"}, "FMA", None),
    ],
)
def test_a_kernel_is_held_against_what_its_arrays_say(
    changes: dict[str, str], peak: str | None, memory: str | None, tmp_path: Path, host: Device
) -> None:
    space = catalog.load(str(space_in(tmp_path, **changes)))
    found = rates.of(space, scope_of(space, host, "1000"), 1.0, CEILINGS)
    assert (found.peak, found.memory) == (peak, memory)
    assert (found.vs_peak is None, found.vs_memory is None) == (peak is None, memory is None)


@pytest.mark.parametrize(("size", "memory"), [("1000", None), ("100000", "copy")])
def test_arrays_that_caches_may_hold_are_no_share_of_memory(
    size: str, memory: str | None, tmp_path: Path, host: Device
) -> None:
    space = catalog.load(str(space_in(tmp_path)))
    ceilings.keep(tmp_path, host, cache=100_000)
    found = rates.of(space, scope_of(space, host, size), 1.0, StoredCeilings(tmp_path).of(host))
    assert (found.memory, found.peak) == (memory, "FMA")


@pytest.mark.slow
def test_more_than_the_memory_was_measured_to_do_is_doubted(tmp_path: Path, tune: Tune, host: Device) -> None:
    ceilings.keep(tmp_path / "results", host)
    done = tune(space_in(tmp_path, work="bytes: 1e9 * n"), "100000")
    assert "of what" in done.err
    assert "was measured to copy; check the operation's `bytes`, or run `tune devices --measure` again" in done.err


def test_a_record_of_before_has_no_shares_and_is_read() -> None:
    data = record().to_json()
    for name in ("peak", "vs_peak", "memory", "vs_memory"):
        del data[name]
    assert Record.from_line(json.dumps(data)) == record()
    with pytest.raises(ValueError, match="vs_memory is 'most'; allowed: a number from 0 on, or null"):
        Record.from_line(json.dumps({**data, "vs_memory": "most"}))


def test_an_output_whose_shape_differs_by_configuration_has_a_share_too(host: Device) -> None:
    space = catalog.load("gallery/expdist")
    found = rates.of(space, replace(scope_of(space, host, "1000x2000"), language="opencl"), 1.0, CEILINGS)
    assert found.peak == "FMA"
    assert found.vs_peak is not None
