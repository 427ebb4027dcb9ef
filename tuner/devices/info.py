"""The description of a device, for files and for processes that do not hold the device."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from tuner.classes import dataclass
from tuner.devices.conditions import DEFAULT, Conditions
from tuner.space.scope import Limits


@dataclass(frozen=True)
class Peak:
    """The theoretical peak FP32 rate of a GPU: multiprocessors x FP32 lanes x clock x 2 (an FMA counts as two
    operations).

    `lanes` is the number of FP32 lanes per multiprocessor. `most` is the number of multiply-adds per clock cycle and
    multiprocessor in the fastest format of its tensor cores; None if unknown.
    """

    multiprocessors: int
    lanes: int
    clock_mhz: float
    most: int | None = None

    @property
    def gflops(self) -> float:
        """The peak FP32 rate, in GFLOP/s."""
        return 2 * self.multiprocessors * self.lanes * self.clock_mhz / 1e3

    @property
    def fastest_gflops(self) -> float | None:
        """The peak rate in the fastest tensor-core format, in GFLOP/s; None if unknown."""
        return 2 * self.multiprocessors * self.most * self.clock_mhz / 1e3 if self.most else None

    def __str__(self) -> str:
        return (
            f"{self.multiprocessors} multiprocessors x {self.lanes} FP32 lanes x 2 x {self.clock_mhz / 1e3:.4g} GHz = "
            f"{self.gflops / 1e3:.4g} TFLOP/s"
        )


@dataclass(frozen=True)
class DeviceInfo:
    """The description of a device. The fields are those of `Device`."""

    id: str
    kind: str
    language: str
    name: str
    architecture: str
    toolchain: str
    memory: int
    limits: Limits
    peak: Peak | None = None
    on_processor: bool = False
    package: str | None = None
    units: int = 1
    place: str = ""
    conditions: Conditions = DEFAULT
    last_cache: int | None = None

    def describe(self) -> dict[str, Any]:
        """The description for output, as text or JSON."""
        return {
            "device": self.id,
            "name": self.name,
            "architecture": self.architecture,
            "toolchain": self.toolchain,
            "package": self.package,
            "memory": self.memory,
            "max_threads": self.limits.max_threads,
            "max_shared_memory": self.limits.max_shared_memory,
            "peak": asdict(self.peak) if self.peak else None,
            "conditions": dict(self.conditions.values),
        }

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> DeviceInfo:
        """The DeviceInfo that `dataclasses.asdict` wrote, after a round trip through JSON."""
        peak = Peak(**data["peak"]) if data["peak"] else None
        limits, conditions = Limits.from_json(data["limits"]), Conditions(**data["conditions"])
        return DeviceInfo(**{**data, "limits": limits, "peak": peak, "conditions": conditions})
