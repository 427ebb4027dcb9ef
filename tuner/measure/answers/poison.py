"""Poison and guards: the bytes written to outputs before a run, and before and after each array."""

from __future__ import annotations

from typing import Any

import numpy as np

from tuner.space import dtypes

Array = np.ndarray[Any, np.dtype[Any]]

# The bytes that floating-point outputs are filled with. Elements of NAN bytes are NaN in every type. Elements of NUMBER
# bytes are finite in every type: some kernels are right by chance if the output holds NaN.
NAN, NUMBER = 0xFF, 0x3F
# The bytes that scratch is filled with: those two, large numbers of either sign, and zeros.
HUGE = 0x7E
SCRATCH = (NAN, NUMBER, HUGE, 0xFE, 0x00)
# Guards of outputs and inputs hold different bytes. A kernel may copy a NaN from a guard of its input to a guard of its
# output; with equal guards, this would go unnoticed.
INPUT_GUARD, OUTPUT_GUARD = 0xFF, 0x5A


def scrambled(answers: Array, secret: int) -> Array:
    """The poison of integers with these answers; the same as `poison_of` in bench_kernels.cu."""
    unsigned = answers.view(f"u{answers.dtype.itemsize}")
    bits = 8 * answers.dtype.itemsize
    index = np.arange(answers.size, dtype=np.uint64).reshape(answers.shape)
    random = (_hash(2 * index, secret) << np.uint64(32)) | _hash(2 * index + np.uint64(1), secret)
    offset = np.uint64(1 << (bits - 2)) + (random & np.uint64((1 << (bits - 1)) - 1))
    return np.asarray(unsigned + offset.astype(unsigned.dtype)).view(answers.dtype)


def poisoned(answers: Array) -> Array:
    """An array of poison with the size and type of `answers`."""
    if dtypes.of(answers.dtype).is_exact:
        return scrambled(answers, 0)
    return np.full(answers.size * answers.dtype.itemsize, NAN, np.uint8).view(answers.dtype)


def _hash(index: Array, secret: int) -> Array:
    bits = index.astype(np.uint32) * np.uint32(0x9E3779B9) ^ np.uint32(secret)
    bits = (bits ^ bits >> np.uint32(16)) * np.uint32(0x85EBCA6B)
    bits = (bits ^ bits >> np.uint32(13)) * np.uint32(0xC2B2AE35)
    return (bits ^ bits >> np.uint32(16)).astype(np.uint64)
