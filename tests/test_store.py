from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from conftest import Done, scope_of

from tuner.devices import Device
from tuner.errors import RequestError
from tuner.space import catalog, source
from tuner.store import locks
from tuner.store.store import Found, Record, Store

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
    "deep where it does not show": json.dumps(asdict(EXACT))[:-1] + ', "config": ' + "[" * 900 + "]" * 900 + "}",
    "deep in a runner-up": json.dumps(asdict(EXACT))[:-1]
    + ', "next": [{"time_ms": 1, "config": {}, "x": '
    + "[" * 990
    + "]" * 990
    + "}]}",
    "energy that is not there": json.dumps({**asdict(EXACT), "objective": "energy"}),
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
    ("changed", "said"),
    [
        ({"device": 5}, "device is 5; allowed: a line of text"),
        ({"sizes": {"M": 0}}, "sizes is {'M': 0}; allowed: whole numbers from 1 on, by name"),
        ({"gflops": "fast"}, "gflops is 'fast'; allowed: a number from 0 on, or null"),
        ({"time_ms": 0}, "time_ms is 0; allowed: a number from 1e-06 on"),
    ],
)
def test_a_field_that_may_not_be_so_is_told_with_what_may(changed: dict[str, Any], said: str, tmp_path: Path) -> None:
    Store(KERNEL, tmp_path).add(EXACT)
    path = tmp_path / f"{KERNEL}.jsonl"
    path.write_text(path.read_text() + json.dumps({**asdict(EXACT), **changed}) + "\n")
    assert Store(KERNEL, tmp_path).problems == [f"{path}:3: skipped, not a record: {said}"]


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


WRITERS = """
import os, signal, sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
import test_store as t
def write(number, count, folder=Path(sys.argv[1])):
    store = t.Store(t.KERNEL, folder)
    for i in range(count):
        assert store.add(t.record(sizes=t.sizes(1 + i, batch=number)))
def apart(work, *arguments):
    child = os.fork()
    if child == 0:
        os.nice(19)  # twenty at once would starve the kernels of other tests
        try:
            work(*arguments)
        except BaseException as error:
            print(error, file=sys.stderr)
            os._exit(1)
        os._exit(0)
    return child
def ends(children):
    return [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
"""


def run(script: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", WRITERS + script, str(folder), str(Path(__file__).parent)]
    return subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, **environment})


def test_a_thousand_records_of_twenty_writers_are_all_there_and_whole(tmp_path: Path) -> None:
    done = run("assert ends([apart(write, n, 50) for n in range(1, 21)]) == [0] * 20", tmp_path)
    assert done.returncode == 0, done.stderr
    store = Store(KERNEL, tmp_path)
    assert {(r.sizes["M"], r.sizes["batch"]) for r in store.records} == {
        (i, n) for i in range(1, 51) for n in range(1, 21)
    }
    assert (len(store.records), store.problems) == (1000, [])


def test_a_writer_killed_at_any_byte_leaves_the_old_file_or_the_new_one(tmp_path: Path) -> None:
    """The kernel ends a process that writes beyond its limit, right at that byte."""
    assert Store(KERNEL, tmp_path).add(EXACT)
    path = tmp_path / f"{KERNEL}.jsonl"
    before = path.read_bytes()
    script = """
import resource
def limited(most):
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
    write(2, 1)
path = Path(sys.argv[1]) / f"{t.KERNEL}.jsonl"
before = path.read_bytes()
for most in range(0, 2 * len(before), 29):
    (end,) = ends([apart(limited, most)])
    if end == 0:
        break
    assert end == -signal.SIGXFSZ, end
    assert path.read_bytes() == before
print(most)
"""
    done = run(script, tmp_path)
    assert done.returncode == 0, done.stderr
    assert len(before) < int(done.stdout) < 2 * len(before), "killed until the whole file could be written"
    assert path.read_bytes().startswith(before)
    assert len(Store(KERNEL, tmp_path).records) == 2
    assert {p.name for p in path.parent.iterdir()} == {path.name, f"{path.stem}.lock"}, "nothing is left behind"


def test_a_file_cut_at_any_byte_gives_what_is_whole_and_loses_nothing(tmp_path: Path) -> None:
    for one in (EXACT, NEAR):
        Store(KERNEL, tmp_path).add(one)
    path = tmp_path / f"{KERNEL}.jsonl"
    whole = path.read_bytes()
    ends = [end for end, byte in enumerate(whole) if byte == 10]
    for cut in range(1, len(whole)):
        path.write_bytes(whole[:cut])
        if cut < ends[0]:
            with pytest.raises(RequestError, match="not a results file"):
                Store(KERNEL, tmp_path)
            continue
        store = Store(KERNEL, tmp_path)
        assert len(store.records) == sum(cut >= end for end in ends[1:])
        assert len(store.problems) == (cut not in ends and cut - 1 not in ends)
        if cut % 100 == 0:
            assert store.add(FAR)
            assert whole[:cut].rstrip(b"\n") in path.read_bytes()
            assert FAR in Store(KERNEL, tmp_path).records
    path.write_bytes(b"")
    assert Store(KERNEL, tmp_path).add(FAR), "what a lost disk left empty is an empty store"


NO_FLOCK = """
#include <errno.h>
int flock(int file, int operation) { errno = CODE; return -1; }
"""


@pytest.mark.parametrize("code", ["ENOLCK", "ENOSYS", "EOPNOTSUPP"])
def test_where_a_file_system_has_no_locks_nothing_is_lost_either(code: str, tmp_path: Path) -> None:
    shim = tmp_path / "no_flock.so"
    compiler = ["cc", "-x", "c", f"-DCODE={code}", "-shared", "-fPIC", "-o", str(shim), "-"]
    subprocess.run(compiler, input=NO_FLOCK, text=True, check=True)
    Store(KERNEL, tmp_path).add(EXACT)  # leaves a lock file of the usual kind
    script = """
import filelock
from tuner.store import locks
def die():
    with locks.held(Path(sys.argv[1]) / f"{t.KERNEL}.jsonl"):
        os.kill(os.getpid(), signal.SIGKILL)
assert ends([apart(die)]) == [-signal.SIGKILL]
assert ends([apart(write, n, 5) for n in range(2, 7)]) == [0] * 5
"""
    done = run(script, tmp_path, LD_PRELOAD=str(shim))
    assert done.returncode == 0, done.stderr
    store = Store(KERNEL, tmp_path)
    assert (len(store.records), store.problems) == (26, [])


def test_a_lock_that_nobody_lets_go_of_is_one_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locks, "PATIENCE_SECONDS", 0.1)
    store = Store(KERNEL, tmp_path)
    with (
        locks.held(store.paths[0].parent.mkdir() or store.paths[0]),
        pytest.raises(RequestError, match=r"locked by another process for 0 s; wait for it, or delete .*\.lock"),
    ):
        store.add(EXACT)


@contextlib.contextmanager
def nobody() -> Iterator[Path]:
    """A folder of everybody's, and no privileges meanwhile."""
    folder = Path(tempfile.mkdtemp(dir="/tmp"))
    folder.chmod(0o755)
    is_root = os.geteuid() == 0
    try:
        if is_root:
            os.chown(folder, 65534, 65534)
            os.seteuid(65534)
        yield folder
    finally:
        if is_root:
            os.seteuid(0)
        shutil.rmtree(folder, onerror=lambda remove, name, _: (os.chmod(Path(name).parent, 0o755), remove(name)))


def test_a_read_only_folder_is_read_and_left_alone(host: Device) -> None:
    with nobody() as folder:
        assert Store(KERNEL, folder).add(EXACT)
        path = folder / f"{KERNEL}.jsonl"
        path.with_suffix(".lock").unlink()
        path.parent.chmod(0o555)
        before = path.read_bytes()
        store = Store(KERNEL, folder)
        assert look_up(store, host).match == "exact"
        for write in (store.check_writable, lambda: store.add(NEAR)):
            with pytest.raises(RequestError, match=r"cannot be written: Permission denied; .*--results"):
                write()
        assert [p.name for p in path.parent.iterdir()] == [path.name]
        assert path.read_bytes() == before
        path.parent.chmod(0o755)


def test_a_file_that_a_newer_tuner_takes_over_is_not_written(tmp_path: Path) -> None:
    store = Store(KERNEL, tmp_path)
    assert store.add(EXACT)
    newer = store.paths[0].read_text().replace('"version": 1', '"version": 2')
    store.paths[0].write_text(newer)
    with pytest.raises(RequestError, match="a version that reads format 2 is needed, this one reads 1; update tuner"):
        store.add(NEAR)
    assert store.paths[0].read_text() == newer


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo, lambda path: path.symlink_to("/dev/zero")])
def test_what_is_no_file_is_refused_at_once(make: Callable[[Path], None], tmp_path: Path) -> None:
    path = tmp_path / f"{KERNEL}.jsonl"
    path.parent.mkdir()
    make(path)
    with pytest.raises(RequestError, match="not a file"):
        Store(KERNEL, tmp_path)


def test_a_file_full_of_rubbish_is_a_few_lines_of_warnings(tmp_path: Path, tune: Callable[..., Done]) -> None:
    folder = tmp_path / "\x1b]0;owned\x07\u202e\n"
    store = Store(KERNEL, folder)
    store.add(EXACT)
    with store.paths[0].open("a") as file:
        file.write("\x1b]0;owned\x07\n" * 100_000)
        file.write("[" * (1 << 20) + "\n")
        file.write(json.dumps({**asdict(EXACT), "device": "x" * (1 << 20)}) + "\n")
    done = tune("best", KERNEL, "64", "--results", folder)
    assert done.status == 0
    assert len([line for line in done.err.splitlines() if "skipped" in line]) == 4
    assert "99999 more lines skipped" in done.err
    assert all(c.isprintable() or c == "\n" for c in done.err + done.out)


def test_a_folder_that_cannot_be_read_or_written_is_one_message(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match=r"cannot be written.*--results"):
        Store(KERNEL, Path("/proc/nowhere")).add(EXACT)
    (tmp_path / "sgemm").write_text("a file where a folder should be")
    with pytest.raises(RequestError, match="cannot be read"):
        Store(KERNEL, tmp_path)
