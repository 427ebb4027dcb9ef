"""Turns: several runs share a device; while one of them measures, the others prepare."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator

VARIABLE = "TUNER_TURNS"  # names the file of a device, whose lock is the turn
PATIENCE_SECONDS = 20.0  # a configuration that hangs keeps its turn for long, and is not to fail those that wait
POLL_SECONDS = 0.001


@contextlib.contextmanager
def taken() -> Iterator[None]:
    """A block that no other process with the same file is in; after PATIENCE_SECONDS, it begins nevertheless. Where the
    variable names no file that can be locked, there is nobody to wait for."""
    with contextlib.ExitStack() as held:
        with contextlib.suppress(OSError):
            file = held.enter_context(open(os.environ.get(VARIABLE, ""), "ab"))
            deadline = time.monotonic() + PATIENCE_SECONDS
            while not _locked(file.fileno()) and time.monotonic() < deadline:
                time.sleep(POLL_SECONDS)
        yield


def _locked(descriptor: int) -> bool:
    """Whether the file is now locked by this process. Raises OSError where it cannot be locked at all."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
