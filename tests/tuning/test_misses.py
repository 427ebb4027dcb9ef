"""What look-ups had no exact record for is tuned: later, most used first, or while a program warms up."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import tuner
from helpers.own_kernels import project, scaled
from helpers.processes import Tune
from tuner.catalog import catalog
from tuner.devices import Device
from tuner.space.sources.rendering import Version
from tuner.store import missed, time_tables
from tuner.store.missed import Miss
from tuner.store.time_tables import TimeTable


def write(*misses: Miss) -> None:
    missed.path().write_bytes(b"".join(miss.to_line() for miss in misses))


@pytest.mark.slow
def test_what_was_missed_is_listed_tuned_and_forgotten(tune: Tune, tmp_path: Path, host: Device) -> None:
    file = str(scaled(tmp_path, "twice"))
    plain = Miss(file, {"n": 64}, host.name, host.kind, {}, {}, conditions=dict(host.conditions.values))
    often, elsewhere = replace(plain, sizes={"n": 96}, count=5), replace(plain, device="another machine", count=3)
    gone = replace(plain, kernel=f"{file}.yaml", count=2)
    write(plain, often, elsewhere, gone)
    listed = tune("missed", "--json")
    assert [(m["kernel"], m["sizes"]["n"], m["count"]) for m in listed.json] == [
        (file, 96, 5), (file, 64, 3), (f"{file}.yaml", 64, 2), (file, 64, 1),
    ]  # fmt: skip
    done = tune("missed", "--budget", "60s", "--json")
    assert done.status == 1, "two are left"
    assert [miss["sizes"]["n"] for miss in done.json["tuned"]] == [96, 64]
    assert [(miss["device"], miss["count"]) for miss in done.json["left"]] == [("another machine", 3), (host.name, 2)]
    assert missed.read() == [elsewhere, gone]
    assert tuner.load(file, 64).match == tuner.load(file, 96).match == "exact"
    assert missed.read() == [elsewhere, gone]


def test_a_miss_under_other_conditions_is_left_and_named(tune: Tune, tmp_path: Path, host: Device) -> None:
    file = str(scaled(tmp_path, "twice"))
    write(Miss(file, {"n": 64}, host.name, host.kind, {}, {}, conditions={"OMP_NUM_THREADS": 99}))
    done = tune("missed", "--budget", "60s")
    assert (done.status, "0 of 1 tuned" in done.out) == (1, True)
    assert f"{host.name} with OMP_NUM_THREADS=99" in done.out


@pytest.mark.slow
def test_what_was_tuned_meanwhile_is_forgotten(tune: Tune, tmp_path: Path) -> None:
    file = scaled(tmp_path, "twice")
    tuner.load(file, 64)
    assert "twice" in tune("missed").out
    assert tune(file, "64").status == 0
    done = tune("missed")
    assert (done.status, done.out, done.err) == (0, "", "the list is empty\n")
    assert missed.read() == []


def test_what_a_kernel_has_missed_is_forgotten_where_that_is_asked(
    tune: Tune, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone, kept = scaled(tmp_path, "gone"), scaled(tmp_path, "kept")
    for file, size in ((gone, 64), (gone, 65), (kept, 64)):
        tuner.load(file, size)
    gone.unlink()
    done = tune("missed", "--forget", gone)
    assert (done.status, done.out.strip()) == (0, "2 of 3 forgotten")
    assert [miss.kernel for miss in missed.read()] == [str(kept)]
    done = tune("missed", "--forget", gone)
    assert (done.status, f"it is not on the list; the list has: {kept}" in done.err) == (2, True)
    monkeypatch.chdir(tmp_path)
    done = tune("missed", "--forget", "kept.yaml")
    assert (done.status, done.out.strip()) == (0, "1 of 1 forgotten")
    done = tune("missed", "--forget", kept, "--budget", "5s")
    assert (done.status, "give one of them" in done.err) == (2, True)


@pytest.mark.slow
def test_a_call_tunes_in_a_warm_up_and_nowhere_else(tmp_path: Path) -> None:
    file, results = scaled(tmp_path, "twice"), tmp_path / "own"
    results.mkdir()
    with tuner.warm_up(budget="60s"):
        assert tuner.load(file, 64, results=results).match == "exact"
        assert tuner.load(file, 65, results=results, strict=True).match == "exact"
    assert not missed.path().exists()
    assert tuner.load(file, 66, results=results).match == "nearest_size"
    assert [(miss.sizes, miss.results) for miss in missed.read()] == [({"n": 66}, str(results))]


@pytest.mark.slow
def test_a_family_is_warmed_up_with_all_its_kernels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, host: Device
) -> None:
    root = project(tmp_path, 'name = "mine"\nspaces = ["tuning"]\n', "scales/one", "scales/two")
    monkeypatch.chdir(root)
    with tuner.warm_up(budget="60s"):
        assert missed.note("mine/scales", {"n": 64}, host, {}) is True
    assert "exact" in {tuner.load(f"mine/scales/{name}", 64).match for name in ("one", "two")}


@pytest.mark.slow
def test_of_a_family_the_kernels_that_are_known_to_be_fast_are_tuned_within_the_budget_and_others_are_named(
    tune: Tune, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, host: Device
) -> None:
    names = [f"mine/scales/{stem}" for stem in ("one", "three", "two")]
    root = project(tmp_path, 'name = "mine"\nspaces = ["tuning"]\n', *(name.removeprefix("mine/") for name in names))
    monkeypatch.chdir(root)
    for source in (root / "tuning" / "scales").glob("*.c"):  # the first call takes longer than all trials may
        once = f'{{\n    if (open("{tmp_path}/called", O_CREAT | O_EXCL, 0600) >= 0) sleep(3);\n'
        text = source.read_text().replace("{\n", once, 1)
        source.write_text(f"#include <fcntl.h>\n#include <unistd.h>\n{text}")
    for name, time_ms in zip(names, (3.0, 2.0, 1.0), strict=True):
        code = Version.of(space := catalog.load(name)).code
        about = {"architecture": host.architecture, "units": host.units, "conditions": host.conditions}
        table = TimeTable(host.kind, host.name, code, ("n",), {}, {}, **about)
        table.add({"unroll": 2}, (96,), time_ms)
        time_tables.write(space.name, [table], tmp_path / "records")
    missed.note("mine/scales", {"n": 64}, host, {}, results=tmp_path / "records")
    done = tune("missed", "--budget", "5s")
    assert done.status == 0, done.err
    assert "mine/scales at n=64: no time for mine/scales/three, mine/scales/one; `tune KERNEL SIZE` tunes" in done.err
    matches = [tuner.load(name, 64, results=tmp_path / "records").match for name in names]
    assert matches == ["default", "default", "exact"]


def test_a_warm_up_whose_time_is_over_notes_again(tmp_path: Path) -> None:
    file = scaled(tmp_path, "twice")
    with tuner.warm_up(budget="0.001s"):
        assert tuner.load(file, 64).match == "default"
    assert [miss.sizes for miss in missed.read()] == [{"n": 64}]
    for budget in ("100", 100, 1.5, [], None):
        with pytest.raises(tuner.RequestError, match="write a time for all of it: 90s"), tuner.warm_up(budget=budget):
            pass
