"""What one of several concurrent builders may use of this machine: CPU time and memory."""

from __future__ import annotations

import contextlib
import math
import os
from pathlib import Path

from tuner.children import processors
from tuner.classes import dataclass

MEMORY_SHARE = 0.75  # share of the memory for all builders together
LEAST_MEMORY = 1 << 30  # bytes for each builder


@dataclass(frozen=True)
class Allowance:
    """The limits of one compiler process: CPU time in seconds, and address space in bytes."""

    seconds: int
    memory: int

    @staticmethod
    def shared(seconds: float) -> Allowance:
        """The allowance of each of `most_builders()` builders, if a build may take `seconds` of wall time."""
        return Allowance(math.ceil(2 * seconds), int(MEMORY_SHARE * _memory()) // most_builders())


def most_builders() -> int:
    """The largest number of concurrent builders: one more than there are CPU cores, if memory suffices. Workers that
    hold devices count, since they build, too."""
    return max(1, min(len(processors.allowed()) + 1, int(MEMORY_SHARE * _memory()) // LEAST_MEMORY))


def _memory() -> int:
    """The memory that this process may use, in bytes: the machine's, or the limit of its container if that is lower."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    for file in ("memory.max", "memory/memory.limit_in_bytes"):  # of control groups, versions 2 and 1
        with contextlib.suppress(OSError, ValueError):  # no such file, or no limit
            memory = min(memory, int(Path("/sys/fs/cgroup", file).read_text(encoding="ascii")))
    return memory
