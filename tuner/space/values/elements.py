"""The contents of one array of a problem, on the host or a device. The host can compute any range of its elements."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import Any

import numpy as np

from tuner.space import dtypes
from tuner.space.dtypes import DType
from tuner.space.values import threads

Array = np.ndarray[Any, np.dtype[Any]]
ON_DEVICE_BYTES = 1 << 24  # arrays of at least this many bytes are drawn on the device, never whole on the host
BLOCK = 1 << 20  # elements of a large array that are on the host at a time


class Elements(ABC):
    """The elements of an array with this shape and NumPy dtype."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    in_threads = False  # whether several threads may compute parts at once

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize

    @property
    def element(self) -> DType:
        """The DType of one element."""
        return dtypes.of(self.dtype)

    @abstractmethod
    def part(self, start: int, stop: int) -> Array:
        """The elements with numbers `start` to `stop` - 1, in row-major order."""

    @abstractmethod
    def at(self, index: Array) -> Array:
        """The elements with the numbers `index`; for a few scattered elements."""

    @property
    def largest(self) -> float:
        """The largest finite magnitude; 0 if no element is finite."""
        largest = 0.0
        for start, part in self.parts():
            del start
            largest = max(largest, float(np.max(np.abs(part), initial=0.0, where=np.isfinite(part))))
        return largest

    def parts(self, count: int = BLOCK) -> Iterator[tuple[int, Array]]:
        """All elements in blocks of `count`, each with the number of its first element."""
        for start in range(0, self.size, count):
            yield start, self.part(start, min(start + count, self.size))

    def array(self, dtype: np.dtype[Any] | None = None) -> Array:
        """All elements on the host, converted to `dtype` if given."""
        whole = np.empty(self.size, dtype or self.dtype)

        def fill(start: int) -> None:
            whole[start : start + BLOCK] = self.part(start, min(start + BLOCK, self.size))

        starts = range(0, self.size, BLOCK)
        if self.in_threads and self.nbytes >= threads.LARGE:
            threads.mapped(fill, starts)
        else:
            for start in starts:
                fill(start)
        return whole.reshape(self.shape)


class Held(Elements):
    """The elements of an array in host memory."""

    in_threads = True

    def __init__(self, array: Array) -> None:
        self._flat, self.shape, self.dtype = np.ascontiguousarray(array).reshape(-1), array.shape, array.dtype

    def part(self, start: int, stop: int) -> Array:
        return self._flat[start:stop]

    def at(self, index: Array) -> Array:
        return self._flat[index]

    def array(self, dtype: np.dtype[Any] | None = None) -> Array:
        """The array itself, or a copy converted to `dtype`."""
        return self._flat.reshape(self.shape).astype(dtype or self.dtype, copy=False)


class Fetched(Elements):
    """The elements of an array that `fetch` copies to the host when one is first read."""

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype[Any], fetch: Callable[[], Array]) -> None:
        self.shape, self.dtype, self._fetch = shape, dtype, fetch

    @cached_property
    def _held(self) -> Held:
        return Held(self._fetch())

    def part(self, start: int, stop: int) -> Array:
        return self._held.part(start, stop)

    def at(self, index: Array) -> Array:
        return self._held.at(index)

    def array(self, dtype: np.dtype[Any] | None = None) -> Array:
        return self._held.array(dtype)


def held(arrays: Mapping[str, Array]) -> dict[str, Elements]:
    """Each array as Elements."""
    return {name: Held(array) for name, array in arrays.items()}
