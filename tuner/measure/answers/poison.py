"""What outputs hold before a run, so that an element that nobody has written is wrong, and what guards hold."""

from __future__ import annotations

from typing import Any

import numpy as np

from tuner.space import dtypes

Array = np.ndarray[Any, np.dtype[Any]]

# The bytes that a floating-point output is filled with. A run of the first is NaN in every type. A run of the second is
# a number in every type: a kernel may be right only where its output holds none.
NAN, NUMBER = 0xFF, 0x3F
# The bytes that scratch is filled with: as above; large numbers of either sign; zeros.
HUGE = 0x7E
SCRATCH = (NAN, NUMBER, HUGE, 0xFE, 0x00)
# Guards of outputs hold other bytes than guards of inputs. A kernel may copy a NaN from beyond its input to beyond its
# output: with equal guards it would write the bytes that are there already, and go unnoticed.
INPUT_GUARD, OUTPUT_GUARD = 0xFF, 0x5A


def scrambled(answers: Array, secret: int) -> Array:
    """What the integers hold whose answers these are: as `poison_of` in bench_kernels.cu."""
    unsigned = answers.view(f"u{answers.dtype.itemsize}")
    bits = 8 * answers.dtype.itemsize
    index = np.arange(answers.size, dtype=np.uint64).reshape(answers.shape)
    random = (_hash(2 * index, secret) << np.uint64(32)) | _hash(2 * index + np.uint64(1), secret)
    offset = np.uint64(1 << (bits - 2)) + (random & np.uint64((1 << (bits - 1)) - 1))
    return np.asarray(unsigned + offset.astype(unsigned.dtype)).view(answers.dtype)


def poisoned(answers: Array) -> Array:
    """Elements of which none is written, as large and of the type of these right ones."""
    if dtypes.of(answers.dtype).is_exact:
        return scrambled(answers, 0)
    return np.full(answers.size * answers.dtype.itemsize, NAN, np.uint8).view(answers.dtype)


def _hash(index: Array, secret: int) -> Array:
    bits = index.astype(np.uint32) * np.uint32(0x9E3779B9) ^ np.uint32(secret)
    bits = (bits ^ bits >> np.uint32(16)) * np.uint32(0x85EBCA6B)
    bits = (bits ^ bits >> np.uint32(13)) * np.uint32(0xC2B2AE35)
    return (bits ^ bits >> np.uint32(16)).astype(np.uint64)
