"""Sustained times: launches back to back for seconds, within the board's power and temperature limits."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING

from tuner.errors import WrongResult
from tuner.measure.results import Sustained
from tuner.measure.timing.batches import batches, next_ms

if TYPE_CHECKING:
    from tuner.devices.base import Device
    from tuner.measure.timing.clock import RunConditions

SECONDS = 2.0  # least measured time of each period
WARM_UP = 0.25  # warm-up before a period, as a fraction of its measured time
LEAST_SUSTAINED_MS = 0.025  # a shorter run ends before the host has enqueued the next one
BATCH_MS, MOST_IN_BATCH = 20.0, 256  # a batch: the launches between two sensor readings; the driver queues about 1000


@dataclass
class _Tally:
    """Totals over all periods of one call."""

    launches: int = 0
    ms: float = 0.0
    seconds: float = 0.0
    energy_mj: float = 0.0  # 0 if the board has no energy counter
    clocks: list[int] = field(default_factory=list)

    def sustained(self) -> Sustained:
        power = self.energy_mj / 1e3 / self.seconds if self.energy_mj else None
        return Sustained(self.ms / self.launches, median(self.clocks) if self.clocks else None, power)


def sustain(
    device: Device,
    conditions: RunConditions,
    calls: Sequence[tuple[Callable[[], None], float]],
    seconds: float,
) -> list[Sustained | None]:
    """Launch each of `calls` back to back in periods of `seconds`.

    Several calls get two periods each, in mirrored order. Each call is given with the time of one run in ms. Raises
    WrongResult if the first call becomes wrong, and LaunchError if any call fails to launch. None stands for any other
    call that becomes wrong.
    """
    tallies: dict[int, _Tally] = {position: _Tally() for position in range(len(calls))}
    for position in [*tallies, *reversed(tallies)] if len(calls) > 1 else [0]:
        call, time_ms = calls[position]
        if position not in tallies:
            continue
        conditions.expect(call)
        conditions.prepare()
        try:
            _run_period(device, call, time_ms, seconds, tallies[position])
            if conditions.may_repeat():  # otherwise, the answer after several runs is unknown
                conditions.check()
        except WrongResult:
            if position == 0:
                raise
            del tallies[position]
    return [tallies[position].sustained() if position in tallies else None for position in range(len(calls))]


def _run_period(device: Device, call: Callable[[], None], time_ms: float, seconds: float, tally: _Tally) -> None:
    """Add one period to the tally."""
    count = max(1, min(MOST_IN_BATCH, math.ceil(BATCH_MS / time_ms)))
    running = batches(device, call, count)
    warming_ms = WARM_UP * seconds * 1e3
    while warming_ms > 0:
        warming_ms -= next_ms(running)
    began, energy, remaining_ms = time.perf_counter(), _energy(device), seconds * 1e3
    while remaining_ms > 0:
        remaining_ms -= (ms := next_ms(running))
        tally.ms += ms
        tally.launches += count
        if device.sensors is not None and (clock := device.sensors.clock_mhz()) is not None:
            tally.clocks.append(clock)
    final_energy, took = _energy(device), time.perf_counter() - began
    running.close()
    device.synchronize()
    if energy is not None and final_energy is not None:
        tally.energy_mj += final_energy - energy
    tally.seconds += took


def _energy(device: Device) -> int | None:
    return device.sensors.energy_mj() if device.sensors is not None else None
