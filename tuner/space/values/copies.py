"""Copies and checksums of arrays, by threads if an array is large.

One thread alone waits while the system hands out new memory page by page, and takes a second for the checksum of a
gigabyte.
"""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np

from tuner.space.values import threads

Array = np.ndarray[Any, np.dtype[Any]]
PART = 1 << 24  # bytes that a thread takes at a time


def copied(array: Array) -> Array:
    """A copy of an array in C order."""
    if array.nbytes < threads.LARGE or not array.flags.c_contiguous:
        return np.array(array, order="C")
    copy = np.empty(array.shape, array.dtype)
    source, target, step = array.reshape(-1), copy.reshape(-1), max(1, PART // array.itemsize)

    def copy_part(start: int) -> None:
        target[start : start + step] = source[start : start + step]

    threads.mapped(copy_part, range(0, len(source), step))
    return copy


def checksum(array: Array) -> int:
    """A checksum of the bytes of an array, whatever its shape."""
    data = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    parts = range(0, max(1, len(data)), PART)

    def of_part(start: int) -> int:
        return zlib.crc32(data[start : start + PART].data)

    sums = threads.mapped(of_part, parts) if array.nbytes >= threads.LARGE else [*map(of_part, parts)]
    return zlib.crc32(np.array(sums, np.uint32).tobytes())
