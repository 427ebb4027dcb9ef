"""Many writers, killed writers and cut files: what was written is there and whole."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from helpers import ROOT
from helpers.records import EXACT, FAR, HOST_KERNEL, NEAR
from tuner.errors import RequestError
from tuner.store import locks
from tuner.store.store import Store

pytestmark = pytest.mark.slow

# On a busy machine each of twenty writers waits for the nineteen others longer than a user's patience would last, which
# is not what these tests are about.
WRITERS = """
import os, signal, sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from helpers import records as r
from tuner.store import locks
locks.PATIENCE_SECONDS = 3600.0
def write(number, count, folder=Path(sys.argv[1])):
    store = r.Store(r.HOST_KERNEL, folder)
    for i in range(count):
        assert store.add(r.record(sizes=r.sizes(1 + i, batch=number)))
def apart(work, *arguments):
    child = os.fork()
    if child == 0:
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
    command = [sys.executable, "-c", WRITERS + script, str(folder), str(ROOT / "tests")]
    return subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, **environment})


def test_a_hundred_records_of_twenty_writers_are_all_there_and_whole(tmp_path: Path) -> None:
    done = run("assert ends([apart(write, n, 5) for n in range(1, 21)]) == [0] * 20", tmp_path)
    assert done.returncode == 0, done.stderr
    store = Store(HOST_KERNEL, tmp_path)
    assert {(r.sizes["M"], r.sizes["batch"]) for r in store.records} == {
        (i, n) for i in range(1, 6) for n in range(1, 21)
    }
    assert (len(store.records), store.problems) == (100, [])


def test_a_writer_killed_at_any_byte_leaves_the_old_file_or_the_new_one(tmp_path: Path) -> None:
    """The kernel ends a process that writes beyond its limit, right at that byte."""
    assert Store(HOST_KERNEL, tmp_path).add(EXACT)
    path = tmp_path / f"{HOST_KERNEL}.jsonl"
    before = path.read_bytes()
    script = """
import resource
def limited(most):
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
    write(2, 1)
path = Path(sys.argv[1]) / f"{r.HOST_KERNEL}.jsonl"
before = path.read_bytes()
for most in range(0, 2 * len(before), 61):
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
    assert len(Store(HOST_KERNEL, tmp_path).records) == 2
    assert {p.name for p in path.parent.iterdir()} == {path.name, f"{path.stem}.lock"}, "nothing is left behind"


def test_a_file_cut_at_any_byte_gives_what_is_whole_and_loses_nothing(tmp_path: Path) -> None:
    for one in (EXACT, NEAR):
        Store(HOST_KERNEL, tmp_path).add(one)
    path = tmp_path / f"{HOST_KERNEL}.jsonl"
    whole = path.read_bytes()
    ends = [end for end, byte in enumerate(whole) if byte == 10]
    for cut in range(1, len(whole)):
        path.write_bytes(whole[:cut])
        if cut < ends[0]:
            with pytest.raises(RequestError, match="not a results file"):
                Store(HOST_KERNEL, tmp_path)
            continue
        store = Store(HOST_KERNEL, tmp_path)
        assert len(store.records) == sum(cut >= end for end in ends[1:])
        assert len(store.problems) == (cut not in ends and cut - 1 not in ends)
        if cut % 100 == 0:
            assert store.add(FAR)
            assert whole[:cut].rstrip(b"\n") in path.read_bytes()
            assert FAR in Store(HOST_KERNEL, tmp_path).records
    path.write_bytes(b"")
    assert Store(HOST_KERNEL, tmp_path).add(FAR), "what a lost disk left empty is an empty store"


NO_FLOCK = """
#include <errno.h>
int flock(int file, int operation) { errno = CODE; return -1; }
"""


@pytest.mark.parametrize("code", ["ENOLCK", "ENOSYS", "EOPNOTSUPP"])
def test_where_a_file_system_has_no_locks_nothing_is_lost_either(code: str, tmp_path: Path) -> None:
    shim = tmp_path / "no_flock.so"
    compiler = ["cc", "-x", "c", f"-DCODE={code}", "-shared", "-fPIC", "-o", str(shim), "-"]
    subprocess.run(compiler, input=NO_FLOCK, text=True, check=True)
    Store(HOST_KERNEL, tmp_path).add(EXACT)  # leaves a lock file of the usual kind
    script = """
import filelock
def die():
    with locks.held(Path(sys.argv[1]) / f"{r.HOST_KERNEL}.jsonl"):
        os.kill(os.getpid(), signal.SIGKILL)
assert ends([apart(die)]) == [-signal.SIGKILL]
assert ends([apart(write, n, 5) for n in range(2, 7)]) == [0] * 5
"""
    done = run(script, tmp_path, LD_PRELOAD=str(shim))
    assert done.returncode == 0, done.stderr
    store = Store(HOST_KERNEL, tmp_path)
    assert (len(store.records), store.problems) == (26, [])


def test_a_lock_that_nobody_lets_go_of_is_one_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locks, "PATIENCE_SECONDS", 0.1)
    store = Store(HOST_KERNEL, tmp_path)
    with (
        locks.held(store.paths[0].parent.mkdir() or store.paths[0]),
        pytest.raises(RequestError, match=r"locked by another process for 0 s; wait for it, or delete .*\.lock"),
    ):
        store.add(EXACT)


@pytest.mark.skipif(os.getuid() != 0, reason="acts as two other users")
@pytest.mark.parametrize("umask", [0o022, 0o077])
def test_two_users_write_to_one_store(umask: int, tmp_path: Path) -> None:
    """The folder is their group's. A lock file that an earlier version has left names its cure."""
    folder = Path(tempfile.mkdtemp(dir="/tmp"))
    os.chown(folder, 0, 4242)
    folder.chmod(0o2775)
    write = """
os.umask(int(sys.argv[3], 8))
r.Store("double", Path(sys.argv[4])).add(r.record())  # imports what these users may not read
for user in (1234, 1235):
    def as_user():
        os.setgroups([4242])
        os.setgid(4242)
        os.setuid(user)
        assert r.Store("double", Path(sys.argv[1])).add(r.record(sizes=r.sizes(user)))
    assert ends([apart(as_user)]) == [0], user
"""
    try:
        command = [sys.executable, "-c", WRITERS + write, str(folder), str(ROOT / "tests"), oct(umask), str(tmp_path)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert {r.sizes["M"] for r in Store("double", folder).records} == {1234, 1235}
        (folder / "double.lock").chmod(0o644)
        os.chown(folder / "double.lock", 0, 0)
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert "double.lock: belongs to another user, and this one may not write to it" in done.stderr
    finally:
        shutil.rmtree(folder)
