"""Records in files: what is kept, what is refused, and what is told of it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from helpers.processes import Tune, nobody
from helpers.records import EXACT, FAR, HOST_KERNEL, HOST_SPACE, NEAR, host_config, record, sizes
from helpers.spaces import scope_of
from tuner.devices import Device
from tuner.errors import RequestError
from tuner.space.sources.rendering import Version
from tuner.store.lookup import Candidate, Query
from tuner.store.store import Store


def look_up(store: Store, host: Device) -> Candidate:
    return store.look_up(
        Query(HOST_SPACE, scope_of(HOST_SPACE, host, "64"), "Here", "host", "x86_64", Version.of(HOST_SPACE))
    )


KIN = record(device="Sibling", config=host_config(32), sizes=sizes(4096))
FARTHER = record(sizes=sizes(1024), config=host_config(128))
STALE = record(config=host_config(256), signature="an earlier one")

ANSWERS = {
    "nothing": ([], "default", False, 32),
    "only another device": ([FAR], "other_device", False, 16),
    "one of the same architecture": ([FAR, KIN], "architecture", False, 32),
    "this device at two other sizes": ([FAR, KIN, FARTHER, NEAR], "nearest_size", False, 64),
    "this device at this size": ([FAR, KIN, FARTHER, NEAR, EXACT], "exact", False, 8),
    "a stale one beside another device's": ([STALE, FAR], "other_device", False, 16),
    "only a stale one": ([STALE], "exact", True, 256),
    "a value that the space does not declare": ([record(config=host_config(7)), FAR], "other_device", False, 16),
    "a parameter too many": ([record(config={**host_config(8), "x": 1})], "default", False, 32),
}


@pytest.mark.parametrize("store", ANSWERS)
def test_a_look_up_answers_with_the_best_match_and_says_how_good_it_is(
    store: str, host: Device, tmp_path: Path
) -> None:
    records, match, stale, block = ANSWERS[store]
    folder = Store(HOST_KERNEL, tmp_path)
    for one in records:
        assert folder.add(one)
    found = look_up(Store(HOST_KERNEL, tmp_path), host)
    assert (found.match, found.stale, found.config["block_size"]) == (match, stale, block)


def test_a_process_that_does_not_hold_a_device_looks_up_what_one_that_does_finds(host: Device) -> None:
    scope = scope_of(HOST_SPACE, host, "64")
    assert Query.of(HOST_SPACE, scope, host.info) == Query.of(HOST_SPACE, scope, host)


def test_a_record_survives_writing_and_reading(tmp_path: Path) -> None:
    assert Store(HOST_KERNEL, tmp_path).add(EXACT)
    assert Store(HOST_KERNEL, tmp_path).records == [EXACT]


def test_a_store_keeps_the_fastest_of_one_toolchain_and_the_newest_otherwise(tmp_path: Path) -> None:
    assert Store(HOST_KERNEL, tmp_path).add(EXACT)
    assert not Store(HOST_KERNEL, tmp_path).add(record(config=host_config(16), time_ms=2.0))
    assert Store(HOST_KERNEL, tmp_path).add(record(time_ms=2.0)), "the same configuration, measured again"
    assert Store(HOST_KERNEL, tmp_path).add(record(config=host_config(16), time_ms=3.0, toolchain="cc 2"))
    (only,) = Store(HOST_KERNEL, tmp_path).records
    assert (only.toolchain, only.time_ms) == ("cc 2", 3.0)


def test_noise_takes_the_place_of_no_steady_record_of_the_same_configuration(tmp_path: Path) -> None:
    steady, noisy = record(time_ms=0.33, spread=0.1), record(time_ms=0.68, spread=0.82)
    assert Store(HOST_KERNEL, tmp_path).add(steady, noise=0.5)
    assert not Store(HOST_KERNEL, tmp_path).add(noisy, noise=0.5)
    assert Store(HOST_KERNEL, tmp_path).records == [steady]
    assert Store(HOST_KERNEL, tmp_path).add(record(time_ms=0.4, spread=0.2), noise=0.5), "the machine has changed"
    assert Store(HOST_KERNEL, tmp_path).add(noisy, lambda old: False, noise=0.5), "the old one is out of date"
    assert Store(HOST_KERNEL, tmp_path).add(record(time_ms=0.7, spread=0.9), noise=0.5), "both are noise"


def test_records_with_other_options_do_not_compete(tmp_path: Path, host: Device) -> None:
    beta = {"alpha": 1.0, "beta": 1.0}
    assert Store(HOST_KERNEL, tmp_path).add(EXACT)
    assert Store(HOST_KERNEL, tmp_path).add(record(options=beta, time_ms=2.0, config=host_config(16)))
    store = Store(HOST_KERNEL, tmp_path)
    assert len(store.records) == 2
    assert look_up(store, host).config == host_config(8)


def test_bytes_that_are_no_text_stay_as_they_are(tmp_path: Path) -> None:
    Store(HOST_KERNEL, tmp_path).add(EXACT)
    path = tmp_path / f"{HOST_KERNEL}.jsonl"
    path.write_bytes(path.read_bytes() + b"foo\xff\x0cbar\n")
    Store(HOST_KERNEL, tmp_path).add(NEAR)
    assert b"\nfoo\xff\x0cbar\n" in path.read_bytes()


TORN = {
    "cut in half": json.dumps(EXACT.to_json())[:200],
    "not JSON": "garbage",
    "a list": "[1]",
    "deep": "[" * 100_000,
    "a key missing": json.dumps({k: v for k, v in EXACT.to_json().items() if k != "config"}),
    "a wrong type": json.dumps({**EXACT.to_json(), "time_ms": "fast"}),
    "not a number": json.dumps({**EXACT.to_json(), "time_ms": float("nan")}),
    "code for a value": json.dumps({**EXACT.to_json(), "config": {"block_size": {"a": 1}}}),
    "a rate that is a word": json.dumps({**EXACT.to_json(), "gflops": "fast"}),
    "a share that is a word": json.dumps({**EXACT.to_json(), "vs_library": "x"}),
    "a sustained time that is a word": json.dumps({**EXACT.to_json(), "sustained": {"kernel": {"time_ms": "x"}}}),
    "sustained by nobody": json.dumps({**EXACT.to_json(), "sustained": {"someone": {"time_ms": 1.0}}}),
    "deep where it does not show": json.dumps(EXACT.to_json())[:-1] + ', "config": ' + "[" * 900 + "]" * 900 + "}",
    "deep in a runner-up": json.dumps(EXACT.to_json())[:-1]
    + ', "next": [{"time_ms": 1, "config": {}, "x": '
    + "[" * 990
    + "]" * 990
    + "}]}",
    "energy that is not there": json.dumps({**EXACT.to_json(), "objective": "energy"}),
    "a huge number": json.dumps({**EXACT.to_json(), "time_ms": 10**400}),
    "a huge size": json.dumps({**EXACT.to_json(), "sizes": {"M": 10**400}}),
    "a terminal sequence": json.dumps({**EXACT.to_json(), "device": "\x1b]0;owned\x07"}),
}


@pytest.mark.parametrize("line", TORN)
def test_a_line_that_is_no_record_is_reported_skipped_and_kept(line: str, tmp_path: Path, tune: Tune) -> None:
    Store(HOST_KERNEL, tmp_path).add(EXACT)
    path = tmp_path / f"{HOST_KERNEL}.jsonl"
    path.write_text(path.read_text() + TORN[line] + "\n")
    done = tune("best", HOST_KERNEL, "64", "--results", tmp_path, "--json")
    assert done.status == 0
    assert done.json["match"] in ("exact", "other_device", "architecture")
    assert f"{path}:3: skipped" in done.err
    assert "\x1b" not in done.err + done.out
    Store(HOST_KERNEL, tmp_path).add(NEAR)
    assert TORN[line] in path.read_text(), "never lost"


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"device": 5}, "device is 5; allowed: a line of text"),
        ({"sizes": {"M": 0}}, "sizes is {'M': 0}; allowed: whole numbers from 1 on, by name"),
        ({"gflops": "fast"}, "gflops is 'fast'; allowed: a number from 0 on, or null"),
        ({"time_ms": 0}, "time_ms is 0; allowed: a number from 1e-06 on"),
    ],
)
def test_a_field_that_may_not_be_so_is_told_with_what_may(changed: dict[str, Any], said: str, tmp_path: Path) -> None:
    Store(HOST_KERNEL, tmp_path).add(EXACT)
    path = tmp_path / f"{HOST_KERNEL}.jsonl"
    path.write_text(path.read_text() + json.dumps({**EXACT.to_json(), **changed}) + "\n")
    assert Store(HOST_KERNEL, tmp_path).problems == [f"{path}:3: skipped, not a record: {said}"]


@pytest.mark.parametrize(
    ("header", "said"),
    [("", "not a results file"), ("{}", "not a results file"), ('{"format": "tuner results", "version": 99}', "newer")],
)
def test_a_file_that_is_not_ours_or_newer_is_refused_and_left_alone(
    header: str, said: str, tmp_path: Path, tune: Tune
) -> None:
    path = tmp_path / f"{HOST_KERNEL}.jsonl"
    path.parent.mkdir()
    path.write_text(header + "\nsomething\n")
    for verb in (["best"], ["run"], []):
        done = tune(*verb, HOST_KERNEL, "64", "--results", tmp_path)
        assert done.status == 2
        assert said in done.err
        assert len(done.err.splitlines()) == 1
    assert path.read_text() == header + "\nsomething\n"


def test_a_read_only_folder_is_read_and_left_alone(host: Device) -> None:
    with nobody() as folder:
        assert Store(HOST_KERNEL, folder).add(EXACT)
        path = folder / f"{HOST_KERNEL}.jsonl"
        path.with_suffix(".lock").unlink()
        path.parent.chmod(0o555)
        before = path.read_bytes()
        store = Store(HOST_KERNEL, folder)
        assert look_up(store, host).match == "exact"
        for write in (store.check_writable, lambda: store.add(NEAR)):
            with pytest.raises(RequestError, match=r"cannot be written: Permission denied; .*--results"):
                write()
        assert [p.name for p in path.parent.iterdir()] == [path.name]
        assert path.read_bytes() == before
        path.parent.chmod(0o755)


def test_a_file_that_a_newer_tuner_takes_over_is_not_written(tmp_path: Path) -> None:
    store = Store(HOST_KERNEL, tmp_path)
    assert store.add(EXACT)
    newer = store.paths[0].read_text().replace('"version": 1', '"version": 2')
    store.paths[0].write_text(newer)
    with pytest.raises(RequestError, match="the file has format version 2, this tuner reads 1; update tuner"):
        store.add(NEAR)
    assert store.paths[0].read_text() == newer


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo, lambda path: path.symlink_to("/dev/zero")])
def test_what_is_no_file_is_refused_at_once(make: Callable[[Path], None], tmp_path: Path) -> None:
    path = tmp_path / f"{HOST_KERNEL}.jsonl"
    path.parent.mkdir()
    make(path)
    with pytest.raises(RequestError, match="not a file"):
        Store(HOST_KERNEL, tmp_path)


def test_a_link_in_the_place_of_a_lock_opens_no_file_to_others(tmp_path: Path) -> None:
    private, folder = tmp_path / "private", tmp_path / "shared" / "sgemm"
    private.write_text("mine")
    private.chmod(0o600)
    folder.mkdir(parents=True)
    folder.chmod(0o777)
    store = Store(HOST_KERNEL, folder.parent)
    store.paths[0].with_suffix(".lock").symlink_to(private)
    with pytest.raises(RequestError, match=r"01_host_blocked\.lock: is a link; locks are files; delete it"):
        store.add(EXACT)
    assert (private.read_text(), private.stat().st_mode & 0o777) == ("mine", 0o600)


@pytest.mark.slow
def test_a_file_full_of_rubbish_is_a_few_lines_of_warnings(tmp_path: Path, tune: Tune) -> None:
    folder = tmp_path / "\x1b]0;owned\x07\u202e\n"
    store = Store(HOST_KERNEL, folder)
    store.add(EXACT)
    with store.paths[0].open("a") as file:
        file.write("\x1b]0;owned\x07\n" * 100_000)
        file.write("[" * (1 << 20) + "\n")
        file.write(json.dumps({**EXACT.to_json(), "device": "x" * (1 << 20)}) + "\n")
    done = tune("best", HOST_KERNEL, "64", "--results", folder)
    assert done.status == 0
    assert len([line for line in done.err.splitlines() if "skipped" in line]) == 4
    assert "99999 more lines skipped" in done.err
    assert all(c.isprintable() or c == "\n" for c in done.err + done.out)


def test_a_folder_that_cannot_be_read_or_written_is_one_message(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match=r"cannot be written.*--results"):
        Store(HOST_KERNEL, Path("/proc/nowhere")).add(EXACT)
    (tmp_path / "sgemm").write_text("a file where a folder should be")
    with pytest.raises(RequestError, match="cannot be read"):
        Store(HOST_KERNEL, tmp_path)
