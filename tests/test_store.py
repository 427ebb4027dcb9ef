from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from conftest import Done, scope_of

from tuner import catalog, source
from tuner.devices import Device
from tuner.errors import RequestError
from tuner.store import Found, Record, Store

KERNEL = "sgemm/01_host_blocked"
SPACE = catalog.load(KERNEL)
SIGNATURE = source.signature(SPACE)


def record(**changes: Any) -> Record:
    """A record of this kernel, as tuning writes it."""
    plain = Record(
        device="Here", kind="host", architecture="x86_64", sizes=sizes(64), options={"alpha": 1.0, "beta": 0.0},
        config={"block_size": 8, "openmp": 0}, time_ms=1.0, spread=0.01, rounds=9, gflops=1.0, library=None,
        library_ms=None, vs_library=None, error=1e-6, bound=1e-3, signature=SIGNATURE, toolchain="cc 1",
        configurations=12, evaluated=12, failed={}, strategy="brute_force", date="2026-11-21T00:00:00+00:00",
        version="0.1.0",
    )  # fmt: skip
    return replace(plain, **changes)


def sizes(n: int, **more: int) -> dict[str, int]:
    return {"M": n, "N": n, "K": n, "batch": 1, **more}


def config(block: int) -> dict[str, int]:
    return {"block_size": block, "openmp": 0}


def look_up(store: Store, host: Device, size: str = "64") -> Found:
    return store.look_up(SPACE, scope_of(SPACE, host, size), "Here", "host", "x86_64", SIGNATURE)


FAR = record(device="Elsewhere", architecture="arm64", config=config(16))
KIN = record(device="Sibling", config=config(32), sizes=sizes(4096))
NEAR = record(sizes=sizes(128), config=config(64))
FARTHER = record(sizes=sizes(1024), config=config(128))
EXACT = record(config=config(8))
STALE = record(config=config(256), signature="an earlier one")

ANSWERS = {
    "nothing": ([], "default", False, 32),
    "only another device": ([FAR], "other_device", False, 16),
    "one of the same architecture": ([FAR, KIN], "architecture", False, 32),
    "this device at two other sizes": ([FAR, KIN, FARTHER, NEAR], "nearest_size", False, 64),
    "this device at this size": ([FAR, KIN, FARTHER, NEAR, EXACT], "exact", False, 8),
    "a stale one beside another device's": ([STALE, FAR], "other_device", False, 16),
    "only a stale one": ([STALE], "exact", True, 256),
    "a value that the space does not declare": ([record(config=config(7)), FAR], "other_device", False, 16),
    "a parameter too many": ([record(config={**config(8), "x": 1})], "default", False, 32),
}


@pytest.mark.parametrize("store", ANSWERS)
def test_a_look_up_answers_with_the_best_match_and_says_how_good_it_is(
    store: str, host: Device, tmp_path: Path
) -> None:
    records, match, stale, block = ANSWERS[store]
    folder = Store(KERNEL, tmp_path)
    for one in records:
        assert folder.add(one)
    found = look_up(Store(KERNEL, tmp_path), host)
    assert (found.match, found.stale, found.config["block_size"]) == (match, stale, block)


def test_a_record_survives_writing_and_reading(tmp_path: Path) -> None:
    assert Store(KERNEL, tmp_path).add(EXACT)
    assert Store(KERNEL, tmp_path).records == [EXACT]


def test_a_store_keeps_the_fastest_of_one_toolchain_and_the_newest_otherwise(tmp_path: Path) -> None:
    assert Store(KERNEL, tmp_path).add(EXACT)
    assert not Store(KERNEL, tmp_path).add(record(config=config(16), time_ms=2.0))
    assert Store(KERNEL, tmp_path).add(record(time_ms=2.0)), "the same configuration, measured again"
    assert Store(KERNEL, tmp_path).add(record(config=config(16), time_ms=3.0, toolchain="cc 2"))
    (only,) = Store(KERNEL, tmp_path).records
    assert (only.toolchain, only.time_ms) == ("cc 2", 3.0)


def test_records_with_other_options_do_not_compete(tmp_path: Path, host: Device) -> None:
    beta = {"alpha": 1.0, "beta": 1.0}
    assert Store(KERNEL, tmp_path).add(EXACT)
    assert Store(KERNEL, tmp_path).add(record(options=beta, time_ms=2.0, config=config(16)))
    store = Store(KERNEL, tmp_path)
    assert len(store.records) == 2
    assert look_up(store, host).config == config(8)


def test_bytes_that_are_no_text_stay_as_they_are(tmp_path: Path) -> None:
    Store(KERNEL, tmp_path).add(EXACT)
    path = tmp_path / f"{KERNEL}.jsonl"
    path.write_bytes(path.read_bytes() + b"foo\xff\x0cbar\n")
    Store(KERNEL, tmp_path).add(NEAR)
    assert b"\nfoo\xff\x0cbar\n" in path.read_bytes()


TORN = {
    "cut in half": json.dumps(asdict(EXACT))[:200],
    "not JSON": "garbage",
    "a list": "[1]",
    "deep": "[" * 100_000,
    "a key missing": json.dumps({k: v for k, v in asdict(EXACT).items() if k != "config"}),
    "a wrong type": json.dumps({**asdict(EXACT), "time_ms": "fast"}),
    "not a number": json.dumps({**asdict(EXACT), "time_ms": float("nan")}),
    "code for a value": json.dumps({**asdict(EXACT), "config": {"block_size": {"a": 1}}}),
    "a rate that is a word": json.dumps({**asdict(EXACT), "gflops": "fast"}),
    "a share that is a word": json.dumps({**asdict(EXACT), "vs_library": "x"}),
    "a huge number": json.dumps({**asdict(EXACT), "time_ms": 10**400}),
    "a huge size": json.dumps({**asdict(EXACT), "sizes": {"M": 10**400}}),
    "a terminal sequence": json.dumps({**asdict(EXACT), "device": "\x1b]0;owned\x07"}),
}


@pytest.mark.parametrize("line", TORN)
def test_a_line_that_is_no_record_is_reported_skipped_and_kept(
    line: str, tmp_path: Path, tune: Callable[..., Done]
) -> None:
    Store(KERNEL, tmp_path).add(EXACT)
    path = tmp_path / f"{KERNEL}.jsonl"
    path.write_text(path.read_text() + TORN[line] + "\n")
    done = tune("best", KERNEL, "64", "--results", tmp_path, "--json")
    assert done.status == 0
    assert done.json["match"] in ("exact", "other_device", "architecture")
    assert f"{path}:3: skipped" in done.err
    assert "\x1b" not in done.err + done.out
    Store(KERNEL, tmp_path).add(NEAR)
    assert TORN[line] in path.read_text(), "never lost"


@pytest.mark.parametrize(
    ("header", "said"),
    [("", "not a results file"), ("{}", "not a results file"), ('{"format": "tuner results", "version": 99}', "newer")],
)
def test_a_file_that_is_not_ours_or_newer_is_refused_and_left_alone(
    header: str, said: str, tmp_path: Path, tune: Callable[..., Done]
) -> None:
    path = tmp_path / f"{KERNEL}.jsonl"
    path.parent.mkdir()
    path.write_text(header + "\nsomething\n")
    for verb in (["best"], ["run"], []):
        done = tune(*verb, KERNEL, "64", "--results", tmp_path)
        assert done.status == 2
        assert said in done.err
        assert len(done.err.splitlines()) == 1
    assert path.read_text() == header + "\nsomething\n"


def test_many_writers_at_once_lose_and_tear_nothing(tmp_path: Path) -> None:
    script = (
        "import sys; from pathlib import Path; sys.path.insert(0, sys.argv[3]); import test_store as t\n"
        "for i in range(10):\n"
        "    t.Store(t.KERNEL, Path(sys.argv[1])).add(t.record(sizes=t.sizes(1 + i, batch=int(sys.argv[2]))))"
    )
    here = str(Path(__file__).parent)
    writers = [subprocess.Popen([sys.executable, "-c", script, str(tmp_path), str(n), here]) for n in range(1, 7)]
    assert [writer.wait(60) for writer in writers] == [0] * 6
    store = Store(KERNEL, tmp_path)
    assert len(store.records) == 60
    assert store.problems == []


def test_a_folder_that_cannot_be_read_or_written_is_one_message(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match=r"cannot be written.*--results"):
        Store(KERNEL, Path("/proc/nowhere")).add(EXACT)
    (tmp_path / "sgemm").write_text("a file where a folder should be")
    with pytest.raises(RequestError, match="cannot be read"):
        Store(KERNEL, tmp_path)
