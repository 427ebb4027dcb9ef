"""One writer of a file at a time, also on a network's file system that has no locks."""

from __future__ import annotations

import contextlib
import errno
import fcntl
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from tuner import paths
from tuner.errors import RequestError

if TYPE_CHECKING:
    from filelock import BaseFileLock

PATIENCE_SECONDS = 60.0
_NO_LOCKS = (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP)


def of(path: Path) -> BaseFileLock:
    """The lock of `path`, a file beside it, not acquired yet.

    It is the kernel's lock, which ends with its process; where the file system has none, the existence of the file is
    the lock. Raises OSError where there can be no such file.
    """
    from filelock import FileLock, SoftFileLock

    if _has_flock(path.with_suffix(".lock")):
        return FileLock(path.with_suffix(".lock"))
    return SoftFileLock(path.with_suffix(".softlock"))  # not the same file: that is there when nobody holds it


@contextlib.contextmanager
def held(path: Path) -> Iterator[None]:
    """Hold the lock of `path`. Raises RequestError where another process keeps it for PATIENCE_SECONDS, OSError where
    there can be none."""
    from filelock import Timeout

    lock = of(path)
    try:
        lock.acquire(timeout=PATIENCE_SECONDS)
    except Timeout:
        raise RequestError(
            f"{paths.shown(path)}: has been locked by another process for {PATIENCE_SECONDS:.0f} s; wait for it, or "
            f"delete {paths.shown(lock.lock_file)} where it is gone"
        ) from None
    try:
        yield
    finally:
        lock.release()


def _has_flock(path: Path) -> bool:
    with path.open("ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except OSError as error:
            if error.errno in _NO_LOCKS:
                return False
            raise
    return True
