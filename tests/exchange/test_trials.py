"""Trials of other options, and of other methods, are never shown as those that are asked for."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest

from helpers.processes import Tune
from tuner.tuning.finals import selection

# Its second option is compiled in, and makes every configuration wrong.
SOURCE = """
void times(float *y, const float *x, int n) {
    for (int i = 0; i < n; i++) y[i] = A == 2 ? 14 * x[i] : A * x[i];
}
"""
SPACE = """
title: Multiply by a number that is compiled in
languages: [c]
operation:
  sizes: {n: }
  options: {a: 1}
  extent: [n]
  arguments:
    - {name: y, dtype: float32, shape: [n], role: out}
    - {name: x, dtype: float32, shape: [n], role: in}
    - {name: n, dtype: int32}
  reference: a * x
kernel: times
parameters: {mode: [1, 2]}
derived: {A: a}
"""


@pytest.fixture
def times(tmp_path: Path) -> Path:
    (tmp_path / "times.c").write_text(SOURCE)
    file = tmp_path / "times.yaml"
    file.write_text(SPACE)
    return file


@pytest.mark.slow
def test_trials_are_of_the_options_that_are_asked_for(tune: Tune, times: Path, tmp_path: Path) -> None:
    request, table = (times, "500", "--repeats", "1"), tmp_path / "x.csv"
    export = ("export", times, "500", "--to", "csv", "--output", table)
    assert tune(*request).status == 0
    wrong = tune(*request, "--set", "a=2")
    assert (wrong.status, "/times 500 --set a=2` shows more" in wrong.err) == (1, True), wrong.err
    assert tune("failures", times, "500", "--json").json["failed"] == {}
    assert tune("failures", times, "500", "--set", "a=2", "--json").json["failed"] == {"wrong result": 2}
    assert "no ledger has trials" in tune("history", times, "500", "--set", "a=3").err
    assert "n=500, a=2: all 2 measured configurations failed" in tune("report", times, "500", "--set", "a=2").err
    journals = list((tmp_path / "state").rglob("*.log"))
    assert len(journals) == 2
    for _ in range(2):
        assert tune(*export).status == 0
        assert [row["failure"] for row in csv.DictReader(table.open())] == ["", ""]
        assert tune(*export, "--set", "a=2").status == 0
        assert [(row["a"], row["failure"]) for row in csv.DictReader(table.open())] == [("2.0", "wrong result")] * 2
        for journal in journals:  # as earlier versions wrote it: the options are in the study's name alone
            lines = journal.read_text().splitlines(keepends=True)
            journal.write_text("".join(line for line in lines if '"user_attr":{"options"' not in line))


@pytest.mark.slow
def test_every_digit_of_an_option_is_in_commands_records_and_files_for_others(
    tune: Tune, times: Path, tmp_path: Path
) -> None:
    option = ("--set", "a=1.23456789")
    assert tune(times, "500", "--repeats", "1", "--budget", "1", *option).status == 0
    told = tune("report", times, "500", "--json", *option).json["command"]
    assert "--set a=1.23456789 " in told, told
    assert " at 500, a=1.23456789 on " in tune("best", times, "500", *option).out
    assert tune("best", times, "500", "--json", *option).json["match"] == "exact"
    assert " at n=500, a=1.23456789:\n" in tune("best", times, "500").out, "the nearest"
    for to in ("kernel-tuner", "t4"):
        file, folder = tmp_path / f"{to}.json", tmp_path / to
        assert tune("export", times, "500", "--to", to, "--output", file, *option).status == 0
        done = tune("import", file, "--results", folder)
        assert done.status == 0, done.err
        (line,) = [line for store in folder.rglob("*.jsonl") for line in store.read_text().splitlines()[1:]]
        assert '"options": {"a": 1.23456789}' in line


@pytest.mark.slow
def test_times_with_flushed_caches_never_stand_for_warm_ones(
    tune: Tune, times: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(selection, "COMPARED_RUNS", 1)  # each is preceded by a flush
    export = ("export", times, "500", "--to", "csv", "--output", tmp_path / "x.csv")
    times.write_text(SPACE.replace("[1, 2]", "[1, 2, 3]"))
    flushed = tune(times, "500", "--device", "host", "--repeats", "1", "--budget", "2", "--flush")
    assert flushed.status == 0, flushed.err
    (shown,) = [line for line in flushed.err.splitlines() if "ns before a flush" in line]
    assert re.search("--flush empt|--flush does not empty", shown), "its first use shows what a flush does"
    assert "not tuned for time with warm caches: caches flushed" in tune(*export).err
    told = tune("report", times, "500", "--json").json["environment"]
    assert (told["unlike most"], "record of" in told) == ("caches flushed", True), "its own record"
    refused = tune("report", times, "500", "--measure", "--json")
    assert (refused.status, "these trials are with caches flushed" in refused.err) == (2, True)

    assert tune(times, "500", "--repeats", "1", "--budget", "1").status == 0
    done = tune(*export)
    assert (done.status, "caches flushed" in done.err) == (0, False)
    assert len((tmp_path / "x.csv").read_text().splitlines()) == 2, "the warm ledger, although it has fewer trials"
