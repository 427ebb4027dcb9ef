"""Texture objects of the driver. The structures and numbers are those of cuda.h."""

from __future__ import annotations

import ctypes
import math
from typing import TYPE_CHECKING

from tuner.devices.cuda import driver

if TYPE_CHECKING:
    from tuner.space.dtypes import DType
    from tuner.space.kinds.texture import Texture

_FORMATS = {
    "uint8": 1, "uint16": 2, "uint32": 3, "int8": 8, "int16": 9, "int32": 10, "float16": 16, "float32": 32
}  # fmt: skip
_LINEAR, _PITCHED = 2, 3  # of CUresourcetype
_ADDRESSES = {"wrap": 0, "clamp": 1, "mirror": 2, "border": 3}
_FILTERS = {"point": 0, "linear": 1}
_READ_AS_INTEGERS, _NORMALIZED = 1, 2  # flags


class _Resource(ctypes.Structure):
    """CUDA_RESOURCE_DESC of linear or pitched memory. `width` is that in bytes where it is linear."""

    _fields_ = (
        ("kind", ctypes.c_int),
        ("address", ctypes.c_uint64),
        ("format", ctypes.c_int),
        ("channels", ctypes.c_uint),
        ("width", ctypes.c_size_t),
        ("height", ctypes.c_size_t),
        ("pitch", ctypes.c_size_t),
        ("reserved", ctypes.c_char * 88),
        ("flags", ctypes.c_uint),
    )


class _Sampling(ctypes.Structure):
    """CUDA_TEXTURE_DESC."""

    _fields_ = (
        ("addresses", ctypes.c_int * 3),
        ("filter", ctypes.c_int),
        ("flags", ctypes.c_uint),
        ("anisotropy", ctypes.c_uint),
        ("mipmap", ctypes.c_float * 4),
        ("border", ctypes.c_float * 4),
        ("reserved", ctypes.c_int * 12),
    )


class TextureObject:
    """A texture object over an array in C order: of one axis, or of rows, columns and perhaps channels. Destroyed with
    this object, so that no kernel may still read it."""

    def __init__(
        self, context: driver.Context, address: int, element: DType, shape: tuple[int, ...], mode: Texture
    ) -> None:
        """Raises LaunchError for what the driver refuses."""
        self.context, self.handle = context, ctypes.c_uint64()
        resource = _Resource(address=address, format=_FORMATS[element.name], channels=1)
        if len(shape) == 1:
            resource.kind, resource.width = _LINEAR, shape[0] * element.itemsize
        else:
            resource.kind, resource.height, resource.width = _PITCHED, shape[0], shape[1]
            resource.channels = shape[2] if len(shape) == 3 else 1
            resource.pitch = math.prod(shape[1:]) * element.itemsize
            if shape[0] == 1:
                resource.pitch += -resource.pitch % 32  # one row has no second one that would begin too early
        flags = _READ_AS_INTEGERS if element.is_exact and mode.read == "elements" else 0
        flags |= _NORMALIZED if mode.coordinates == "normalized" else 0
        sampling = _Sampling(filter=_FILTERS[mode.filter], flags=flags)
        sampling.addresses[:] = [_ADDRESSES[mode.address]] * 3
        with context.apart_from_capture():
            context.call(
                f"making a texture of shape {shape}", "cuTexObjectCreate",
                ctypes.byref(self.handle), ctypes.byref(resource), ctypes.byref(sampling), None,
            )  # fmt: skip

    def __del__(self) -> None:
        self.context.release("cuTexObjectDestroy", self.handle)
