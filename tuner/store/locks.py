"""Lock a file for one writer, also on network file systems without flock."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from tuner import paths
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
    Raises OSError if the file cannot be created, and RequestError if it is a link, or another user's file forbids to
    lock it.
    """
    from filelock import FileLock, SoftFileLock

    file = path.with_suffix(".lock")
    try:
        mode = _mode(file)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise RequestError(f"{shown(file)}: is a link; locks are files; delete it") from None
        if not isinstance(error, PermissionError) or not file.exists():
            raise
        raise RequestError(
            f"{shown(file)}: belongs to another user, and this one may not write to it; have its owner run "
            f"`chmod a+rw {shown(file)}`, or delete it while nobody writes to this folder"
        ) from None
    if mode is None:
        return SoftFileLock(path.with_suffix(".softlock"))  # a different name, because FileLock leaves its file behind
    return FileLock(file, mode=mode)


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


@contextlib.contextmanager
def updating(path: Path) -> Iterator[None]:
    """The context in which a file of a store is read and replaced. Its folder is made, and its lock is held.

    Raises RequestError if the file cannot be written, and as `held` does.
    """
    with paths.writing(path):
        paths.make(path.parent, shared=True)
        with held(path):
            _remove_leftovers(path)
            yield


def _remove_leftovers(path: Path) -> None:
    """Remove temporary files that killed writers of `path` left behind."""
    for file in path.parent.iterdir():
        if file.name.rpartition(".")[0] == f".{path.name}":
            file.unlink(missing_ok=True)


def _mode(file: Path) -> int | None:
    """Create a lock file if it is missing, let those write to it who may write to its folder, and return its mode; None
    on a file system without flock. A link is not followed: whoever can make one could open any file to others."""
    descriptor = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
    try:
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        mode = 0o600 | file.parent.stat().st_mode & 0o066
        with contextlib.suppress(OSError):  # of another user, who has let this one write to it
            os.fchmod(descriptor, mode)
        return mode
    except OSError as error:
        if error.errno in _NO_LOCKS:
            return None
        raise
    finally:
        os.close(descriptor)
