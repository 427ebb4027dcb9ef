"""The energy of a run, measured by the board's energy counter."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from statistics import fmean, median
from typing import TYPE_CHECKING

from tuner.measure.timing.batches import POLL_SECONDS, batches

if TYPE_CHECKING:
    from tuner.devices.base import Device, Sensors
    from tuner.measure.timing.clock import RunConditions

INTERVAL_SECONDS = 0.3  # least length of an interval; the counter of an H100 moves every 0.1 s
INTERVALS = 4  # intervals of a configuration in the search, and of the preparation
WARM_UP_SECONDS = 0.2  # before the first interval of a call: the board's power follows its load with a delay
LONGEST_TICK = 2.0  # seconds; a counter that moves more rarely counts as absent
BATCH_MS, MOST_IN_BATCH = 10.0, 64  # a batch: the prepared runs between two readings of the counter


class EnergyMeter:
    """Measures the energy of one run on a board with an energy counter.

    The counter moves in ticks, many milliseconds and several joules apart. So each interval begins and ends with a
    tick, and the device is busy all the time: its mean power during an interval, times the mean time of a prepared run,
    is the energy of a prepared run. Each run is prepared like a timed one, because a kernel may do less work if its
    output already holds the answer. The energy of the preparation alone is measured in the same way and subtracted.
    """

    def __init__(self, device: Device, conditions: RunConditions) -> None:
        self._device, self._conditions = device, conditions
        self._preparation: tuple[float, ...] | None = None

    def measure(
        self, call: Callable[[], None], time_ms: float, goes_on: Callable[[list[float]], bool]
    ) -> tuple[float, ...]:
        """The energy of one run of `call` in mJ, once for each interval; `time_ms` is its approximate time.

        Another interval follows as long as `goes_on`, which is asked with the energies so far, is true. Empty if the
        board has no energy counter, or if the noise of the preparation's energy exceeds the energy of a run. Raises
        LaunchError or WrongResult.
        """
        self._conditions.expect(call)
        if self._preparation is None:
            self._preparation = tuple(self._intervals(lambda: None, 0.1, lambda found: len(found) < INTERVALS))
        preparation = self._preparation
        if not preparation:
            return ()
        spent, noise = fmean(preparation), max(preparation) - min(preparation)
        together = self._intervals(call, time_ms, lambda found: goes_on([energy - spent for energy in found]))
        self._conditions.check()
        energies = tuple(energy - spent for energy in together)
        return energies if energies and median(energies) > noise and min(energies) > 0 else ()

    def _intervals(
        self, call: Callable[[], None], time_ms: float, goes_on: Callable[[list[float]], bool]
    ) -> list[float]:
        """The mean energy in mJ of a prepared run of `call`, once for each interval; empty without a counter."""
        sensors = self._device.sensors
        if sensors is None or sensors.energy_mj() is None:
            return []
        runs = _PreparedRuns(self._device, self._conditions, call, time_ms)
        energies: list[float] = []
        try:
            runs.wait(WARM_UP_SECONDS)
            tick = _next_tick(sensors, runs)
            while tick is not None and goes_on(energies):
                runs.restart()
                began = tick
                runs.wait(INTERVAL_SECONDS, since=began.seconds)
                if (tick := _next_tick(sensors, runs)) is not None:
                    power = (tick.energy_mj - began.energy_mj) / (tick.seconds - began.seconds)  # mW
                    energies.append(power * runs.mean_ms / 1e3)
        finally:
            runs.close()
        return energies


class _Tick:
    """A moment at which the counter moved."""

    def __init__(self, seconds: float, energy_mj: int) -> None:
        self.seconds, self.energy_mj = seconds, energy_mj


def _next_tick(sensors: Sensors, runs: _PreparedRuns) -> _Tick | None:
    """The next move of the counter, while the runs go on; None if it does not move for LONGEST_TICK."""
    before, deadline = sensors.energy_mj(), time.perf_counter() + LONGEST_TICK
    while time.perf_counter() < deadline:
        energy = sensors.energy_mj()
        if energy is None or before is None:
            return None
        if energy != before:
            return _Tick(time.perf_counter(), energy)
        runs.go_on()
    return None


class _PreparedRuns:
    """Prepared runs of a call, back to back."""

    def __init__(self, device: Device, conditions: RunConditions, call: Callable[[], None], time_ms: float) -> None:
        self._device = device
        self._count = max(1, min(MOST_IN_BATCH, math.ceil(BATCH_MS / max(time_ms, 0.1))))
        self._times: list[float] = []  # the mean time of a prepared run in each batch since `restart`, in ms

        def prepared_run() -> None:
            conditions.prepare()
            call()

        self._batches = batches(device, prepared_run, self._count)

    def restart(self) -> None:
        """Forget the times so far."""
        self._times.clear()

    @property
    def mean_ms(self) -> float:
        """The mean time of a prepared run since `restart`, in ms."""
        return fmean(self._times)

    def go_on(self) -> None:
        """Enqueue another batch if one has ended; otherwise wait for POLL_SECONDS."""
        if (time_ms := next(self._batches)) is None:
            time.sleep(POLL_SECONDS)
        else:
            self._times.append(time_ms / self._count)

    def wait(self, seconds: float, since: float | None = None) -> None:
        """Go on until `seconds` after the moment `since` (default: now), and for at least one batch."""
        end = (time.perf_counter() if since is None else since) + seconds
        while time.perf_counter() < end or not self._times:
            self.go_on()

    def close(self) -> None:
        """Wait for what is enqueued."""
        self._batches.close()
        self._device.synchronize()
