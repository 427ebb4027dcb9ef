"""Stores of several machines become one, which keeps the better of each kind."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from helpers.ceilings import CEILINGS
from helpers.processes import Tune, nobody
from helpers.records import KERNEL, RTX, at, config, imported, stored
from tuner.store import time_tables
from tuner.store.ceilings_file import StoredCeilings
from tuner.store.record import Record
from tuner.store.store import Store
from tuner.store.time_tables import TimeTable


def held(folder: Path) -> dict[int, Record]:
    return {r.sizes["M"]: r for r in Store(KERNEL, folder).records if r.device == RTX}


@pytest.mark.slow
def test_merging_keeps_the_better_verified_record_in_any_order(tune: Tune, tmp_path: Path) -> None:
    def rtx(size: int, time_ms: float, **more: Any) -> Record:
        return at(size, RTX, time_ms=time_ms, **more)

    one = stored(tmp_path / "1", rtx(64, 1.0), rtx(128, 5.0), imported(rtx(256, 0.1)), rtx(512, 3.0, toolchain="x"))
    two = stored(
        tmp_path / "2", rtx(64, 2.0), rtx(128, 4.0), rtx(256, 9.0), rtx(512, 2.0, toolchain="y"), rtx(1024, 1.0)
    )
    expected = {64: 1.0, 128: 4.0, 256: 9.0, 512: 2.0, 1024: 1.0}
    before = {file: file.read_bytes() for folder in (one, two) for file in folder.rglob("*.jsonl")}
    for name, order in (("a", (one, two)), ("b", (two, one))):
        done = tune("merge", *order, "--results", tmp_path / name, "--json")
        assert done.json == {"files": 2, "records": 9, "written": {KERNEL: 5}, "ceilings": 0, "logs": 0}, done.err
        assert {size: record.time_ms for size, record in held(tmp_path / name).items()} == expected
        again = tune("merge", *order, "--results", tmp_path / name, "--json")
        assert again.json["written"] == {KERNEL: 0}
    assert before == {file: file.read_bytes() for file in before}
    single = tune("merge", *before, "--results", tmp_path / "c")
    assert "9 records in 2 files; 5 are new or better" in single.out


def test_what_cannot_be_read_is_told_and_stays(tune: Tune, tmp_path: Path) -> None:
    folder = stored(tmp_path / "1", at(64, RTX))
    (file,) = folder.rglob("*.jsonl")
    file.write_bytes(file.read_bytes() + b"torn\x1b]0;owned\x07\n")
    done = tune("merge", folder, "--results", tmp_path / "all")
    assert (done.status, f"{file}:3: skipped" in done.err, "\x1b" in done.err) == (0, True, False)


def test_the_latest_ceilings_of_a_device_come_along(tune: Tune, tmp_path: Path) -> None:
    for name, date, cache in (("1", "2026-03-01", 1), ("2", "2026-05-01", 2), ("3", "2026-04-01", 3)):
        StoredCeilings(stored(tmp_path / name, at(64, RTX))).save(replace(CEILINGS, date=date, cache=cache))
    (tmp_path / "4").mkdir()
    (tmp_path / "4" / "ceilings.json").write_text("{}")
    stored(tmp_path / "4", at(64, RTX))
    done = tune("merge", *(tmp_path / name for name in "1234"), "--results", tmp_path / "all", "--json")
    assert (done.status, done.json["ceilings"]) == (0, 1), done.err
    assert f"{tmp_path / '4' / 'ceilings.json'}: format is not 'tuner ceilings'" in done.err
    kept = StoredCeilings(tmp_path / "all").of_name(CEILINGS.kind, CEILINGS.device)
    assert kept is not None
    assert kept.cache == 2
    assert tune("merge", tmp_path / "1", "--results", tmp_path / "all", "--json").json["ceilings"] == 0


HEADER = '{"format": "tuner results", "version": 1, "kernel": "%s"}\n'


def test_the_times_of_tables_come_along_and_a_broken_table_is_told(tune: Tune, tmp_path: Path) -> None:
    for name, size in (("1", 64), ("2", 128)):
        folder = stored(tmp_path / name, at(size, RTX))
        table = TimeTable("cuda", RTX, "code", ("M", "N", "K", "batch"), {"alpha": 1.0}, {})
        table.add(config(8), (size, size, size, 1), size / 100)
        time_tables.write(KERNEL, [table], folder)
    next((tmp_path / "2").rglob("*.jsonl")).unlink()  # as of `tune cover --times`
    stored(tmp_path / "3", at(256, RTX))
    time_tables.path(KERNEL, tmp_path / "3").write_text("{}")
    done = tune("merge", *(tmp_path / name for name in "123"), "--results", tmp_path / "all")
    (merged,) = [each for each in time_tables.read(Store(KERNEL, tmp_path / "all").files)[0] if each.device == RTX]
    assert [*merged.times.values()] == [{(64, 64, 64, 1): 0.64, (128, 128, 128, 1): 1.28}]
    assert "is not of format 'tuner times'" in done.err


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (HEADER % "../../../owned", "names no kernel: '../../../owned'"),
        (HEADER % "/etc/owned", "names no kernel"),
        (HEADER % "a//b", "names no kernel"),
        (HEADER % "\\u001b[2J", "names no kernel"),
        (HEADER.replace("1", "2") % KERNEL, "the file has format version 2"),
        ('{"events": 1}\n', "not a results file"),
    ],
)
def test_a_file_that_claims_something_odd_stops_the_merge_before_anything_is_written(
    content: str, message: str, tune: Tune, tmp_path: Path
) -> None:
    good, bad = stored(tmp_path / "1", at(64, RTX)), tmp_path / "2" / "bad.jsonl"
    bad.parent.mkdir()
    bad.write_text(content + at(64, RTX).to_line() + "\n")
    done = tune("merge", good, bad.parent, "--results", tmp_path / "all")
    assert (done.status, done.out, len(done.err.splitlines())) == (2, "", 1), done.err
    assert message in done.err
    assert not (tmp_path / "all").exists()
    assert not list(tmp_path.rglob("owned*"))


BROKEN = {**config(8), "block_size_y": 32}

USELESS = {
    "an undeclared value": {"config": config(7)},
    "another parameter": {"config": {"a": 1}},
    "a broken restriction": {"config": BROKEN},
    "a language that it is not in": {"kind": "host", "config": config(8)},
}


@pytest.mark.slow
@pytest.mark.parametrize("name", USELESS)
def test_a_record_of_no_use_takes_no_good_ones_place(name: str, tune: Tune, tmp_path: Path) -> None:
    good, useless = at(64, RTX, time_ms=1.0), at(64, RTX, time_ms=0.5, **USELESS[name])
    for order in (("good", "bad"), ("bad", "good")):
        target = tmp_path / "-".join(order)
        for one in order:
            source = stored(tmp_path / one, good if one == "good" else useless)
            done = tune("merge", source, "--results", target)
            assert done.status == 0, done.err
            assert ("1 skipped that sgemm/07_tiled_1xn allows on no device, such as" in done.err) == (one == "bad")
        assert held(target) == {64: good}
    target = stored(tmp_path / "bad target", useless)
    assert tune("merge", tmp_path / "good", "--results", target, "--json").json["written"] == {KERNEL: 1}
    assert good in held(target).values()


def test_an_absurd_time_is_no_record(tune: Tune, tmp_path: Path) -> None:
    absurd = stored(tmp_path / "1", at(64, RTX, time_ms=1e-320))
    done = tune("merge", absurd, stored(tmp_path / "2", at(64, RTX)), "--results", tmp_path / "all")
    assert "skipped, not a record: time_ms is 1e-320; allowed: a number from 1e-06 on" in done.err
    assert held(tmp_path / "all") == {64: at(64, RTX)}


def test_records_of_kernels_that_are_not_known_here_are_merged(tune: Tune, tmp_path: Path) -> None:
    one, older = replace(at(64, RTX), config={"own": 1}), replace(at(64, RTX), config=config(7), signature="older")
    Store("mine/own", tmp_path / "1").add(one)
    Store(KERNEL, tmp_path / "1").add(older)
    done = tune("merge", tmp_path / "1", "--results", tmp_path / "all", "--json")
    assert (done.json["written"], done.err) == ({"mine/own": 1, KERNEL: 1}, "")


def test_of_two_records_about_one_thing_in_one_file_the_better_counts(tune: Tune, tmp_path: Path) -> None:
    Store(KERNEL, tmp_path / "1").add(at(64, RTX, time_ms=3.0))
    (file,) = (tmp_path / "1").rglob("*.jsonl")
    fastest = imported(at(64, RTX, time_ms=0.5, tile=4))
    more = [at(64, RTX, time_ms=1.0, tile=16), at(64, RTX, time_ms=2.0), fastest]
    file.write_text(file.read_text() + "".join(one.to_line() + "\n" for one in more))
    assert next(r.time_ms for r in Store(KERNEL, tmp_path / "1").records if r.device == RTX) == 1.0
    worse = stored(tmp_path / "2", at(64, RTX, time_ms=1.5))
    assert tune("merge", worse, "--results", tmp_path / "1", "--json").json["written"] == {KERNEL: 0}
    assert tune("merge", tmp_path / "1", "--results", tmp_path / "all").status == 0
    assert held(tmp_path / "all")[64].time_ms == 1.0
    better = stored(tmp_path / "3", at(64, RTX, time_ms=0.9))
    assert "1 record in 1 file; 1 is new or better" in tune("merge", better, "--results", tmp_path / "1").out
    assert [r.time_ms for r in Store(KERNEL, tmp_path / "1").records if r.device == RTX] == [0.9], (
        "and of one one stays"
    )


@pytest.mark.slow
@pytest.mark.parametrize("named", ['"sgemm/06_tiled"', "7", "null"])
def test_a_file_in_another_kernels_place_is_told_skipped_and_kept(named: str, tune: Tune, tmp_path: Path) -> None:
    folder = stored(tmp_path / "1", at(64, RTX))
    (file,) = folder.rglob("*.jsonl")
    file.write_text(file.read_text().replace(f'"kernel": "{KERNEL}"', f'"kernel": {named}'))
    before = file.read_bytes()
    done = tune("best", KERNEL, "64", "--device", "opencl", "--results", folder)
    assert (done.status, RTX in done.out) == (0, False), done.err
    told = f"{file}:1: its header names kernel '{json.loads(named)}', but this is the file of {KERNEL}"
    assert f"{told}; skipped" in done.err
    for verb in (["merge", stored(tmp_path / "2", at(64, RTX))], [KERNEL, "64", "--device", "opencl"]):
        done = tune(*verb, "--results", folder)
        assert (done.status, f"{told}; move the file away" in done.err) == (2, True), done.err
    done = tune("merge", folder, "--results", tmp_path / "all")
    if named.startswith('"'):
        assert (done.status, f"{file}:1: its header names sgemm/06_tiled, whose" in done.err) == (0, True), done.err
        assert tune("merge", file, "--results", tmp_path / "all", "--json").json["written"] == {"sgemm/06_tiled": 1}
    else:
        assert (done.status, "its header names no kernel" in done.err) == (2, True), done.err
    assert file.read_bytes() == before


def test_fields_of_a_newer_version_are_merged_too(tune: Tune, tmp_path: Path) -> None:
    for name, size in (("1", 64), ("2", 128)):
        stored(tmp_path / name, at(size, RTX))
        (file,) = (tmp_path / name).rglob("*.jsonl")
        file.write_text(file.read_text().replace('"error"', f'"newer": {size}, "error"'))
    for name in ("1", "2"):
        assert tune("merge", tmp_path / name, "--results", tmp_path / "all").status == 0
    (file,) = (tmp_path / "all").rglob("*.jsonl")
    assert [json.loads(line).get("newer") for line in file.read_text().splitlines()] == [None, 64, 128]


def test_a_folder_that_may_not_be_read_stops_the_merge(tune: Tune, tmp_path: Path) -> None:
    with nobody() as folder:
        stored(folder / "node", at(64, RTX))
        closed = folder / "node" / "hgemm"
        closed.mkdir(mode=0)
        for source in (folder / "node", closed, closed / "x.jsonl"):
            done = tune("merge", source, "--results", folder / "all")
            assert (done.status, done.out, len(done.err.splitlines())) == (2, "", 1), done.err
            assert f"{closed}" in done.err
            assert "the results cannot be read: Permission denied" in done.err
        assert not (folder / "all").exists()


def test_nothing_to_merge_is_one_message(tune: Tune, tmp_path: Path) -> None:
    assert "no results, *.jsonl, in it or below" in tune("merge", tmp_path).err
    assert "there is no such file" in tune("merge", tmp_path / "none").err
    assert tune("merge").status == tune("import").status == 2


def test_what_an_opencl_device_has_measured_is_taken_in_at_sizes_beyond_a_gpus_grid(tune: Tune, tmp_path: Path) -> None:
    many = replace(at(4), kind="opencl", device="PoCL", sizes={"M": 4, "N": 4, "K": 4, "batch": 70_000})
    done = tune("merge", stored(tmp_path / "1", many), "--results", tmp_path / "all", "--json")
    assert (done.json["written"], done.err) == ({KERNEL: 1}, "")


def test_a_record_of_an_earlier_protocol_never_keeps_its_place(tune: Tune, tmp_path: Path) -> None:
    earlier, later = at(64, RTX, time_ms=0.1, tile=4, protocol=1), at(64, RTX, time_ms=5.0, tile=16, protocol=2)
    store = Store(KERNEL, stored(tmp_path / "1", earlier))
    assert store.add(later), "although it is slower"
    assert not store.add(earlier)
    assert not store.add(earlier, lambda old: False)
    folders = stored(tmp_path / "2", earlier), stored(tmp_path / "3", later)
    for name, order in (("a", folders), ("b", folders[::-1])):
        assert tune("merge", *order, "--results", tmp_path / name).status == 0
        assert held(tmp_path / name)[64].time_ms == 5.0
    (file,) = (tmp_path / "2").rglob("*.jsonl")
    line = earlier.to_line().replace(', "protocol": 1', "")
    assert line != earlier.to_line()
    file.write_text(f"{file.read_text().splitlines()[0]}\n{line}\n{later.to_line()}\n")
    assert next(r.time_ms for r in Store(KERNEL, tmp_path / "2").records if r.device == RTX) == 5.0


def test_no_record_that_nobody_verified_takes_a_verified_ones_place(tmp_path: Path) -> None:
    store = Store(KERNEL, stored(tmp_path / "1", at(64, time_ms=5.0)))
    for add in (store.merge, lambda records: store.add(records[0], lambda old: False)):
        assert not add([imported(at(64, time_ms=1.0))])
        assert not add([imported(at(64, time_ms=9.0))])
    assert not store.merge([imported(at(64, time_ms=1.0))], lambda old: False)
