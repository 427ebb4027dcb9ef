"""Memory of this process in mappings of its own, in huge pages where the system has them.

Where small pages lie in the machine's memory differs from process to process, and so do the cache sets that they share.
Huge pages leave much less to chance.
"""

from __future__ import annotations

import contextlib
import mmap
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from tuner.devices.base import Array

HUGE = 2 << 20  # bytes of a huge page


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
