"""Timing: the clock, its warm-up, rounds that take turns, the race against the best, and energy."""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import quantiles

from tuner.devices.base import Device

MIN_ROUNDS, MAX_ROUNDS = 5, 50
ENQUEUE_MS = 0.2  # several times what a library called through Python needs to enqueue on a busy host
WARMED_MS = 1.0  # a longer call gains little from warm caches
FINAL_SECONDS = 3.0
ENERGY_SECONDS = 1.0  # a board updates its energy counter some ten times per second
RACE = 1.5
START_UP_MS = 1.0  # by which a kernel's first run may exceed the later ones
STEADY = 0.01
MOST_BATCHES = 3


def spread(times: Sequence[float]) -> float:
    """Interquartile range over median; 0 for fewer than two times."""
    if len(times) < 2:
        return 0.0
    low, middle, high = quantiles(times, n=4)
    return (high - low) / middle


class Race:
    """Decides how often a configuration is timed, against the best one so far, whose median is `best_ms`.

    A configuration is stopped after one run that takes more than RACE times `best_ms`. The best configuration itself
    would be stopped only by a run that much slower than its own median. Another batch of runs follows, up to
    MOST_BATCHES in all, while more than a quarter of the times lie below `best_ms` and their spread exceeds STEADY.

    `best_ms` is infinite before the first configuration: nothing is stopped. None turns both rules off.
    """

    def __init__(self, best_ms: float | None) -> None:
        self._best_ms = best_ms
        self._hopeless_ms = math.inf if best_ms is None else RACE * best_ms

    def is_lost(self, time_ms: float, start_up_ms: float = 0.0) -> bool:
        """Whether a run of `time_ms` stops the configuration; up to `start_up_ms` of it is due to a first run."""
        return time_ms > self._hopeless_ms + start_up_ms

    def is_open(self, times: Sequence[float], batch: int) -> bool:
        """Whether `batch` more runs could still show that the configuration is the best."""
        if self._best_ms is None or len(times) >= MOST_BATCHES * batch:
            return False
        return spread(times) > STEADY and quantiles(times, n=4)[0] < self._best_ms


@dataclass(frozen=True)
class Rounds:
    """Interleaved measurements: the times of each call in ms, the clocks in MHz, and what throttled them."""

    times: list[tuple[float, ...]]
    clocks: list[int]
    throttled: set[str]


def interleave(
    device: Device, calls: Sequence[Callable[[], None]], seconds: float = FINAL_SECONDS, cold: bool = False
) -> Rounds:
    """Time every call once per round, for MIN_ROUNDS to MAX_ROUNDS rounds and about `seconds`, after a warm-up round.

    Calls that follow one another find the device at its working clocks. A call that is timed alone after a compilation
    finds it idle. `cold` flushes the caches before each call. Raises LaunchError where a call fails.
    """
    stopwatch = Stopwatch(device, cold)
    rounds = [[stopwatch.time(call) for call in calls]]
    clocks: list[int] = []
    throttled: set[str] = set()
    began = time.perf_counter()
    while calls and (
        len(rounds) <= MIN_ROUNDS or (len(rounds) <= MAX_ROUNDS and time.perf_counter() - began < seconds)
    ):
        rounds.append([stopwatch.time(call, last) for call, last in zip(calls, rounds[-1], strict=True)])
        if device.sensors is not None:
            clocks.append(device.sensors.clock_mhz() or 0)
            throttled.update(device.sensors.throttled())
    return Rounds(list(zip(*rounds[1:], strict=True)), clocks, throttled)


def energy(device: Device, call: Callable[[], None], time_ms: float) -> float | None:
    """Energy of one run of `call` in mJ: the mean over ENERGY_SECONDS of back-to-back runs of about `time_ms` each.

    None where the board has no energy counter. Raises LaunchError.
    """
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
    """Times one call at a time on a device and waits for each; `cold` flushes the caches before each."""

    def __init__(self, device: Device, cold: bool = False) -> None:
        self.timer = device.timer()
        self._device, self._cold = device, cold

    def start(self, call: Callable[[], None], expected_ms: float) -> None:
        """Start the clock for `call`, which takes about `expected_ms`.

        A short call runs once before, to warm the caches. A device that waits for its host counts the wait as time,
        and a library called through Python makes it wait longer than a packed launch does. So the device is kept busy
        until the call is enqueued, as nvbench does with its blocking kernel.
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


class TimedLaunch:
    """A launch that is timed while it is verified, without a wait of its own."""

    def __init__(self, device: Device, call: Callable[[], None]) -> None:
        self._timer, self._call = device.timer(), call

    def __call__(self) -> None:
        self._timer.start()
        self._call()
        self._timer.stop()

    @property
    def time_ms(self) -> float:
        return self._timer.milliseconds()
