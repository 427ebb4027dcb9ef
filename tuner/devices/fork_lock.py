"""A lock that a forked process finds free: the thread that held it in the parent is not there to let it go."""

from __future__ import annotations

import os
import threading
import weakref


class ForkLock:
    """A lock that its thread may take again, for what threads share and a fork goes on with."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        _all.add(self)

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def renew(self) -> None:
        """Be free, unless this thread holds it."""
        if self._lock.acquire(blocking=False):
            self._lock.release()
        else:
            self._lock = threading.RLock()


_all: weakref.WeakSet[ForkLock] = weakref.WeakSet()


def _begin_anew() -> None:
    for lock in _all:
        lock.renew()


os.register_at_fork(after_in_child=_begin_anew)
