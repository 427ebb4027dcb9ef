"""The minimum plausible time of a run on a device: its bytes moved at the memory bandwidth."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tuner.devices.ceilings import CACHES
from tuner.errors import WrongResult
from tuner.space import operation

if TYPE_CHECKING:
    from tuner.devices.base import Device
    from tuner.measure.workbench import Workbench
    from tuner.space.computation import Operation
    from tuner.space.scope import Scope

MARGIN = 2.0  # how many times the measured read bandwidth a kernel may plausibly reach
MEASUREMENTS = 5


class Floor:
    """Rejects times that are physically impossible.

    A run moves the operation's `bytes`, or if undeclared at least its write-only outputs. Up to one last-level cache of
    this data may be cached before the run, and as much may stay cached after it. The rest moves at the device's memory
    bandwidth, which `prepare` measures if a time may require it.
    """

    def __init__(self, device: Device, op: Operation, scope: Scope, workbench: Workbench) -> None:
        self._device, self._workbench = device, workbench
        arrays = operation.array_bytes(op, scope)
        written = sum(
            operation.nbytes(argument, scope) for argument in op.arrays if argument.name in workbench.write_only
        )
        declared = written if op.bytes is None else float(op.bytes.evaluate(scope.names))
        cache = device.last_cache
        self._moved = 0.0 if cache is None or arrays <= CACHES * cache else min(declared, arrays) - 2 * cache
        self._bytes_per_ms = 0.0

    def prepare(self) -> None:
        """Measure the memory bandwidth once, unless no time requires it."""
        if self._moved > 0 and not self._bytes_per_ms:
            self._bytes_per_ms = self._device.isolation.run(self._rate)

    @property
    def shortest_ms(self) -> float | None:
        """The shortest time that `check` accepts; None if it accepts every time. Only after `prepare`."""
        return self._moved / (self._bytes_per_ms * MARGIN) if self._bytes_per_ms else None

    def _rate(self) -> float:
        return self._workbench.read_rate(MEASUREMENTS)

    def check(self, time_ms: float) -> None:
        """Raise WrongResult if no run can take only `time_ms`."""
        if self._moved <= 0:
            return
        if self._is_impossible(time_ms):  # the device may have been busy when its bandwidth was measured
            self._bytes_per_ms = max(self._bytes_per_ms, self._rate())
        if self._is_impossible(time_ms):
            raise WrongResult(
                f"{time_ms:.4g} ms is impossible: at least {self._moved / 1e6:.0f} MB must move, which takes "
                f"{self._device.name} {self._moved / self._bytes_per_ms:.4g} ms at its {self._bytes_per_ms / 1e6:.0f} "
                "GB/s; the kernel works outside the timed interval, or the operation's `bytes` is too large",
                "impossible time",
            )

    def _is_impossible(self, time_ms: float) -> bool:
        return self._bytes_per_ms == 0 or time_ms * self._bytes_per_ms * MARGIN < self._moved
