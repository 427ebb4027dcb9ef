"""Tensor maps of the driver: cuTensorMapEncodeTiled."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING

from tuner.devices.cuda import driver

if TYPE_CHECKING:
    from tuner.space.kinds.tensor_map import Tiled

_BYTES, _ALIGNMENT = 128, 64


def encoded(address: int, tiled: Tiled) -> bytes:
    """The 128 bytes of a map over the array at this address. Raises LaunchError for what the driver refuses."""
    memory = (ctypes.c_char * (_BYTES + _ALIGNMENT))()
    where = ctypes.addressof(memory) + -ctypes.addressof(memory) % _ALIGNMENT
    rank = len(tiled.extents)
    status = driver.library().cuTensorMapEncodeTiled(
        ctypes.c_void_p(where),
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
        raise driver.launch_error(f"encoding a tensor map of shape {shape}, box {box}, swizzle {tiled.swizzle}", status)
    return ctypes.string_at(where, _BYTES)
