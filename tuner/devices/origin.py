"""Which kinds of device this process may use: none that the process from which it was forked has used.

The threads of OpenCL and OpenMP do not exist in a forked process, so a kernel would wait for them forever. A connection
to a GPU does not survive a fork either.
"""

from __future__ import annotations

import os

from tuner.errors import DeviceError

_live: dict[str, list[bool]] = {}
_used = set[str]()


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
