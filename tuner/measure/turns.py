"""Turns: several runs share a device; while one of them measures, the others prepare.

The lock of a file is the turn. Who ends, however that comes, gives it back.
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
from tuner.errors import RequestError

logger = logging.getLogger(__name__)

VARIABLE = "TUNER_TURNS"  # names the file; empty: no turns
PATIENCE_SECONDS = 150.0  # of one turn: longer than a configuration that hangs; a run that is stopped keeps its turn
SILENT_SECONDS = 3.0  # of waiting, before the user hears of it
POLL_SECONDS = 0.001
NAME = 16  # bytes that tell a turn from others
_is_mine = ContextVar("whether this thread has its turn", default=False)
_outlasted = set[bytes]()  # the turns that PATIENCE_SECONDS did not see the end of


@contextlib.contextmanager
def taken(place: str, is_over: Callable[[], bool] = lambda: False) -> Iterator[None]:
    """A block that no other process is in for the same device, which `place` names on this machine. It begins
    nevertheless when one turn has lasted PATIENCE_SECONDS, or when `is_over` says so. Where there is no place, and
    TUNER_TURNS names no file, or none that can be locked, there is nobody to wait for. A block within another one is
    part of its turn."""
    with contextlib.ExitStack() as stack:
        if not _is_mine.get():
            with contextlib.suppress(OSError, RequestError):
                file = _file(place)
                lock = stack.enter_context(open(file, "r+b", buffering=0, opener=_created))
                _wait(lock.fileno(), file, is_over)
            stack.enter_context(held())
        yield


@contextlib.contextmanager
def held() -> Iterator[None]:
    """A block within a turn that this thread has, or another process for it."""
    before = _is_mine.set(True)
    try:
        yield
    finally:
        _is_mine.reset(before)


def _file(place: str) -> Path | str:
    """The file of a device. Machines may share the folder of the cache."""
    chosen = os.environ.get(VARIABLE)
    if chosen is not None or not place:
        return chosen or ""
    folder = paths.cache() / "turns"
    folder.mkdir(exist_ok=True)
    return folder / paths.digest(platform.node(), place)


def _created(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CREAT, 0o666)


def _wait(lock: int, file: Path | str, is_over: Callable[[], bool]) -> None:
    """Lock the file, which names each turn; or wait for PATIENCE_SECONDS of the same one."""
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
            logger.warning(f"another run has its turn on this device (the lock of {file}); with {VARIABLE}= none waits")
        time.sleep(POLL_SECONDS)
    os.pwrite(lock, os.urandom(NAME), 0)


def _locked(descriptor: int) -> bool:
    """Whether the file is now locked by this process. Raises OSError where it cannot be locked at all."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
