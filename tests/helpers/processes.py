"""Commands in processes of their own, and what they leave."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from helpers import commands
from helpers.commands import Command, hears
from helpers.short_finals import TUNE

PATIENCE_SECONDS = 600.0  # however busy the machine is, what takes longer hangs


@dataclass(frozen=True)
class Done:
    """What a command did."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        assert self.out, self.err
        return json.loads(self.out)


Tune = Callable[..., Done]


def start(
    *arguments: str, limit: int | None = None, limits: Sequence[str] = (), alone: bool = False
) -> subprocess.Popen[str] | Command:
    """The `tune` command in a process of its own.

    It has short finals, and is forked from a process that has imported what it needs, unless it is `alone`. So it is
    with limits: `limit` is the largest file in bytes that it may write, beyond which writing fails as on a full disk;
    `limits` are options of prlimit.
    """
    if limit is not None:
        limits = [f"--fsize={limit}"]
    if not limits and not alone:
        return commands.start(*arguments)
    command = [sys.executable, *TUNE, *arguments]
    if limits:
        command = ["prlimit", *limits, *command]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=os.environ.copy(), preexec_fn=hears)


def run(*command: str | Path, text: str | None = None) -> subprocess.CompletedProcess[str]:
    """A command that must succeed."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, input=text)
    assert done.returncode == 0, done.stderr
    return done


def wait_until(
    condition: Callable[[], object], process: subprocess.Popen[str] | Command | None = None, pause: float = 0.05
) -> None:
    """Returns when `condition` holds, or `process` has ended; asks with a `pause` in seconds between."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition() and (process is None or process.poll() is None):
        assert time.monotonic() < deadline, "nothing happens"
        time.sleep(pause)


def children(pid: int) -> list[int]:
    """The processes that the threads of a process have started, and that still run."""
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").glob("*"):
        with contextlib.suppress(OSError):
            found += map(int, (task / "children").read_text().split())
    return found


def descendants(pid: int) -> set[int]:
    """The children of a process, their children, and so on."""
    return {found for child in children(pid) for found in (child, *descendants(child))}


def runs(pid: int, module: str) -> bool:
    """Whether the command line of a process names a module."""
    with contextlib.suppress(OSError):
        return module.encode() in Path(f"/proc/{pid}/cmdline").read_bytes()
    return False


def is_called(pid: int, name: str) -> bool:
    """Whether a process has this name, of which the system keeps 15 characters."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text().strip() == f"tuner-{name}"[:15]
    return False


def fork_servers(pid: int) -> list[int]:
    """The processes that fork all others of the process with this id."""
    return [child for child in children(pid) if is_called(child, "server")]


def reapers(pid: int, module: str = "worker") -> list[int]:
    """The reapers that watch over processes of a module for the process with this id."""
    found = [child for server in fork_servers(pid) for child in children(server)]
    return [reaper for reaper in found if any(is_called(child, module) for child in children(reaper))]


def workers(pid: int, module: str = "worker") -> list[int]:
    """The processes of a module that work for the process with this id."""
    return [child for reaper in reapers(pid, module) for child in children(reaper) if is_called(child, module)]


def strategies_of(pid: int) -> list[int]:
    """The processes in which strategies run for the process with this id."""
    return workers(pid, "foreign")


def cpu_seconds(pid: int) -> float:
    """The processor time that a process has used, 0 for one that has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def of_this_test() -> list[str]:
    """Command lines of the processes that this test's commands have started, and that still run. The fork
    servers of this process are none of them: they serve all tests, and their children have their environment."""
    ours = fork_servers(os.getpid())
    marks = {f"TUNER_STATE={os.environ['TUNER_STATE']}".encode(), *(state for pid in ours for state in _states(pid))}
    marks -= _states(os.getppid())  # else whatever was started with the tests would be theirs
    running = {command.pid: " ".join(["tune", *command.arguments]) for command in commands.running()}
    forked = {process for server in commands.servers() for process in descendants(server)}
    found = [*running.values()]
    for process in Path("/proc").glob("[0-9]*"):
        try:
            pid = int(process.name)
            if pid in forked - running.keys() or (pid not in (os.getpid(), *ours) and marks & _states(pid)):
                command = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                found += [command] if command else []  # else it has ended
        except (OSError, ValueError):
            continue  # it has ended, or is somebody else's
    return found


def _states(pid: int) -> set[bytes]:
    """What the environment with which a process has started says of TUNER_STATE; nothing where it cannot be read, as
    that of the parent in a container."""
    try:
        variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return set()
    return {variable for variable in variables if variable.startswith(b"TUNER_STATE=")}


@contextlib.contextmanager
def unprivileged() -> Iterator[None]:
    """The permissions of files hold for this thread meanwhile, as they do for everybody but root. It stays the same
    user, and so reaches its own files wherever they lie."""
    libc = ctypes.CDLL(None, use_errno=True)
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)  # version 3; this thread
    capabilities = (ctypes.c_uint32 * 6)()
    libc.capget(header, capabilities)
    before = capabilities[0]
    capabilities[0] &= ~0b110  # effective: CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
    assert libc.capset(header, capabilities) == 0, os.strerror(ctypes.get_errno())
    try:
        yield
    finally:
        capabilities[0] = before
        libc.capset(header, capabilities)


@contextlib.contextmanager
def nobody() -> Iterator[Path]:
    """A new folder, and no privileges meanwhile."""
    folder = Path(tempfile.mkdtemp(dir="/tmp"))
    try:
        with unprivileged():
            yield folder
    finally:
        shutil.rmtree(folder, onerror=lambda remove, name, _: (os.chmod(Path(name).parent, 0o755), remove(name)))
