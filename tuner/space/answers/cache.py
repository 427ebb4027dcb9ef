"""A cache of answers and of the matrix products in references: a run computes each only once, in any of its workers.

Matrix products dominate the time of a reference: 8192 x 8192 in float64 takes seconds on many cores. All else is one
pass over the arrays.
"""

from __future__ import annotations

import contextlib
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]


class ReferenceCache:
    """Matrix products by input set and name, in an unnamed file that parent and children share.

    The operating system removes the file when the last of these processes ends.
    """

    def __init__(self, file: BinaryIO | None = None, more_may_come: Callable[[], bool] | None = None) -> None:
        """Read the products that `file` already holds.

        file: open for reading and writing. If None, the cache serves this process alone.
        more_may_come: waits a moment, and returns whether another process may still write products; None if no other
            process computes them.
        """
        self._file, self._more_may_come = file, more_may_come
        self._products: dict[tuple[int, str], Array] = {}
        self._seconds: defaultdict[int, float] = defaultdict(float)
        if file is not None:
            file.seek(0)
            self._read(file)

    def get(self, number: int, name: str, compute: Callable[[], Array]) -> Array:
        """The product called `name` of an input set; calls `compute()` if the cache lacks it."""
        key = number, name
        self._wait_for(key)
        if key not in self._products:
            began = time.perf_counter()
            product = compute()
            seconds = time.perf_counter() - began
            self._add(key, product, seconds)
            if self._file is not None:
                try:
                    self._append(self._file, key, seconds)
                except OSError:  # the disk is full: the next worker computes it again, and overwrites the fragment
                    self._file = None
        return self._products[key]

    @contextlib.contextmanager
    def timed(self, number: int) -> Iterator[None]:
        """Add the time spent in the context to `seconds` of an input set."""
        began = time.perf_counter()
        try:
            yield
        finally:
            self._seconds[number] += time.perf_counter() - began

    def seconds(self, number: int) -> float:
        """The seconds that computing the products of an input set took, in any process."""
        return self._seconds[number]

    def _wait_for(self, key: tuple[int, str]) -> None:
        """Wait for a product while another process may still write it."""
        while key not in self._products and self._file is not None and self._more_may_come is not None:
            if not self._more_may_come():
                self._more_may_come = None
            self._read(self._file)  # also a last time, after the other process has ended

    def _add(self, key: tuple[int, str], product: Array, seconds: float) -> None:
        self._products[key] = product
        self._seconds[key[0]] += seconds

    def _read(self, file: BinaryIO) -> None:
        """Read the products from the current position up to the first incomplete one.

        Another process is still writing that one, or was killed; in that case the next product overwrites it.
        """
        end = file.tell()
        with contextlib.suppress(EOFError, ValueError, OSError):
            while True:
                end = file.tell()
                number, seconds, name = int(np.load(file)), float(np.load(file)), str(np.load(file))
                self._add((number, name), np.load(file), seconds)
        file.seek(end)

    def _append(self, file: BinaryIO, key: tuple[int, str], seconds: float) -> None:
        number, name = key
        for value in (number, seconds, name, self._products[key]):
            np.save(file, np.asarray(value))
        file.flush()
