"""The memory that a judge shares with the process of a candidate: the arrays of one launch, each between two guards."""

from __future__ import annotations

import fcntl
import mmap
import os
import random
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tuner.classes import dataclass
from tuner.devices.base import Array
from tuner.measure.answers.poison import INPUT_GUARD, OUTPUT_GUARD

if TYPE_CHECKING:
    from collections.abc import Collection

GUARD = 1 << 16  # bytes before and after each array
SLACK = 64  # pages by which the place of an array may differ from one run to the next


@dataclass(frozen=True)
class ArrayPlace:
    """Where one array lies: its first byte in the memory, and its size in bytes."""

    offset: int
    nbytes: int


def size_of(arrays: Sequence[int]) -> int:
    """The bytes of memory for arrays of so many bytes each."""
    return sum(_rounded(nbytes) + 2 * GUARD + SLACK * mmap.PAGESIZE for nbytes in arrays)


def places(arrays: Mapping[str, int], chance: random.Random) -> dict[str, ArrayPlace]:
    """Places for arrays, in another order and at other addresses each time."""
    names, found, start = sorted(arrays), dict[str, ArrayPlace](), 0
    chance.shuffle(names)
    for name in names:
        offset = start + GUARD + chance.randrange(SLACK) * mmap.PAGESIZE
        found[name] = ArrayPlace(offset, arrays[name])
        start += size_of([arrays[name]])
    return found


class SharedMemory:
    """Memory of `size` bytes that several processes map."""

    def __init__(self, size: int, descriptor: int | None = None) -> None:
        """`descriptor` is that of another process's memory; without one, new memory is made. Raises OSError."""
        self.descriptor = -1
        if descriptor is None:
            descriptor = self.descriptor = os.memfd_create("tuner", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
            os.ftruncate(descriptor, size)
            # Nobody who has the descriptor can take the memory away from under the other.
            fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
        self._map = mmap.mmap(descriptor, size, flags=mmap.MAP_SHARED | getattr(mmap, "MAP_POPULATE", 0))
        self.bytes: Array = np.frombuffer(self._map, np.uint8)

    def array(self, place: ArrayPlace, dtype: np.dtype[Any] | None = None) -> Array:
        """The array at a place, as bytes or as elements of a type."""
        part = self.bytes[place.offset : place.offset + place.nbytes]
        return part if dtype is None else part.view(dtype)

    def guard(self, found: Mapping[str, ArrayPlace], outputs: Collection[str]) -> None:
        """Write the guards of all arrays."""
        for name, place in found.items():
            for part in self._guards(place):
                part[:] = _byte(name, outputs)

    def damage(self, found: Mapping[str, ArrayPlace], outputs: Collection[str]) -> str | None:
        """What was written outside of an array, in words; None if all guards are whole."""
        for name, place in found.items():
            for part, side in zip(self._guards(place), ("before the start", "after the end"), strict=True):
                if not (part == _byte(name, outputs)).all():
                    return f"writes {side} of {name}"
        return None

    def close(self) -> None:
        """Give the descriptor back. The memory goes when nobody has it any more."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1

    def _guards(self, place: ArrayPlace) -> tuple[Array, Array]:
        end = place.offset + place.nbytes
        return self.bytes[place.offset - GUARD : place.offset], self.bytes[end : end + GUARD]


def _byte(name: str, outputs: Collection[str]) -> int:
    return OUTPUT_GUARD if name in outputs else INPUT_GUARD


def _rounded(nbytes: int) -> int:
    return -(-nbytes // mmap.PAGESIZE) * mmap.PAGESIZE
