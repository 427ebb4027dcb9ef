"""Forked processes: what they may use, and how kernels run in them.

A fork may use locks, and the kinds of device that the process from which it was forked has not used. Only the forking
thread exists in it, so no other thread could release a lock there. Nor do the threads of OpenCL and OpenMP exist, so a
kernel would wait for them forever. A connection to a GPU does not survive a fork either.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from tuner.errors import DeviceError

T = TypeVar("T")
_live: dict[str, list[bool]] = {}
_used = set[str]()


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


def live(kind: str) -> list[bool]:
    """A list that is empty if this process may not use devices of this kind. To look at it costs a launch nothing."""
    return _live.setdefault(kind, [True])


def use(kind: str) -> None:
    """Note that this process uses devices of this kind, so that no process forked from it may. Raises DeviceError if it
    may not itself."""
    check(kind)
    _used.add(kind)


def check(kind: str) -> None:
    """Raise DeviceError if this process may not use devices of this kind."""
    if not live(kind):
        raise forked(kind)


def adopt(kind: str) -> None:
    """Let this process use devices of this kind, although the process from which it was forked has."""
    live(kind)[:] = [True]


def forked(kind: str) -> DeviceError:
    """The error for a process that may not use devices of this kind."""
    return DeviceError(
        f"{kind}: this process was forked from one that has used {kind}, which would hang here; start it with "
        'multiprocessing.get_context("spawn"), or load kernels in forked processes only, not in their parent'
    )


def _forget() -> None:
    for kind in _used:
        _live[kind].clear()


os.register_at_fork(after_in_child=_forget)


class Kept(Protocol):
    """An object that may be in another process."""

    def ask(self, method: str, *arguments: Any) -> Any:
        """The result of a method of the object. Raises what the method raises."""
        ...

    def close(self) -> None:
        """Let the object go."""
        ...


class Isolation(Protocol):
    """Runs work that launches kernels or calls other foreign code."""

    def run(self, work: Callable[[], T]) -> T:
        """The result of `work`. Raises what `work` raises."""
        ...

    def keep(self, make: Callable[[], object]) -> Kept:
        """The object that `make` returns. Raises what `make` raises."""
        ...

    def outside(self, look: Callable[..., T]) -> Callable[..., T | None]:
        """A function that calls the method `look` in a process without foreign code, while the calling one is stopped.

        `look` gets the id of the calling process, then the arguments, which JSON can hold. The result is None where no
        other process runs the foreign code.
        """
        ...


class NoIsolation:
    """Runs everything in this process."""

    def run(self, work: Callable[[], T]) -> T:
        """The result of `work`."""
        return work()

    def keep(self, make: Callable[[], object]) -> Kept:
        """The object that `make` returns, in this process."""
        return _Here(make())

    def outside(self, look: Callable[..., T]) -> Callable[..., T | None]:
        """A function that does nothing."""
        return lambda *_: None


class _Here:
    def __init__(self, held: object) -> None:
        self._held = held

    def ask(self, method: str, *arguments: Any) -> Any:
        return getattr(self._held, method)(*arguments)

    def close(self) -> None:
        self._held = None
