"""Elements rounded to a narrower type, as a kernel that computes in this type would read or write them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from tuner.space.dtypes import DType
from tuner.space.values.elements import Elements

Array = np.ndarray[Any, np.dtype[Any]]
_DOUBLE_DIGITS = 52


class Precision(NamedTuple):
    """The name of a type and its explicit fraction bits. Its range of exponents counts as unlimited."""

    name: str
    digits: int


_NARROWER: Mapping[str, tuple[Precision, ...]] = {
    "float64": (Precision("float32", 23),),
    "float32": (Precision("TF32", 10), Precision("bfloat16", 7)),
    "float16": (Precision("bfloat16", 7),),
    "bfloat16": (Precision("scaled e4m3", 3),),
}


def narrower(dtype: DType) -> tuple[Precision, ...]:
    """The precisions one step below that of `dtype`, the finest first; empty if there is none."""
    return _NARROWER.get(dtype.part or dtype.name, ())


def rounded(elements: Array, dtype: DType, digits: int) -> Array:
    """`elements` of the floating-point type `dtype` rounded to so many fraction bits, ties to even.

    Both parts of complex elements are rounded.
    """
    values = elements.view(elements.real.dtype) if dtype.part else elements
    wide = values.astype(np.float64)
    bits, dropped = wide.view(np.uint64), np.uint64(_DOUBLE_DIGITS - digits)
    half = (np.uint64(1) << (dropped - np.uint64(1))) - np.uint64(1)
    shorter = (bits + half + (bits >> dropped & np.uint64(1))) >> dropped << dropped
    return np.where(np.isfinite(wide), shorter.view(np.float64), wide).astype(values.dtype).view(elements.dtype)


class Rounded(Elements):
    """The elements of an array, rounded to `digits` fraction bits."""

    def __init__(self, base: Elements, digits: int) -> None:
        self.base, self.digits, self.shape, self.dtype = base, digits, base.shape, base.dtype
        self.in_threads = base.in_threads

    def part(self, start: int, stop: int) -> Array:
        return rounded(self.base.part(start, stop), self.element, self.digits)

    def at(self, index: Array) -> Array:
        return rounded(self.base.at(index), self.element, self.digits)
