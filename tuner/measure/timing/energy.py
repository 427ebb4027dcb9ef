"""The energy of a run, measured by the board's energy counter."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tuner.devices.base import Device
    from tuner.measure.timing.clock import RunConditions

ENERGY_SECONDS = 1.0  # many updates of the energy counter, of which there are about ten per second


class EnergyMeter:
    """Measures the energy of one run on a board with an energy counter.

    Each run is prepared like a timed one, because a kernel may do less work if its output already holds the answer. The
    energy of the preparation alone is measured twice, and its mean is subtracted.
    """

    def __init__(self, device: Device, conditions: RunConditions) -> None:
        self._device, self._conditions = device, conditions
        self._preparation: list[float | None] = []

    def measure(self, call: Callable[[], None], time_ms: float) -> float | None:
        """The energy of one run of `call` in mJ, a mean over ENERGY_SECONDS; `time_ms` is its approximate time.

        None if the board has no energy counter, or if the counter's noise exceeds the energy of a run. Raises
        LaunchError or WrongResult.
        """
        self._conditions.expect(call)
        if not self._preparation:
            self._preparation = [self._mean(lambda: None, 0.1) for _ in range(2)]
        together = self._mean(call, time_ms)
        first, second = self._preparation
        if together is None or first is None or second is None:
            return None
        self._conditions.check()
        energy = together - (first + second) / 2
        return energy if energy > abs(first - second) else None

    def _mean(self, call: Callable[[], None], time_ms: float) -> float | None:
        """The mean energy in mJ of preparing a run and executing `call`; None without an energy counter."""
        sensors = self._device.sensors
        before = sensors.energy_mj() if sensors else None
        if sensors is None or before is None:
            return None
        runs, began = 0, time.perf_counter()
        batch = max(1, math.ceil(50 / time_ms))
        while time.perf_counter() - began < ENERGY_SECONDS:
            for _ in range(batch):
                self._conditions.prepare()
                call()
            self._device.synchronize()
            runs += batch
        after = sensors.energy_mj()
        return (after - before) / runs if after is not None else None
