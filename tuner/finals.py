"""Candidates measured again, interleaved, so that clocks and temperature are the same for all of them."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import median, quantiles
from typing import Any

from tuner.devices.base import Device

MIN_ROUNDS, MAX_ROUNDS = 5, 50
ENQUEUE_MS, MOST_PRIMING = 0.05, 20
PRIMED_MS = 1.0  # a launch delay of microseconds is nothing to a call that takes longer
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
    stopwatch = Stopwatch(device)
    rounds = [[stopwatch.time(call) for call in calls]]
    began = time.perf_counter()
    while calls and (
        len(rounds) <= MIN_ROUNDS or (len(rounds) <= MAX_ROUNDS and time.perf_counter() - began < seconds)
    ):
        rounds.append([stopwatch.time(call, last) for call, last in zip(calls, rounds[-1], strict=True)])
    return list(zip(*rounds[1:], strict=True))


class Stopwatch:
    """Times single calls on a device, each waited for."""

    def __init__(self, device: Device) -> None:
        self.timer = device.timer()
        self._device = device

    def start(self, call: Callable[[], None], expected_ms: float) -> None:
        """Start the clock for `call`, which takes about `expected_ms`.

        A device that waits for its host counts that wait as time, and a library called through Python makes it wait
        longer than a packed launch does. So a short call is run, unwaited for, just before the clock starts, often
        enough to keep the device busy for ENQUEUE_MS: meanwhile the host enqueues the one that counts.
        """
        self._device.synchronize()
        if self._device.asynchronous and expected_ms < PRIMED_MS:
            for _ in range(max(1, min(MOST_PRIMING, math.ceil(ENQUEUE_MS / max(expected_ms, 1e-3))))):
                call()
        self.timer.start()

    def time(self, call: Callable[[], None], expected_ms: float = math.inf) -> float:
        """Time of one call in ms. Raises LaunchError."""
        self.start(call, expected_ms)
        call()
        self.timer.stop()
        self._device.synchronize()
        return self.timer.milliseconds()
