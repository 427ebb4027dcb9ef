"""Copies of arrays. Threads copy a large one: one thread alone waits while the system hands out the new memory page by
page."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]
LARGE = 1 << 26  # bytes from which on threads copy
PART = 1 << 24  # bytes that a thread copies at a time


def copied(array: Array) -> Array:
    """A copy of an array in C order."""
    if array.nbytes < LARGE or not array.flags.c_contiguous:
        return np.array(array, order="C")
    from concurrent.futures import ThreadPoolExecutor  # a launch copies nothing

    copy = np.empty(array.shape, array.dtype)
    source, target, step = array.reshape(-1), copy.reshape(-1), max(1, PART // array.itemsize)

    def part(start: int) -> None:
        target[start : start + step] = source[start : start + step]

    with ThreadPoolExecutor() as threads:
        for _ in threads.map(part, range(0, len(source), step)):
            pass
    return copy
