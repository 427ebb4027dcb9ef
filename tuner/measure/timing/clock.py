"""Timing of launches: the stopwatch, what precedes and follows each run, and interleaved rounds."""

from __future__ import annotations

import contextlib
import math
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import fmean, median, quantiles
from typing import TYPE_CHECKING, Protocol, TypeVar

from tuner.classes import dataclass
from tuner.errors import WrongResult
from tuner.measure.timing.deployed import Deployed
from tuner.space.deployments import ISOLATED, REPEATED, Deployment

if TYPE_CHECKING:
    from tuner.devices.base import Device

Call = TypeVar("Call", contravariant=True)
MIN_ROUNDS, MAX_ROUNDS = 5, 50
ENQUEUE_MS = 0.2  # several times what a Python call into a vendor library needs to enqueue its kernel on a busy host
LAUNCH_MS, GRAPH_MS = 0.01, 0.002  # several times what each further launch of a loop needs, and each one in a graph
MOST_ENQUEUED = 200  # launches that a device may enqueue one by one; more are a graph, if it has graphs
FINAL_SECONDS, QUICK_SECONDS = 3.0, 0.25
START_UP_MS = 1.0  # by how much a kernel's first run may exceed later ones
NOISE = 0.5  # a spread above this is due to the machine, not to the kernel
STEADY_ROUNDS = 10  # rounds after which the final round may end early
RIVAL = 1.05  # times the fastest; slower calls need no precise median
RESOLUTION = 0.001  # largest relative standard error of a precise median
UNCHECKED = 9  # runs in `Stopwatch.unchecked`
LONGER = 4  # times as many rounds and seconds while the times are noise
_CHANCE = random.SystemRandom()


def spread(times: Sequence[float]) -> float:
    """Interquartile range over median; 0 for fewer than two times."""
    if len(times) < 2:
        return 0.0
    low, middle, high = quantiles(times, n=4)
    return (high - low) / middle


class RunConditions:
    """What precedes and follows each timed run. Those of this class are for calls without inputs: nothing is prepared,
    and nothing is checked."""

    def expect(self, call: Callable[[], None]) -> None:
        """Announce that the next runs launch `call`."""

    def pin_inputs(self, runs: int) -> int:
        """Use one input set for the next `runs` runs and return its number. Sets alternate between calls."""
        return 0

    def prepare(self) -> None:
        """Enqueue the preparation of the arrays for a run."""

    def check(self) -> None:
        """Compare the outputs of the run. Raises WrongResult."""

    def may_repeat(self) -> bool:
        """Whether several launches give the outputs of one, because none reads what another one wrote."""
        return True


class Clock(Protocol[Call]):
    """Times one call at a time."""

    def pin_inputs(self, runs: int) -> int:
        """Use one input set for the next `runs` runs and return its number. Sets alternate between calls."""
        ...

    def time(self, call: Call) -> float:
        """The time of one run in ms. Raises LaunchError or WrongResult."""
        ...


@dataclass(frozen=True)
class Rounds:
    """Interleaved measurements.

    `times` are the times of each call in ms, empty if it was wrong in a round; `errors` are those calls' errors by
    position. `clocks` are the clocks in MHz, and `throttled` the reasons why the board lowered them.
    """

    times: list[tuple[float, ...]]
    errors: dict[int, WrongResult]
    clocks: list[int]
    throttled: set[str]


def interleave(
    device: Device,
    stopwatch: Clock[Call],
    calls: Sequence[Call],
    seconds: float = FINAL_SECONDS,
    went_wrong: Callable[[int, WrongResult], None] = lambda *_: None,
    most_rounds: int = MAX_ROUNDS,
) -> Rounds:
    """Time every call once per round, in an order that chance decides, after a warm-up round.

    There are MIN_ROUNDS to `most_rounds` rounds in about `seconds`. They end early once the median times of the fastest
    call and its rivals are precise. While the fastest call's times are noise, there may be LONGER times as many.

    Interleaved calls all run at the device's working clocks; a call timed alone after a compilation finds an idle
    device. What a call leaves in the caches changes the time of the next one, which is another one in each round. All
    calls of a round use the same inputs, and times are normalised by input set, because a kernel's work may depend on
    its inputs. A call that is wrong in a round skips later ones, and `went_wrong` is called at once with its position
    and error. Raises LaunchError if a call fails to run.
    """
    times: dict[int, list[float]] = {position: [] for position in range(len(calls))}
    errors: dict[int, WrongResult] = {}
    clocks: list[int] = []
    throttled: set[str] = set()
    began, rounds = time.perf_counter(), 0
    input_sets: list[int] = []  # the number of each round's set

    def normalised() -> dict[int, tuple[float, ...]]:
        return {position: normalised_by_input(series[1:], input_sets[1:]) for position, series in times.items()}

    def continues() -> bool:
        return _continues(normalised(), rounds, (time.perf_counter() - began) / seconds, most_rounds)

    while times and (rounds <= MIN_ROUNDS or continues()):
        input_sets.append(stopwatch.pin_inputs(len(times)))
        for position in _CHANCE.sample([*times], len(times)):
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
    final = normalised()
    return Rounds([final.get(i, ()) for i in range(len(calls))], errors, clocks, throttled)


def normalised_by_input(times: Sequence[float], input_sets: Sequence[int]) -> tuple[float, ...]:
    """Scale times so that every input set has the same median, the mean of the sets' medians.

    `input_sets` has the number of the set that each time was measured with.
    """
    medians = {
        each: median(time_ms for time_ms, used in zip(times, input_sets, strict=True) if used == each)
        for each in set(input_sets)
    }
    middle = fmean(medians.values()) if medians else 0.0
    return tuple(time_ms * middle / medians[used] for time_ms, used in zip(times, input_sets, strict=True))


def _continues(times: Mapping[int, Sequence[float]], rounds: int, elapsed: float, most_rounds: int) -> bool:
    """Whether another round follows `rounds`; `elapsed` is the time so far as a fraction of the intended time."""
    fastest = min(times.values(), key=median)
    longer = LONGER if spread(fastest) > NOISE else 1
    if rounds > longer * most_rounds or elapsed >= longer:
        return False
    rivals = (series for series in times.values() if median(series) <= RIVAL * median(fastest))
    return rounds <= STEADY_ROUNDS or not all(map(_is_precise, rivals))


def _is_precise(times: Sequence[float]) -> bool:
    """Whether the median of the times has a relative standard error of RESOLUTION at most.

    For normally distributed times, the standard error of the median is 0.93 times the interquartile range over the root
    of their number (Kendall and Stuart, The Advanced Theory of Statistics).
    """
    return 0.93 * spread(times) <= RESOLUTION * math.sqrt(len(times))


class Stopwatch:
    """Times one call at a time on a device and waits for it. `flush` empties the caches before each run.

    A call is made as in the program that it is measured for, its `deployment`.
    """

    def __init__(
        self,
        device: Device,
        conditions: RunConditions,
        flush: Callable[[], None] | None = None,
        deployment: Deployment = ISOLATED,
    ) -> None:
        self.timer = device.timer()
        self._device, self._conditions, self._flush, self._deployment = device, conditions, flush, deployment
        # Of the call that runs next. The call itself is not kept: its arrays are freed before the next one is bound.
        self._enqueue_ms, self._count, self._is_eager = ENQUEUE_MS, 1, False

    def expect(self, call: Callable[[], None]) -> Callable[[], None]:
        """Announce that the next runs launch `call`. Returns the call as a program makes it. Raises LaunchError."""
        may_repeat = self._deployment in REPEATED and self._conditions.may_repeat()
        deployed = Deployed(call, self._deployment, may_repeat)
        self._count, self._is_eager = deployed.count, deployed.is_eager
        each, count = getattr(call, "launches", 1), deployed.count
        further = each * count - 1
        in_graph = further if deployed.is_graph else count * max(0, each - 1 - MOST_ENQUEUED)
        self._enqueue_ms = ENQUEUE_MS + LAUNCH_MS * (further - in_graph) + GRAPH_MS * in_graph
        self._conditions.expect(call)
        return deployed.call

    def pin_inputs(self, runs: int) -> int:
        """Use one input set for the next `runs` runs and return its number. Sets alternate between calls."""
        return self._conditions.pin_inputs(runs)

    def start(self) -> None:
        """Prepare a run and start the timer.

        If an asynchronous device waits for its host, the timer counts the wait, which is longer for a library called
        through Python than for a packed launch. So the device is kept busy until the call is enqueued, as nvbench does
        with its blocking kernel.
        """
        self._device.synchronize()
        self._conditions.prepare()
        if self._flush is not None:
            self._flush()
        if self._is_eager:
            self._device.synchronize()  # so that it waits for the launches, as in a program
        elif self._device.asynchronous:
            self._device.occupy(self._enqueue_ms)
        self.timer.start()

    def finish(self) -> float:
        """The time in ms of the run that has ended. Raises WrongResult if its outputs are wrong."""
        time_ms = self._elapsed()
        self._conditions.check()
        return time_ms

    def _elapsed(self) -> float:
        return self.timer.milliseconds() / self._count

    def time(self, call: Callable[[], None]) -> float:
        """The time of one call in ms. Raises LaunchError or WrongResult."""
        deployed = self.expect(call)
        self.start()
        deployed()
        self.timer.stop()
        self._device.synchronize()
        return self.finish()

    def unchecked(self, call: Callable[[], None]) -> float:
        """The median time in ms of UNCHECKED runs of a call whose outputs are not compared. Raises LaunchError."""
        deployed = self.expect(call)
        times = list[float]()
        for _ in range(1 + UNCHECKED):
            self.start()
            deployed()
            self.timer.stop()
            self._device.synchronize()
            times.append(self._elapsed())
        return median(times[1:])  # the first run of a kernel takes longer


class StageWatch:
    """Adds up the host time of each stage of a trial, in seconds. A stage that fails counts too."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextlib.contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """A block whose time is added to the stage `name`."""
        began = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - began


class TimedLaunch:
    """A launch that is timed while it is verified, without an additional synchronisation."""

    def __init__(self, device: Device, call: Callable[[], None]) -> None:
        self._timer, self.call = device.timer(), call

    def __call__(self) -> None:
        self._timer.start()
        self.call()
        self._timer.stop()

    @property
    def time_ms(self) -> float:
        return self._timer.milliseconds()
