"""Turns: several runs share a device; while one of them measures, the others prepare."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from contextvars import ContextVar

VARIABLE = "TUNER_TURNS"  # names the file of a device, whose lock is the turn
PATIENCE_SECONDS = 20.0  # of one turn: a configuration that hangs keeps its own for long, and is not to fail others
POLL_SECONDS = 0.001
NAME = 16  # bytes that tell a turn from others
_is_mine = ContextVar("whether this thread has its turn", default=False)


@contextlib.contextmanager
def taken() -> Iterator[None]:
    """A block that no other process with the same file is in; when one turn has lasted PATIENCE_SECONDS, it begins
    nevertheless. Where the variable names no file that can be locked, there is nobody to wait for. A block within
    another one is part of its turn."""
    if _is_mine.get():
        yield
        return
    with contextlib.ExitStack() as held:
        with contextlib.suppress(OSError):
            file = held.enter_context(open(os.environ.get(VARIABLE, ""), "r+b", buffering=0, opener=_created))
            _wait(file.fileno())
        held.callback(_is_mine.reset, _is_mine.set(True))
        yield


def _created(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CREAT, 0o666)


def _wait(file: int) -> None:
    """Lock the file, which names each turn; or wait for PATIENCE_SECONDS of the same one."""
    turn, deadline = b"", 0.0
    while not _locked(file):
        if (latest := os.pread(file, NAME, 0)) != turn or not deadline:
            turn, deadline = latest, time.monotonic() + PATIENCE_SECONDS
        if time.monotonic() > deadline:
            return
        time.sleep(POLL_SECONDS)
    os.pwrite(file, os.urandom(NAME), 0)


def _locked(descriptor: int) -> bool:
    """Whether the file is now locked by this process. Raises OSError where it cannot be locked at all."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
