"""Memory of this process in mappings of its own, in huge pages where the system has them.

Where small pages lie in the machine's memory differs from process to process, and so do the cache sets that they share.
Huge pages leave much less to chance.
"""

from __future__ import annotations

import contextlib
import mmap
import random
from typing import TYPE_CHECKING

import numpy as np

from tuner.devices import environment

if TYPE_CHECKING:
    from tuner.devices.base import Array

HUGE = 2 << 20  # bytes of a huge page
MOST_SKIPPED, SHARE = 64, 1 / 32  # huge pages that a process skips, and of the memory that is available
_CHANCE = random.SystemRandom()
_skipped: list[Array] = []


def mapped(size: int, huge: bool) -> Array:
    """`size` bytes in a mapping of their own, in huge pages if asked for. Raises OSError if they do not fit.

    A forked process that is the first to write them has pages of its own.
    """
    mapping = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if huge and hasattr(mmap, "MADV_HUGEPAGE"):
        with contextlib.suppress(OSError):  # the system has no huge pages
            mapping.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(mapping, np.uint8)


def aligned(size: int) -> Array:
    """`size` bytes that begin with a huge page and lie in huge pages. Raises OSError if they do not fit."""
    memory = mapped(-(-size // HUGE) * HUGE + HUGE, huge=True)
    skip = -memory.ctypes.data % HUGE
    return memory[skip : skip + size]


def skip() -> None:
    """Take a random number of huge pages and keep them as long as this process lives, so that its arrays lie in others.

    The system gives a new process the very pages that the last one has freed. So the arrays of several processes in a
    row, of which one has slow pages, would all have slow ones.
    """
    most = min(MOST_SKIPPED, int(SHARE * environment.available_memory()) // HUGE)
    if count := _CHANCE.randint(0, max(0, most)):
        with contextlib.suppress(OSError):
            memory = aligned(count * HUGE)
            memory[::HUGE] = 1
            _skipped.append(memory)
