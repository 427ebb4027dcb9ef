"""Timing: the clock, what comes before and after each run, and rounds that take turns."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median, quantiles
from typing import TYPE_CHECKING, Protocol

from tuner.errors import WrongResult

if TYPE_CHECKING:
    from tuner.devices.base import Device

MIN_ROUNDS, MAX_ROUNDS = 5, 50
ENQUEUE_MS = 0.2  # several times what a library called through Python needs to enqueue on a busy host
FINAL_SECONDS, QUICK_SECONDS = 3.0, 0.25
START_UP_MS = 1.0  # by which a kernel's first run may exceed the later ones
NOISE = 0.5  # a spread that says more of the machine than of the kernel
STEADY_ROUNDS = 10  # after which the final round may end early
RIVAL = 1.05  # times the fastest; what takes longer need not be known as well
RESOLUTION = 0.001  # of a median that is known
UNCHECKED = 9  # runs
LONGER = 4  # times as many rounds, in as many times the seconds, while the times are noise


def spread(times: Sequence[float]) -> float:
    """Interquartile range over median; 0 for fewer than two times."""
    if len(times) < 2:
        return 0.0
    low, middle, high = quantiles(times, n=4)
    return (high - low) / middle


class Conditions(Protocol):
    """What each timed run begins with, and what is looked at after it."""

    def expect(self, call: Callable[[], None]) -> None:
        """The next runs are of this call."""
        ...

    def share(self, runs: int) -> int:
        """The next `runs` runs find the same set of inputs, the number of which is returned. Sets take turns."""
        ...

    def prepare(self) -> None:
        """Enqueue what makes the arrays ready for a run."""
        ...

    def check(self) -> None:
        """Compare what the run has left. Raises WrongResult."""
        ...


class Undisturbed:
    """Conditions of runs that nothing comes before or after, of calls without inputs."""

    def expect(self, call: Callable[[], None]) -> None:
        """All calls are alike."""

    def share(self, runs: int) -> int:
        """There is one set of inputs: none."""
        return 0

    def prepare(self) -> None:
        """Nothing to prepare."""

    def check(self) -> None:
        """Nothing to compare."""


@dataclass(frozen=True)
class Rounds:
    """Interleaved measurements: the times of each call in ms, none where it was wrong in a round; the errors of those
    calls by position; the clocks in MHz, and what throttled them."""

    times: list[tuple[float, ...]]
    errors: dict[int, WrongResult]
    clocks: list[int]
    throttled: set[str]


def interleave(
    device: Device,
    stopwatch: Stopwatch,
    calls: Sequence[Callable[[], None]],
    seconds: float = FINAL_SECONDS,
    went_wrong: Callable[[int, WrongResult], None] = lambda *_: None,
) -> Rounds:
    """Time every call once per round, for MIN_ROUNDS to MAX_ROUNDS rounds and about `seconds`, after a warm-up round.

    All calls of a round find the same inputs, and their times are `evened`: a kernel's work may depend on its inputs.
    The rounds end earlier where the times of the fastest and of its rivals are steady. Calls that follow one another
    find the device at its working clocks. A call that is timed alone after a compilation finds it idle. A call that is
    wrong in a round takes no part in later ones, and `went_wrong` hears of its position at once. While the times of the
    fastest are noise, there are up to LONGER times as many rounds. Raises LaunchError where a call fails.
    """
    times: dict[int, list[float]] = {position: [] for position in range(len(calls))}
    errors: dict[int, WrongResult] = {}
    clocks: list[int] = []
    throttled: set[str] = set()
    began, rounds = time.perf_counter(), 0
    inputs: list[int] = []  # of each round

    def counted() -> dict[int, tuple[float, ...]]:
        return {position: evened(taken[1:], inputs[1:]) for position, taken in times.items()}

    while times and (rounds <= MIN_ROUNDS or _goes_on(counted(), rounds, (time.perf_counter() - began) / seconds)):
        inputs.append(stopwatch.share(len(times)))
        for position in list(times):
            try:
                times[position].append(stopwatch.time(calls[position]))
            except WrongResult as error:
                errors[position] = error
                del times[position]
                went_wrong(position, error)
        if rounds == 0:
            began = time.perf_counter()
        elif device.sensors is not None:
            clocks.append(device.sensors.clock_mhz() or 0)
            throttled.update(device.sensors.throttled())
        rounds += 1
    found = counted()
    return Rounds([found.get(i, ()) for i in range(len(calls))], errors, clocks, throttled)


def evened(times: Sequence[float], inputs: Sequence[int]) -> tuple[float, ...]:
    """The times, each found with the set of `inputs` beside it, as if every set took what they take on average."""
    medians = {
        each: median(taken for taken, found in zip(times, inputs, strict=True) if found == each) for each in set(inputs)
    }
    middle = fmean(medians.values()) if medians else 0.0
    return tuple(taken * middle / medians[found] for taken, found in zip(times, inputs, strict=True))


def _goes_on(times: Mapping[int, Sequence[float]], rounds: int, share: float) -> bool:
    """Whether another round follows `rounds`, after this share of the seconds that they should take."""
    fastest = min(times.values(), key=median)
    longer = LONGER if spread(fastest) > NOISE else 1
    if rounds > longer * MAX_ROUNDS or share >= longer:
        return False
    rivals = (taken for taken in times.values() if median(taken) <= RIVAL * median(fastest))
    return rounds <= STEADY_ROUNDS or not all(map(_is_known, rivals))


def _is_known(times: Sequence[float]) -> bool:
    """Whether the median of normally distributed times has a standard error of RESOLUTION at most, which is 0.93 times
    the interquartile range over the root of their number (Kendall and Stuart, The Advanced Theory of Statistics)."""
    return 0.93 * spread(times) <= RESOLUTION * math.sqrt(len(times))


class Stopwatch:
    """Times one call at a time on a device and waits for each; `cold` flushes the caches before each."""

    def __init__(self, device: Device, conditions: Conditions, cold: bool = False) -> None:
        self.timer = device.timer()
        self._device, self._conditions, self._cold = device, conditions, cold

    def expect(self, call: Callable[[], None]) -> None:
        """The next runs are of this call."""
        self._conditions.expect(call)

    def share(self, runs: int) -> int:
        """The next `runs` runs find the same set of inputs, the number of which is returned. Sets take turns."""
        return self._conditions.share(runs)

    def start(self) -> None:
        """Prepare a run, and start the clock.

        A device that waits for its host counts the wait as time, and a library called through Python makes it wait
        longer than a packed launch does. So the device is kept busy until the call is enqueued, as nvbench does with
        its blocking kernel.
        """
        self._device.synchronize()
        self._conditions.prepare()
        if self._cold:
            self._device.flush()
        if self._device.asynchronous:
            self._device.occupy(ENQUEUE_MS)
        self.timer.start()

    def finish(self) -> float:
        """The time in ms of the run that has ended. Raises WrongResult where it left something wrong."""
        time_ms = self.timer.milliseconds()
        self._conditions.check()
        return time_ms

    def time(self, call: Callable[[], None]) -> float:
        """Time of one call in ms. Raises LaunchError, WrongResult."""
        self.expect(call)
        self.start()
        call()
        self.timer.stop()
        self._device.synchronize()
        return self.finish()

    def unchecked(self, call: Callable[[], None]) -> float:
        """Median time in ms of UNCHECKED runs of a call that leaves nothing to compare. Raises LaunchError."""
        self.expect(call)
        times = list[float]()
        for _ in range(1 + UNCHECKED):
            self.start()
            call()
            self.timer.stop()
            self._device.synchronize()
            times.append(self.timer.milliseconds())
        return median(times[1:])  # the first run of a kernel takes longer


class StageWatch:
    """Adds up the seconds of each stage of a trial, on the host's clock; a stage that fails counts too."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextlib.contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """A block that belongs to the stage `name`."""
        began = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - began


class TimedLaunch:
    """A launch that is timed while it is verified, without a wait of its own."""

    def __init__(self, device: Device, call: Callable[[], None]) -> None:
        self._timer, self.call = device.timer(), call

    def __call__(self) -> None:
        self._timer.start()
        self.call()
        self._timer.stop()

    @property
    def time_ms(self) -> float:
        return self._timer.milliseconds()
