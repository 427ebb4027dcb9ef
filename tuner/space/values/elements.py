"""What an array of a problem holds, wherever that lies: any part of it can be had on the host."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from tuner.space import dtypes
from tuner.space.dtypes import DType

Array = np.ndarray[Any, np.dtype[Any]]
ON_DEVICE_BYTES = 1 << 24  # bytes from which on an array is drawn where it lies, and never held on the host as a whole
BLOCK = 1 << 20  # elements that are held at a time


class Elements(ABC):
    """The elements of an array of this `shape` and NumPy `dtype`."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize

    @property
    def element(self) -> DType:
        """The row of their type in the table."""
        return dtypes.of(self.dtype)

    @abstractmethod
    def part(self, start: int, stop: int) -> Array:
        """The elements from number `start` to before `stop`, in row-major order."""

    @abstractmethod
    def at(self, index: Array) -> Array:
        """The elements with these numbers, of which there are few."""

    @property
    def largest(self) -> float:
        """The largest finite magnitude; 0 where nothing is finite."""
        found = 0.0
        for start, part in self.parts():
            del start
            found = max(found, float(np.max(np.abs(part), initial=0.0, where=np.isfinite(part))))
        return found

    def parts(self, count: int = BLOCK) -> Iterator[tuple[int, Array]]:
        """All elements, `count` at a time, each part with the number of its first one."""
        for start in range(0, self.size, count):
            yield start, self.part(start, min(start + count, self.size))

    def array(self, dtype: np.dtype[Any] | None = None) -> Array:
        """All elements on the host, as `dtype` if that is given."""
        whole = np.empty(self.size, dtype or self.dtype)
        for start, part in self.parts():
            whole[start : start + part.size] = part
        return whole.reshape(self.shape)


class Held(Elements):
    """Elements of an array in the host's memory."""

    def __init__(self, array: Array) -> None:
        self._flat, self.shape, self.dtype = np.ascontiguousarray(array).reshape(-1), array.shape, array.dtype

    def part(self, start: int, stop: int) -> Array:
        return self._flat[start:stop]

    def at(self, index: Array) -> Array:
        return self._flat[index]

    def array(self, dtype: np.dtype[Any] | None = None) -> Array:
        """The array itself, or a copy of another type."""
        return self._flat.reshape(self.shape).astype(dtype or self.dtype, copy=False)


def held(arrays: Mapping[str, Array]) -> dict[str, Elements]:
    """These arrays as elements."""
    return {name: Held(array) for name, array in arrays.items()}
