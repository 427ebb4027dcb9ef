"""Creates texture objects of the driver, with the structures of cuda.h."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING

from tuner.devices.cuda.driver.context import Context

if TYPE_CHECKING:
    from tuner.space.kinds.texture import Sampled


class _Resource(ctypes.Structure):
    """CUDA_RESOURCE_DESC of linear or pitched memory. For linear memory, `width` is its size in bytes."""

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
    """A texture object of an array. It is destroyed with this object, which must outlive all kernels that read it."""

    def __init__(self, context: Context, address: int, sampled: Sampled) -> None:
        """Raises LaunchError if the driver rejects it."""
        self.context, self.handle = context, ctypes.c_uint64()
        resource = _Resource(
            kind=sampled.resource,
            address=address,
            format=sampled.format,
            channels=sampled.channels,
            width=sampled.width,
            height=sampled.height,
            pitch=sampled.pitch,
        )
        sampling = _Sampling(filter=sampled.filter, flags=sampled.flags)
        sampling.addresses[:] = [sampled.outside] * 3
        with context.apart_from_capture():
            context.call(
                f"making a texture of {sampled.width} x {sampled.height}", "cuTexObjectCreate",
                ctypes.byref(self.handle), ctypes.byref(resource), ctypes.byref(sampling), None,
            )  # fmt: skip

    def __del__(self) -> None:
        self.context.release("cuTexObjectDestroy", self.handle)
