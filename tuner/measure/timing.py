"""Candidates measured again, interleaved, so that clocks and temperature are the same for all of them."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from statistics import median, quantiles
from typing import Any

from tuner.devices.base import Device

MIN_ROUNDS, MAX_ROUNDS = 5, 50
ENQUEUE_MS = 0.2  # several times what a library called through Python needs on a busy host
WARMED_MS = 1.0  # what a longer call finds in the caches matters little
FINAL_SECONDS = 3.0
ENERGY_SECONDS = 1.0  # a board counts its energy some ten times a second


def spread(times: Sequence[float]) -> float:
    """Interquartile range over median; 0 of fewer than two."""
    if len(times) < 2:
        return 0.0
    low, middle, high = quantiles(times, n=4)
    return (high - low) / middle


@dataclass(frozen=True)
class Final:
    """Times in ms of one candidate, one a round, or why it has none. `library` names the vendor's routine, where it
    is that; `energy_mj` is the energy of one run, where that was asked for."""

    times: tuple[float, ...] = ()
    library: str | None = None
    failure: str | None = None
    energy_mj: float | None = None

    @property
    def time_ms(self) -> float:
        """The median."""
        return median(self.times)

    @property
    def spread(self) -> float:
        """Interquartile range over median."""
        return spread(self.times)


@dataclass(frozen=True)
class Finals:
    """One Final for each candidate, in order; the vendor's library, where there is one; the median clock in MHz while
    they ran, and what held it down."""

    candidates: list[Final] = field(default_factory=list)
    library: Final | None = None
    clock_mhz: float | None = None
    throttled: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Finals:
        candidates = [_final(one) for one in data["candidates"]]
        library = _final(data["library"]) if data["library"] else None
        return Finals(candidates, library, data["clock_mhz"], data["throttled"])


def _final(data: Mapping[str, Any]) -> Final:
    return Final(**{**data, "times": tuple(data["times"])})


@dataclass
class Rounds:
    """What interleaving measured: for each call its times in ms; the clocks in MHz; what held them down."""

    times: list[tuple[float, ...]]
    clocks: list[int]
    throttled: set[str]


def interleave(
    device: Device, calls: Sequence[Callable[[], None]], seconds: float = FINAL_SECONDS, cold: bool = False
) -> Rounds:
    """Times of every call once a round, after one round to warm up: MIN_ROUNDS to MAX_ROUNDS, about `seconds` in all.

    A call that follows another is not slowed by clocks that idled meanwhile, as one measured alone after a
    compilation is. `cold`: with caches flushed before each. Raises LaunchError where a call fails.
    """
    stopwatch = Stopwatch(device, cold)
    rounds = [[stopwatch.time(call) for call in calls]]
    seen = Rounds([], [], set())
    began = time.perf_counter()
    while calls and (
        len(rounds) <= MIN_ROUNDS or (len(rounds) <= MAX_ROUNDS and time.perf_counter() - began < seconds)
    ):
        rounds.append([stopwatch.time(call, last) for call, last in zip(calls, rounds[-1], strict=True)])
        if device.sensors is not None:
            seen.clocks.append(device.sensors.clock_mhz() or 0)
            seen.throttled.update(device.sensors.throttled())
    seen.times = list(zip(*rounds[1:], strict=True))
    return seen


def energy(device: Device, call: Callable[[], None], time_ms: float) -> float | None:
    """Millijoules of one run of `call`, which takes about `time_ms`, from ENERGY_SECONDS of runs one after another;
    None where the board does not count them. Raises LaunchError."""
    sensors = device.sensors
    before = sensors.energy_mj() if sensors else None
    if sensors is None or before is None:
        return None
    runs, began = 0, time.perf_counter()
    batch = max(1, math.ceil(50 / time_ms))
    while time.perf_counter() - began < ENERGY_SECONDS:
        for _ in range(batch):
            call()
        device.synchronize()
        runs += batch
    after = sensors.energy_mj()
    return (after - before) / runs if after is not None else None


class Stopwatch:
    """Times single calls on a device, each waited for; with caches flushed before each if `cold`."""

    def __init__(self, device: Device, cold: bool = False) -> None:
        self.timer = device.timer()
        self._device, self._cold = device, cold

    def start(self, call: Callable[[], None], expected_ms: float) -> None:
        """Start the clock for `call`, which takes about `expected_ms`.

        A short call is run just before, so that it finds in the caches what it left there. A device that waits for its
        host counts that wait as time, and a library called through Python makes it wait longer than a packed launch
        does. So the device is kept busy meanwhile, as nvbench's blocking kernel does it.
        """
        self._device.synchronize()
        if self._cold:
            self._device.flush()
        elif self._device.asynchronous and expected_ms < WARMED_MS:
            call()
        if self._device.asynchronous:
            self._device.occupy(ENQUEUE_MS)
        self.timer.start()

    def time(self, call: Callable[[], None], expected_ms: float = math.inf) -> float:
        """Time of one call in ms. Raises LaunchError."""
        self.start(call, expected_ms)
        call()
        self.timer.stop()
        self._device.synchronize()
        return self.timer.milliseconds()
