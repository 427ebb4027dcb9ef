"""The least time that a run can take on a device: it moves its arrays, and no faster than memory allows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tuner.devices.ceilings import CACHES
from tuner.errors import WrongResult
from tuner.space import operation

if TYPE_CHECKING:
    from tuner.devices.base import Device
    from tuner.measure.workbench import Workbench
    from tuner.space.model import Operation
    from tuner.space.scope import Scope

MARGIN = 2.0  # by which a kernel may move bytes faster than ours, which only read
MEASUREMENTS = 5


class Floor:
    """Refuses times that no run can take.

    A run moves the `bytes` of the operation, or at least those of the outputs that it only writes. What the last-level
    cache can hold may be there before the run, and as much may stay there after it. The rest moves at the device's
    memory rate, which is measured by kernels of ours when a time first asks for it.
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

    def check(self, time_ms: float) -> None:
        """Raise WrongResult where a run cannot take `time_ms`."""
        if self._moved <= 0:
            return
        if self._is_impossible(time_ms):  # then a busy device may have been slow when its rate was measured
            self._bytes_per_ms = max(self._bytes_per_ms, self._workbench.read_rate(MEASUREMENTS))
        if self._is_impossible(time_ms):
            raise WrongResult(
                f"{time_ms:.4g} ms is impossible: at least {self._moved / 1e6:.0f} MB must move, which takes "
                f"{self._device.name} {self._moved / self._bytes_per_ms:.4g} ms at its {self._bytes_per_ms / 1e6:.0f} "
                "GB/s; the kernel does its work outside of the time, or the operation's `bytes` is too large",
                "impossible time",
            )

    def _is_impossible(self, time_ms: float) -> bool:
        return self._bytes_per_ms == 0 or time_ms * self._bytes_per_ms * MARGIN < self._moved
