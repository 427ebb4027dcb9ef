"""Lock a file for one writer, also on network file systems without flock."""

from __future__ import annotations

import contextlib
import errno
import fcntl
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from tuner.errors import RequestError
from tuner.quoting import shown

if TYPE_CHECKING:
    from filelock import BaseFileLock

PATIENCE_SECONDS = 60.0
_NO_LOCKS = (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP)


def of(path: Path) -> BaseFileLock:
    """The lock of `path`, not acquired yet. It is a file beside `path`.

    The operating system releases its lock on that file when the process ends. On a file system without flock, the
    file's existence is the lock. Whoever may write to the folder may write to the file, so users can share a store.
    Raises OSError if the file cannot be created, and RequestError if another user's file forbids to lock it.
    """
    from filelock import FileLock, SoftFileLock

    file = path.with_suffix(".lock")
    try:
        has_flock = _has_flock(file)
    except PermissionError:
        if not file.exists():
            raise
        raise RequestError(
            f"{shown(file)}: belongs to another user, and this one may not write to it; have its owner run "
            f"`chmod a+rw {shown(file)}`, or delete it while nobody writes to this folder"
        ) from None
    if has_flock:
        mode = 0o600 | file.parent.stat().st_mode & 0o066
        with contextlib.suppress(OSError):  # of another user, who has let this one write to it
            file.chmod(mode)
        return FileLock(file, mode=mode)
    return SoftFileLock(path.with_suffix(".softlock"))  # a different name, because FileLock leaves its file behind


@contextlib.contextmanager
def held(path: Path) -> Iterator[None]:
    """Hold the lock of `path`.

    Raises RequestError if another process holds it for PATIENCE_SECONDS, and OSError if the lock cannot be created.
    """
    from filelock import Timeout

    lock = of(path)
    try:
        lock.acquire(timeout=PATIENCE_SECONDS)
    except Timeout:
        raise RequestError(
            f"{shown(path)}: has been locked by another process for {PATIENCE_SECONDS:.0f} s; wait for it, or "
            f"delete {shown(lock.lock_file)} if that process has ended"
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
