"""Elements that are drawn at random by their numbers: any of them can be had alone, on the host and on a device alike.

Element i comes of word i of SplitMix64, which depends on nothing but i and a key (Steele, Lea, Flood: Fast Splittable
Pseudorandom Number Generators, OOPSLA 2014; mixed as in Stafford's variant 13). `elements.cu` does the same, with
operations that no two machines round differently.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tuner.space.dtypes import DTYPES, DType
from tuner.space.values.elements import Elements

Array = np.ndarray[Any, np.dtype[Any]]
_GAMMA, _FIRST, _SECOND = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
_MASK = (1 << 64) - 1
_AT_ONCE = 1 << 15  # words whose temporaries stay in a cache
STANDARD_DIGITS = 23  # random bits after the first one of a standard element, at most
NORMAL_WORDS, NORMAL_BITS = 4, 21  # a normal number is a sum of three numbers of so many bits from each of its words


def key(seed: int, position: int) -> int:
    """The key of the array at this position among those of a set."""
    return _mixed(_mixed(seed + _GAMMA & _MASK) ^ position + 1)


def _mixed(word: int) -> int:
    word = (word ^ word >> 30) * _FIRST & _MASK
    word = (word ^ word >> 27) * _SECOND & _MASK
    return word ^ word >> 31


def words(key: int, index: Array) -> Array:
    """The words with these numbers (uint64), which are overwritten."""
    word = index
    word += np.uint64(1)
    word *= np.uint64(_GAMMA)
    word += np.uint64(key)
    for shift, factor in ((30, _FIRST), (27, _SECOND)):
        word ^= word >> np.uint64(shift)
        word *= np.uint64(factor)
    word ^= word >> np.uint64(31)
    return word


@dataclass(frozen=True)
class Draw:
    """How an element, or a part of a complex one, comes of its words.

    kind: `standard`, `integers`, `uniform`, `normal`, `table` or `sequence`. values: the first integer and how many
    there are; the least number and the distance to the largest; mean and deviation; the table.
    """

    kind: str
    values: tuple[float, ...] = ()

    def made(self, dtype: DType, key: int, index: Array) -> Array:
        """The elements of `dtype`, which is not complex, with these numbers (uint64)."""
        with np.errstate(over="ignore"):  # a normal number may be beyond a small type
            return self._numbers(dtype, key, index).astype(dtype.numpy)

    def _numbers(self, dtype: DType, key: int, index: Array) -> Array:
        """The same before they are rounded."""
        if self.kind == "sequence":
            return index
        if self.kind == "normal":
            mean, deviation = self.values
            return np.asarray(mean + deviation * _normal(key, index))
        word = words(key, index)
        if self.kind == "standard":
            return _standard(dtype, word)
        if self.kind == "table":
            return np.asarray(self.table(dtype)[word % np.uint64(len(self.values))])
        if self.kind == "integers":
            first, count = map(int, self.values)
            if count <= _MASK:
                word %= np.uint64(count)
            word += np.uint64(first & _MASK)
            return word.view(np.int64)
        least, distance = self.values
        unit = (word >> np.uint64(11)).astype(np.float64) * 2.0**-53
        return np.asarray(least + distance * unit)

    def table(self, dtype: DType) -> Array:
        """What a table is of, in this type."""
        return np.array([dtype.scalar(value) for value in self.values], dtype.numpy)


def _standard(dtype: DType, word: Array) -> Array:
    if dtype.kind == "boolean":
        return word >> np.uint64(63)
    if dtype.is_exact:
        magnitude = ((word & np.uint64(7)) + np.uint64(1)).astype(np.int64)
        return np.where(word >> np.uint64(63), -magnitude, magnitude) if dtype.low < 0 else magnitude
    digits = min(dtype.digits, STANDARD_DIGITS)  # so nothing is rounded
    units = (word & np.uint64((2 << digits) - 1)).astype(np.uint32) + np.uint32(1 << digits)
    units -= units >> np.uint32(digits + 1) & units & np.uint32(1)
    numbers = units.astype(np.float32)
    numbers *= np.float32(2.0 ** -(digits + 1))
    bits = numbers.view(np.uint32)
    bits |= (word >> np.uint64(32)).astype(np.uint32) & np.uint32(1 << 31)  # the sign
    return numbers


def _normal(key: int, index: Array) -> Array:
    """Sums of twelve uniform numbers, which are integers until the end: nothing is rounded. Their variance is 1, and
    they lie within 6 of 0."""
    total = np.zeros(index.shape, np.uint64)
    for number in range(NORMAL_WORDS):
        word = words(key, index * np.uint64(NORMAL_WORDS) + np.uint64(number))
        for shift in (0, NORMAL_BITS, 2 * NORMAL_BITS):
            total += word >> np.uint64(shift) & np.uint64((1 << NORMAL_BITS) - 1)
    middle = 3 * NORMAL_WORDS * ((1 << NORMAL_BITS) - 1)
    return (2 * total.astype(np.int64) - middle).astype(np.float64) * 2.0 ** -(NORMAL_BITS + 1)


class Drawn(Elements):
    """An array whose elements are drawn; those of a complex array as pairs of its part."""

    def __init__(self, draw: Draw, dtype: DType, shape: tuple[int, ...], key: int) -> None:
        self.draw, self.key, self.shape, self.dtype = draw, key, shape, dtype.numpy
        self.drawn = DTYPES[dtype.part] if dtype.part else dtype  # the type of what is drawn

    def part(self, start: int, stop: int) -> Array:
        parts = self.element.parts
        made = np.empty((stop - start) * parts, self.drawn.numpy)
        for first in range(0, made.size, _AT_ONCE):
            last = min(first + _AT_ONCE, made.size)
            numbers = np.arange(start * parts + first, start * parts + last, dtype=np.uint64)
            made[first:last] = self.draw.made(self.drawn, self.key, numbers)
        return made.view(self.dtype)

    def at(self, index: Array) -> Array:
        parts = self.element.parts
        numbers = np.multiply.outer(index.astype(np.uint64), np.full(1, parts, np.uint64)) + np.arange(
            parts, dtype=np.uint64
        )
        made: Array = self.draw.made(self.drawn, self.key, numbers.reshape(-1)).view(self.dtype)
        return made
