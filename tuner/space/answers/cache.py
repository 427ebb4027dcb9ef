"""Answers, and matrix products of expressions, computed once per run, even if its worker is replaced.

They dominate the time of a reference: 8192 x 8192 in float64 takes seconds on many cores. The rest is one pass over the
arrays.
"""

from __future__ import annotations

import contextlib
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]


class ReferenceCache:
    """Matrix products by set of inputs and name, in an unnamed file that parent and children share. The file goes with
    the last of them, however they end."""

    def __init__(self, file: BinaryIO | None = None, more_may_come: Callable[[], bool] | None = None) -> None:
        """`file` is open for reading and writing. Without it, the cache serves this process alone. Where another
        process computes the same, `more_may_come` waits a moment, and says whether that goes on."""
        self._file, self._more_may_come = file, more_may_come
        self._products: dict[tuple[int, str], Array] = {}
        self._seconds: defaultdict[int, float] = defaultdict(float)
        if file is not None:
            file.seek(0)
            self._read(file)

    def of(self, number: int) -> SetCache:
        """The products of the set of inputs with this number."""
        return SetCache(self, number)

    def get(self, number: int, name: str, compute: Callable[[], Array]) -> Array:
        """The product called `name` of a set; `compute()` is called if the cache lacks it."""
        key = number, name
        self._wait_for(key)
        if key not in self._products:
            began = time.perf_counter()
            product = compute()
            seconds = time.perf_counter() - began
            self._keep(key, product, seconds)
            if self._file is not None:
                try:
                    self._append(self._file, key, seconds)
                except OSError:  # the disk is full: the next worker computes again; a torn product stays the last one
                    self._file = None
        return self._products[key]

    @contextlib.contextmanager
    def timed(self, number: int) -> Iterator[None]:
        """What is done meanwhile counts among what the products of a set take."""
        began = time.perf_counter()
        try:
            yield
        finally:
            self._seconds[number] += time.perf_counter() - began

    def seconds(self, number: int) -> float:
        """The time that it took to compute the products of a set, in whichever process."""
        return self._seconds[number]

    def _wait_for(self, key: tuple[int, str]) -> None:
        """Wait for a product while another process may yet write it."""
        while key not in self._products and self._file is not None and self._more_may_come is not None:
            if not self._more_may_come():
                self._more_may_come = None
            self._read(self._file)  # once more, too, when no more comes

    def _keep(self, key: tuple[int, str], product: Array, seconds: float) -> None:
        self._products[key] = product
        self._seconds[key[0]] += seconds

    def _read(self, file: BinaryIO) -> None:
        """Read the products that follow, up to one that is not whole: it is being written, or a kill cut it short, and
        then the next product overwrites it."""
        end = file.tell()
        with contextlib.suppress(EOFError, ValueError, OSError):
            while True:
                end = file.tell()
                number, seconds, name = int(np.load(file)), float(np.load(file)), str(np.load(file))
                self._keep((number, name), np.load(file), seconds)
        file.seek(end)

    def _append(self, file: BinaryIO, key: tuple[int, str], seconds: float) -> None:
        number, name = key
        for value in (number, seconds, name, self._products[key]):
            np.save(file, np.asarray(value))
        file.flush()


@dataclass(frozen=True)
class SetCache:
    """The products of one set of inputs."""

    cache: ReferenceCache
    number: int

    def get(self, name: str, compute: Callable[[], Array]) -> Array:
        """The product called `name`; `compute()` is called if the cache lacks it."""
        return self.cache.get(self.number, name, compute)
