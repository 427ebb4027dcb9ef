"""Candidates measured again, interleaved, so that clocks and temperature are the same for all of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import median, quantiles
from typing import Any

from tuner.devices.base import Device, Timer

MIN_ROUNDS, MAX_ROUNDS = 5, 50
FINAL_SECONDS = 3.0


@dataclass(frozen=True)
class Final:
    """Times in ms of one candidate, one a round, or why it has none. `library` names the vendor's routine, where it
    is that."""

    times: tuple[float, ...] = ()
    library: str | None = None
    failure: str | None = None

    @property
    def time_ms(self) -> float:
        """The median."""
        return median(self.times)

    @property
    def spread(self) -> float:
        """Interquartile range over median."""
        if len(self.times) < 2:
            return 0.0
        low, _, high = quantiles(self.times, n=4)
        return (high - low) / self.time_ms

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Final:
        return Final(tuple(data["times"]), data["library"], data["failure"])


def interleave(
    device: Device, calls: Sequence[Callable[[], None]], seconds: float = FINAL_SECONDS
) -> list[tuple[float, ...]]:
    """Times in ms of every call once a round, after one round to warm up: MIN_ROUNDS to MAX_ROUNDS, about `seconds` in
    all.

    A call that follows another is not slowed by clocks that idled meanwhile, as one measured alone after a
    compilation is. Raises LaunchError where a call fails.
    """
    timer = device.timer()
    rounds: list[list[float]] = []
    began = time.perf_counter()
    while calls and (len(rounds) <= MIN_ROUNDS or (len(rounds) <= MAX_ROUNDS and time.perf_counter() - began < seconds)):
        rounds.append([timed(device, timer, call) for call in calls])
    return list(zip(*rounds[1:], strict=True))


def timed(device: Device, timer: Timer, call: Callable[[], None]) -> float:
    """Time of one call in ms, waited for."""
    device.synchronize()
    timer.start()
    call()
    timer.stop()
    device.synchronize()
    return timer.milliseconds()
