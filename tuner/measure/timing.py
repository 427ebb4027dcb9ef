"""Time: the clock, its warm-up, rounds that take turns, the race against the best, and energy."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import quantiles

from tuner.devices.base import Device

MIN_ROUNDS, MAX_ROUNDS = 5, 50
ENQUEUE_MS = 0.2  # several times what a library called through Python needs on a busy host
WARMED_MS = 1.0  # what a longer call finds in the caches matters little
FINAL_SECONDS = 3.0
ENERGY_SECONDS = 1.0  # a board counts its energy some ten times a second
RACE = 1.5
START_UP_MS = 1.0  # what a kernel's very first run may take more than the later ones
STEADY = 0.01
MOST_BATCHES = 3


def spread(times: Sequence[float]) -> float:
    """Interquartile range over median; 0 of fewer than two."""
    if len(times) < 2:
        return 0.0
    low, middle, high = quantiles(times, n=4)
    return (high - low) / middle


class Race:
    """How long a configuration is timed beside the fastest one so far, whose median is `best_ms`.

    A run that takes more than RACE times as long is its configuration's only one: a run of the best configuration
    would have to be that much slower than its own median to be stopped. Where more than a quarter of the times lie
    below `best_ms` and they spread by more than STEADY, as many again are taken, up to MOST_BATCHES times. Before the
    first configuration `best_ms` is infinite, and nothing is stopped; None means that nothing is raced or repeated.
    """

    def __init__(self, best_ms: float | None) -> None:
        self._best_ms = best_ms
        self._hopeless_ms = math.inf if best_ms is None else RACE * best_ms

    def is_lost(self, time_ms: float, start_up_ms: float = 0.0) -> bool:
        """Whether one run of `time_ms`, of which `start_up_ms` may be the first run's alone, decides it."""
        return time_ms > self._hopeless_ms + start_up_ms

    def is_open(self, times: Sequence[float], batch: int) -> bool:
        """Whether `batch` more times could change what these say about being the best."""
        if self._best_ms is None or len(times) >= MOST_BATCHES * batch:
            return False
        return spread(times) > STEADY and quantiles(times, n=4)[0] < self._best_ms


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
