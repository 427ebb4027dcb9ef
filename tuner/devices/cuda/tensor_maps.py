"""Encodes tensor maps with the driver's cuTensorMapEncodeTiled."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING

from tuner.devices.cuda.driver.context import launch_error, library

if TYPE_CHECKING:
    from tuner.space.kinds.tensor_map import Tiled

_BYTES, _ALIGNMENT = 128, 64


def encoded(address: int, tiled: Tiled) -> bytes:
    """The 128 bytes of a tensor map of the array at `address`. Raises LaunchError if the driver rejects it."""
    memory = (ctypes.c_char * (_BYTES + _ALIGNMENT))()
    aligned = ctypes.addressof(memory) + -ctypes.addressof(memory) % _ALIGNMENT
    rank = len(tiled.extents)
    status = library().cuTensorMapEncodeTiled(
        ctypes.c_void_p(aligned),
        tiled.type,
        rank,
        ctypes.c_void_p(address),
        (ctypes.c_uint64 * rank)(*tiled.extents),
        (ctypes.c_uint64 * max(1, rank - 1))(*tiled.strides),
        (ctypes.c_uint32 * rank)(*tiled.box),
        (ctypes.c_uint32 * rank)(*[1] * rank),
        tiled.interleave,
        tiled.swizzle,
        tiled.promotion,
        tiled.fill,
    )
    if status:
        shape, box = tiled.extents[::-1], tiled.box[::-1]
        raise launch_error(f"encoding a tensor map of shape {shape}, box {box}, swizzle {tiled.swizzle}", status)
    return ctypes.string_at(aligned, _BYTES)
