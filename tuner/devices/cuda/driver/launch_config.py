"""The driver's configuration of a launch: its grid, its stream and its attributes."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence

from tuner.space.step import Geometry

COOPERATIVE, CLUSTER_DIMENSION, PROGRAMMATIC = 2, 4, 6  # of CUlaunchAttributeID


class _Attribute(ctypes.Structure):
    """CUlaunchAttribute: its value is a union of 64 bytes."""

    _fields_ = (("id", ctypes.c_int), ("padding", ctypes.c_int), ("value", ctypes.c_uint * 16))


class LaunchConfig(ctypes.Structure):
    """CUlaunchConfig."""

    _fields_ = (
        *((name, ctypes.c_uint) for name in ("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z", "shared")),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.c_void_p),
        ("attribute_count", ctypes.c_uint),
    )


def configured(geometry: Geometry, stream: int = 0, programmatic: bool = False) -> LaunchConfig:
    """The driver's configuration of a launch. It keeps its attributes alive."""
    values: list[tuple[int, tuple[int, ...]]] = [(COOPERATIVE, (1,))] if geometry.cooperative else []
    if math.prod(geometry.cluster) > 1:
        values.append((CLUSTER_DIMENSION, geometry.cluster))
    if programmatic:
        values.append((PROGRAMMATIC, (1,)))
    return config_of(geometry.grid, geometry.block, geometry.shared_memory, stream, values)


def config_of(
    grid: tuple[int, int, int],
    block: tuple[int, int, int],
    shared_memory: int,
    stream: int,
    attributes: Sequence[tuple[int, Sequence[int]]],
) -> LaunchConfig:
    """The driver's configuration of a launch with these attributes: their numbers and 32-bit words. It keeps them
    alive."""
    kept = (_Attribute * len(attributes))()
    for attribute, (number, words) in zip(kept, attributes, strict=True):
        attribute.id = number
        attribute.value[: len(words)] = words
    address = ctypes.addressof(kept) if attributes else None
    config = LaunchConfig(*grid, *block, shared_memory, stream, address, len(attributes))
    config.keep = kept
    return config
