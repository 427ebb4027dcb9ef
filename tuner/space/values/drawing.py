"""Counter-based random numbers: element i depends only on i and a key, so that host and device can compute any element
alone.

Element i is computed from word i of SplitMix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators,
OOPSLA 2014; mixing constants of Stafford's variant 13). `elements.cu` computes the same on the device, with operations
that every machine rounds alike.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tuner.classes import dataclass
from tuner.space.dtypes import DTYPES, DType
from tuner.space.values.elements import Elements

Array = np.ndarray[Any, np.dtype[Any]]
_GAMMA, _FIRST, _SECOND = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
_MASK = (1 << 64) - 1
_CHUNK = 1 << 15  # words drawn at a time, so that temporaries fit the CPU's cache
NORMAL_WORDS, NORMAL_BITS = 4, 21  # a `normal` element is a sum: each of 4 words gives three 21-bit integers
FINE_BITS = 26  # more bits of a `normal` element of float64, which otherwise float32 could hold


def key(seed: int, position: int) -> int:
    """The key of an array: `position` is its index among the arrays of the input set of this seed."""
    return _mixed(_mixed(seed + _GAMMA & _MASK) ^ position + 1)


def _mixed(word: int) -> int:
    word = (word ^ word >> 30) * _FIRST & _MASK
    word = (word ^ word >> 27) * _SECOND & _MASK
    return word ^ word >> 31


def words(key: int, index: Array) -> Array:
    """The SplitMix64 words with the numbers `index` (uint64). Overwrites `index`."""
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
    """How to compute an element, or one part of a complex element, from its words.

    kind: `standard`, `integers`, `uniform`, `normal`, `table` or `sequence`.
    values: for `integers`, the first integer and their count; for `uniform`, the lower bound and the width; for
    `normal`, mean and standard deviation; for `table`, its entries.
    """

    kind: str
    values: tuple[float, ...] = ()

    def sample(self, dtype: DType, key: int, index: Array) -> Array:
        """The elements with the numbers `index` (uint64), as `dtype`, which is not complex."""
        with np.errstate(over="ignore"):  # a normal number may overflow a narrow type
            return self._unrounded(dtype, key, index).astype(dtype.numpy)

    def _unrounded(self, dtype: DType, key: int, index: Array) -> Array:
        """The elements before they are rounded to `dtype`."""
        if self.kind == "sequence":
            return index
        if self.kind == "normal":
            mean, deviation = self.values
            return np.asarray(mean + deviation * _normal(dtype, key, index))
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

    def ends(self, dtype: DType) -> tuple[float, float]:
        """Numbers between which all elements lie; those of the type if nothing closer is known."""
        if self.kind == "table":
            return min(self.values), max(self.values)
        if self.kind == "integers":
            first, count = map(int, self.values)
            return first, first + count - 1
        return dtype.low, dtype.high

    def table(self, dtype: DType) -> Array:
        """The entries of the table as `dtype`."""
        return np.array([dtype.scalar(value) for value in self.values], dtype.numpy)


def _standard(dtype: DType, word: Array) -> Array:
    if dtype.kind == "boolean":
        return word >> np.uint64(63)
    if dtype.is_exact:
        magnitude = ((word & np.uint64(7)) + np.uint64(1)).astype(np.int64)
        return np.where(word >> np.uint64(63), -magnitude, magnitude) if dtype.low < 0 else magnitude
    if dtype.name == "float64":
        return _standard_double(word)
    digits = dtype.digits  # few enough that no element is rounded
    units = (word & np.uint64((2 << digits) - 1)).astype(np.uint32) + np.uint32(1 << digits)
    units -= units >> np.uint32(digits + 1) & units & np.uint32(1)
    numbers = units.astype(np.float32)
    numbers *= np.float32(2.0 ** -(digits + 1))
    bits = numbers.view(np.uint32)
    bits |= (word >> np.uint64(32)).astype(np.uint32) & np.uint32(1 << 31)  # the sign
    return numbers


def _standard_double(word: Array) -> Array:
    """The same for float64, with 53 random bits: magnitudes below 1 have the exponent -1, all others 0."""
    digits = np.uint64(52)
    units = (word & np.uint64((2 << 52) - 1)) + np.uint64(1 << 52)
    is_large = units >> np.uint64(53)
    fraction = (units >> is_large) - np.uint64(1 << 52)
    sign = word >> np.uint64(63) << np.uint64(63)
    return (sign | (np.uint64(1022) + is_large) << digits | fraction).view(np.float64)


def _normal(dtype: DType, key: int, index: Array) -> Array:
    """Approximately normal numbers with mean 0 and variance 1, between -6 and 6: sums of twelve uniform numbers.

    The sums are integers until the last operation, so host and device agree exactly. For float64, a hash of the words
    adds FINE_BITS bits below the last one of the sum.
    """
    total, mixture = np.zeros(index.shape, np.uint64), np.zeros(index.shape, np.uint64)
    for number in range(NORMAL_WORDS):
        word = words(key, index * np.uint64(NORMAL_WORDS) + np.uint64(number))
        mixture = (mixture ^ word) * np.uint64(_SECOND)
        for shift in (0, NORMAL_BITS, 2 * NORMAL_BITS):
            total += word >> np.uint64(shift) & np.uint64((1 << NORMAL_BITS) - 1)
    middle = 3 * NORMAL_WORDS * ((1 << NORMAL_BITS) - 1)
    sums, last_bit = 2 * total.astype(np.int64) - middle, 2.0 ** -(NORMAL_BITS + 1)
    if dtype.name != "float64":
        return sums.astype(np.float64) * last_bit
    fine = (mixture >> np.uint64(64 - FINE_BITS)).astype(np.int64)
    return (sums * (1 << FINE_BITS) + fine).astype(np.float64) * (last_bit * 2.0**-FINE_BITS)


class Drawn(Elements):
    """An array of randomly drawn elements; real and imaginary parts of a complex array are drawn separately."""

    in_threads = True

    def __init__(self, draw: Draw, dtype: DType, shape: tuple[int, ...], key: int) -> None:
        self.draw, self.key, self.shape, self.dtype = draw, key, shape, dtype.numpy
        self.part_dtype = DTYPES[dtype.part] if dtype.part else dtype

    def part(self, start: int, stop: int) -> Array:
        parts = self.element.parts
        drawn = np.empty((stop - start) * parts, self.part_dtype.numpy)
        for first in range(0, drawn.size, _CHUNK):
            last = min(first + _CHUNK, drawn.size)
            numbers = np.arange(start * parts + first, start * parts + last, dtype=np.uint64)
            drawn[first:last] = self.draw.sample(self.part_dtype, self.key, numbers)
        return drawn.view(self.dtype)

    def at(self, index: Array) -> Array:
        parts = self.element.parts
        numbers = np.multiply.outer(index.astype(np.uint64), np.full(1, parts, np.uint64)) + np.arange(
            parts, dtype=np.uint64
        )
        drawn: Array = self.draw.sample(self.part_dtype, self.key, numbers.reshape(-1)).view(self.dtype)
        return drawn
