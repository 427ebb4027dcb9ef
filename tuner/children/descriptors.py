"""File descriptors that kernels are not to reach, and whether they are still what they were."""

from __future__ import annotations

import fcntl
import os
import resource
from collections.abc import Sequence

HIGHEST, MARGIN = 4096, 16  # a descriptor out of reach is below HIGHEST, and MARGIN below the limit


def identities(descriptors: Sequence[int]) -> list[tuple[int, int] | None]:
    """The device and inode behind each descriptor; None for a closed one."""
    files: list[tuple[int, int] | None] = []
    for descriptor in descriptors:
        try:
            status = os.fstat(descriptor)
            files.append((status.st_dev, status.st_ino))
        except OSError:
            files.append(None)
    return files


def out_of_reach(descriptor: int) -> int:
    """Move a descriptor to a high number that no child inherits. Closes the given one and returns the new one."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = HIGHEST if soft == resource.RLIM_INFINITY else min(HIGHEST, soft)
    high = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, max(0, most - MARGIN))
    os.close(descriptor)
    return high
