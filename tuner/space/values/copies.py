"""Copies and checksums of arrays, by threads if an array is large.

One thread alone waits while the system hands out new memory page by page, and takes a second for the checksum of a
gigabyte.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]
T = TypeVar("T")
LARGE = 1 << 26  # bytes from which on there are threads
PART = 1 << 24  # bytes that a thread takes at a time


def copied(array: Array) -> Array:
    """A copy of an array in C order."""
    if array.nbytes < LARGE or not array.flags.c_contiguous:
        return np.array(array, order="C")
    copy = np.empty(array.shape, array.dtype)
    source, target, step = array.reshape(-1), copy.reshape(-1), max(1, PART // array.itemsize)

    def copy_part(start: int) -> None:
        target[start : start + step] = source[start : start + step]

    _in_threads(copy_part, range(0, len(source), step))
    return copy


def checksum(array: Array) -> int:
    """A checksum of the bytes of an array, whatever its shape."""
    data = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    parts = range(0, max(1, len(data)), PART)

    def of_part(start: int) -> int:
        return zlib.crc32(data[start : start + PART].data)

    sums = _in_threads(of_part, parts) if array.nbytes >= LARGE else [*map(of_part, parts)]
    return zlib.crc32(np.array(sums, np.uint32).tobytes())


def _in_threads(of: Callable[[int], T], starts: range) -> list[T]:
    from concurrent.futures import ThreadPoolExecutor  # a launch copies nothing

    with ThreadPoolExecutor() as threads:
        return [*threads.map(of, starts)]
