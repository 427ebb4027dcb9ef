"""The processors on which this process may run, also after OpenMP's runtime has bound a thread to one of them."""

import contextlib
import os
from collections.abc import Iterator

_before: dict[frozenset[int], frozenset[int]] = {}  # the processors of a thread before it was bound, by those after it


def allowed() -> frozenset[int]:
    """The numbers of the processors on which the calling thread may run, or might until a library bound it.

    Whatever counts processors, or starts threads and processes that share them, asks this. A program that, after a
    library has bound it, itself chooses the same processors, is not told apart: it counts as bound.
    """
    now = frozenset(os.sched_getaffinity(0))
    return _before.get(now, now)


@contextlib.contextmanager
def binding() -> Iterator[None]:
    """A block in which a library may bind the calling thread, as libgomp does to the first place when it is loaded."""
    before = allowed()
    try:
        yield
    finally:
        after = frozenset(os.sched_getaffinity(0))
        if after < before:
            _before[after] = before
