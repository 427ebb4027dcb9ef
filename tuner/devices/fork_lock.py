"""A lock that is free in a forked child, even if another thread of the parent held it during the fork.

Only the forking thread exists in the child, so no other thread could release the lock there.
"""

from __future__ import annotations

import os
import threading
import weakref


class ForkLock:
    """A reentrant lock that survives a fork."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        _locks.add(self)

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def renew(self) -> None:
        """Replace the lock if another thread holds it."""
        if self._lock.acquire(blocking=False):
            self._lock.release()
        else:
            self._lock = threading.RLock()


_locks: weakref.WeakSet[ForkLock] = weakref.WeakSet()


def _renew_all() -> None:
    for lock in _locks:
        lock.renew()


os.register_at_fork(after_in_child=_renew_all)
