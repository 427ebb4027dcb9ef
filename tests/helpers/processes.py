"""Commands in processes of their own, and what they leave."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Done:
    """What a command did."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Tune = Callable[..., Done]


def start(*arguments: str, limit: int | None = None) -> subprocess.Popen[str]:
    """The `tune` command in a process of its own, as a shell starts it; `limit` is the largest file in bytes that it
    may write: beyond, writing fails as on a full disk."""
    command = [sys.executable, "-m", "tuner", *arguments]
    if limit is not None:
        command = ["prlimit", f"--fsize={limit}", *command]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ.copy())


def run(*command: str | Path, text: str | None = None) -> subprocess.CompletedProcess[str]:
    """A command that must succeed."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, input=text)
    assert done.returncode == 0, done.stderr
    return done


def workers(pid: int) -> list[int]:
    """The process that holds the device of the `tune` command with this process id, if it has started."""
    found = []
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        with contextlib.suppress(OSError):
            if b"tuner.measure.process.worker" in Path(f"/proc/{child}/cmdline").read_bytes():
                found.append(int(child))
    return found


def of_this_test() -> list[str]:
    """Command lines of the processes that this test's commands have started, and that still run."""
    mark = f"TUNER_STATE={os.environ['TUNER_STATE']}".encode()
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if int(process.name) != os.getpid() and mark in (process / "environ").read_bytes().split(b"\0"):
                found.append((process / "cmdline").read_bytes().replace(b"\0", b" ").decode())
        except (OSError, ValueError):
            continue  # it has ended, or is somebody else's
    return found


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
