"""Figures of a build: the registers, spills, shared and local memory that its compiler reported, and the occupancy."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, fields, replace
from typing import TYPE_CHECKING, Any

from tuner.classes import dataclass
from tuner.errors import ResourceError

if TYPE_CHECKING:
    from tuner.space.scope import Limits
    from tuner.space.step import Geometry

_REGISTER_UNIT = 256  # registers are allocated to a warp in multiples of this, on every NVIDIA GPU since Kepler


@dataclass(frozen=True)
class Figures:
    """The compiler's figures of one kernel; None for a figure that it does not report.

    `registers` are per thread. `spills` are the bytes per thread that register spills store and load, in the kernel and
    in the functions that it calls. `shared_memory` is in bytes per block: static shared memory for a build, static and
    dynamic for a launch. `local_memory` is the stack of a thread in bytes: arrays that registers cannot hold, and room
    for spilled registers.
    """

    registers: int | None = None
    spills: int | None = None
    shared_memory: int | None = None
    local_memory: int | None = None

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def launched(self, geometry: Geometry) -> Figures:
        """These figures, with the launch's dynamic shared memory added."""
        static = self.shared_memory
        return replace(self, shared_memory=None if static is None else static + geometry.shared_memory)

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Figures:
        """The figures in `data`. Earlier versions reported no local memory, and no spills of called functions."""
        return Figures(**({**data, "spills": None} if "local_memory" not in data else data))


NO_FIGURES = Figures()
FIGURE_NAMES = tuple(field.name for field in fields(Figures))


def check(figures: Figures, geometry: Geometry, limits: Limits) -> None:
    """Raise ResourceError if one block of the kernel does not fit the device."""
    threads = math.prod(geometry.block)
    if threads > limits.max_threads:
        raise ResourceError(f"{threads} threads per block; the device has at most {limits.max_threads}", "threads")
    shared = (figures.shared_memory or 0) + geometry.shared_memory
    if shared > limits.max_shared_memory:
        most = limits.max_shared_memory
        raise ResourceError(
            f"{shared} bytes of shared memory per block; the device has at most {most}", "shared memory"
        )
    registers = _warps(threads, limits) * _warp_registers(figures, limits)
    if limits.max_registers and registers > limits.max_registers:
        raise ResourceError(
            f"{figures.registers} registers for each of {threads} threads are {registers} per block; the device has at "
            f"most {limits.max_registers}",
            "registers",
        )


def occupancy(figures: Figures, geometry: Geometry, limits: Limits) -> float | None:
    """The theoretical occupancy: the share of a multiprocessor's threads that resident blocks of this kernel can fill,
    0 to 1. None if the device or the compiler does not report enough."""
    blocks = resident_blocks(figures, geometry, limits)
    if not blocks:
        return None
    warps = _warps(math.prod(geometry.block), limits)
    return min(blocks.values()) * warps * limits.warp_size / limits.multiprocessor_threads


def resident_blocks(figures: Figures, geometry: Geometry, limits: Limits) -> dict[str, int]:
    """How many blocks of this kernel each resource of a multiprocessor can hold at once, by the resource's name; the
    minimum is the number of resident blocks. Empty if the device or the compiler does not report enough."""
    if figures.registers is None or not limits.multiprocessor_threads:
        return {}
    warps = _warps(math.prod(geometry.block), limits)
    shared = (figures.shared_memory or 0) + geometry.shared_memory + limits.reserved_shared_memory
    return {
        "blocks": limits.multiprocessor_blocks,
        "threads": limits.multiprocessor_threads // (warps * limits.warp_size),
        "registers": limits.multiprocessor_registers // max(1, warps * _warp_registers(figures, limits)),
        "shared memory": limits.multiprocessor_shared_memory // max(1, shared),
    }


def _warps(threads: int, limits: Limits) -> int:
    return math.ceil(threads / limits.warp_size)


def _warp_registers(figures: Figures, limits: Limits) -> int:
    """Registers allocated to a warp."""
    return math.ceil((figures.registers or 0) * limits.warp_size / _REGISTER_UNIT) * _REGISTER_UNIT
