"""Turns: runs that share a device measure one at a time, while the others build and prepare.

A turn is the lock of a file, so the system releases it however the process ends.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import math
import os
import platform
import time
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from pathlib import Path

from tuner import paths
from tuner.classes import setting
from tuner.errors import RequestError

logger = logging.getLogger(__name__)

VARIABLE = "TUNER_TURNS"  # the path of the lock file; empty: no turns
# The longest wait for one turn: longer than a configuration that hangs may take. It is limited because a suspended run
# keeps its lock.
PATIENCE_SECONDS = 150.0
SILENT_SECONDS = 3.0  # of waiting, before the user is told
POLL_SECONDS = 0.001
NAME = 16  # bytes of a turn's random name
_is_mine = ContextVar("whether this thread has its turn", default=False)
_outlasted = set[bytes]()  # turns that lasted longer than PATIENCE_SECONDS


@contextlib.contextmanager
def taken(place: str, is_over: Callable[[], bool] = lambda: False) -> Iterator[None]:
    """A block that only one process at a time executes for the device `place` of this machine.

    The block starts anyway once another turn has lasted PATIENCE_SECONDS, or when `is_over` returns true. It starts at
    once if `place` is empty and TUNER_TURNS names no file, or if the file cannot be locked. A nested block belongs to
    the outer turn.
    """
    with contextlib.ExitStack() as stack:
        if not _is_mine.get():
            with contextlib.suppress(OSError, RequestError):
                file = _file(place)
                lock = stack.enter_context(open(file, "r+b", buffering=0, opener=_created))
                _wait(lock.fileno(), file, is_over)
            stack.enter_context(held())
        yield


def are_free(place: str) -> bool:
    """Whether no process has its turn on the device `place` at this moment. True if there are no turns."""
    try:
        with open(_file(place), "r+b", buffering=0, opener=_created) as lock:
            return _locked(lock.fileno())
    except (OSError, RequestError):
        return True


def machine() -> str:
    """What tells this machine from others: its name, when it was started, and the folder of the cache, which containers
    have for themselves. Runs of two machines do not wait for each other."""
    started = ""
    with contextlib.suppress(OSError):
        started = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    return f"{platform.node()} {started} {paths.cache().resolve()}"


def held() -> contextlib.AbstractContextManager[None]:
    """A block within a turn that this thread, or another process on its behalf, already holds."""
    return setting(_is_mine, True)


def _file(place: str) -> Path | str:
    """The lock file of a device. Its name includes the host, because machines may share the cache folder."""
    chosen = os.environ.get(VARIABLE)
    if chosen is not None or not place:
        return chosen or ""
    paths.make(folder := paths.cache() / "turns")
    return folder / paths.digest(platform.node(), place)


def _created(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CREAT, 0o666)


def _wait(lock: int, file: Path | str, is_over: Callable[[], bool]) -> None:
    """Lock the file and write the new turn's name into it, or stop waiting after PATIENCE_SECONDS of the same turn."""
    turn, deadline, silent = b"", 0.0, time.monotonic() + SILENT_SECONDS
    while not _locked(lock):
        if (latest := os.pread(lock, NAME, 0)) != turn or not deadline:
            turn, deadline = latest, time.monotonic() + PATIENCE_SECONDS
        if turn in _outlasted or is_over():
            return
        if (now := time.monotonic()) > deadline:
            _outlasted.add(turn)
            return
        if now > silent:
            silent = math.inf
            logger.warning(
                f"waiting for another run on this device (lock file {file}); set {VARIABLE}= to run without waiting"
            )
        time.sleep(POLL_SECONDS)
    os.pwrite(lock, os.urandom(NAME), 0)


def _locked(descriptor: int) -> bool:
    """Try to lock the file; returns whether that succeeded. Raises OSError if the file does not support locks."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
