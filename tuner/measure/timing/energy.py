"""The energy of a run, by the counter of the board."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tuner.devices.base import Device
    from tuner.measure.timing.clock import Conditions

ENERGY_SECONDS = 1.0  # a board updates its energy counter some ten times per second


class EnergyMeter:
    """Measures the energy of one run on a board that counts energy.

    Each run is prepared as a timed one is, because a kernel may do less where its output holds an answer. What
    preparing alone takes is measured twice, and the mean is subtracted.
    """

    def __init__(self, device: Device, conditions: Conditions) -> None:
        self._device, self._conditions = device, conditions
        self._preparing: list[float | None] = []

    def measure(self, call: Callable[[], None], time_ms: float) -> float | None:
        """Energy of one run of `call` in mJ, which takes about `time_ms`: a mean over ENERGY_SECONDS. None where the
        board has no energy counter, or where its noise hides the run. Raises LaunchError, WrongResult."""
        self._conditions.expect(call)
        if not self._preparing:
            self._preparing = [self._mean(lambda: None, 0.1) for _ in range(2)]
        together = self._mean(call, time_ms)
        one, other = self._preparing
        if together is None or one is None or other is None:
            return None
        self._conditions.check()
        energy = together - (one + other) / 2
        return energy if energy > abs(one - other) else None

    def _mean(self, call: Callable[[], None], time_ms: float) -> float | None:
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
