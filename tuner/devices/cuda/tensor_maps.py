"""Tensor maps of the driver: cuTensorMapEncodeTiled. The numbers are those of cuda.h."""

from __future__ import annotations

import ctypes
import math
from typing import TYPE_CHECKING

from tuner.devices.cuda import driver

if TYPE_CHECKING:
    from tuner.space.dtypes import DType

_TYPES = {
    "uint8": 0, "uint16": 1, "uint32": 2, "int32": 3, "uint64": 4, "int64": 5, "float16": 6, "float32": 7, "float64": 8,
    "bfloat16": 9,
}  # fmt: skip
_BY_SIZE = {1: 0, 2: 1, 4: 2, 8: 4}  # of types that the TMA has no word for: it moves their bits
_INTERLEAVES = {0: 0, 16: 1, 32: 2}
_SWIZZLES = {0: 0, 32: 1, 64: 2, 128: 3}
_PROMOTIONS = {0: 0, 64: 1, 128: 2, 256: 3}
_FILLS = {"zeros": 0, "nan": 1}
_BYTES, _ALIGNMENT = 128, 64


def encoded(
    address: int,
    dtype: DType,
    shape: tuple[int, ...],
    box: tuple[int, ...],
    swizzle: int,
    interleave: int,
    promotion: int,
    fill: str,
) -> bytes:
    """The 128 bytes of a map over the array of this shape, in C order, at this address; `box` in the order of its axes.

    Raises LaunchError for what the driver refuses.
    """
    memory = (ctypes.c_char * (_BYTES + _ALIGNMENT))()
    where = ctypes.addressof(memory) + -ctypes.addressof(memory) % _ALIGNMENT
    rank, size = len(shape), dtype.itemsize
    strides = [math.prod(shape[axis:]) * size for axis in range(1, rank)]  # of all axes but the last, in bytes
    status = driver.library().cuTensorMapEncodeTiled(
        ctypes.c_void_p(where),
        _TYPES.get(dtype.name, _BY_SIZE[size]),
        rank,
        ctypes.c_void_p(address),
        (ctypes.c_uint64 * rank)(*reversed(shape)),
        (ctypes.c_uint64 * max(1, rank - 1))(*reversed(strides)),
        (ctypes.c_uint32 * rank)(*reversed(box)),
        (ctypes.c_uint32 * rank)(*[1] * rank),
        _INTERLEAVES[interleave],
        _SWIZZLES[swizzle],
        _PROMOTIONS[promotion],
        _FILLS[fill],
    )
    if status:
        raise driver.launch_error(f"encoding a tensor map of shape {shape}, box {box}, swizzle {swizzle}", status)
    return ctypes.string_at(where, _BYTES)
