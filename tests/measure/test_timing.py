"""What belongs to the time of a launch, and what does not."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tuner.devices import Device
from tuner.measure.timing import clock
from tuner.measure.timing.race import Race


class Seen:
    """A device that waits for its host, and arrays on it; it writes down what is asked of both."""

    asynchronous = True

    def __init__(self) -> None:
        self.log: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return lambda *_: self.log.append(name) or 1.0

    def timer(self) -> Any:
        return self


@pytest.mark.parametrize(("cold", "before"), [(False, []), (True, ["flush"])])
def test_a_timed_call_is_prepared_by_others_and_enqueued_while_the_device_is_busy(
    cold: bool, before: list[str]
) -> None:
    device: Any = Seen()
    clock.Stopwatch(device, device, device.flush if cold else None).time(lambda: device.log.append("call"))
    order = ["synchronize", "prepare", *before, "occupy", "start", "call", "stop", "synchronize", "milliseconds"]
    assert device.log == ["expect", *order, "check"]


class Unconditional:
    """Runs that need nothing before or after them."""

    def expect(self, call: object) -> None:
        pass

    def prepare(self) -> None:
        pass

    def check(self) -> None:
        pass


@pytest.mark.gpu
def test_the_hosts_delay_is_no_part_of_a_time(cuda: Device) -> None:
    stopwatch = clock.Stopwatch(cuda, Unconditional())
    assert 0.9 < stopwatch.time(lambda: cuda.occupy(1.0)) < 1.3

    def late() -> None:
        time.sleep(0.0001)
        cuda.occupy(0.01)

    assert min(stopwatch.time(late) for _ in range(20)) < 0.06


@pytest.mark.parametrize(
    ("first_ms", "time_ms", "is_doubtful"),
    [
        (0.5, 0.5, False),
        (0.3, 0.5, True),
        (0.6, 1.0, True),
        (15.0, 15.0, True),
        (30.0, 30.0, False),
        (10.0, 30.0, True),
    ],
)
def test_a_run_on_a_gpu_that_a_stall_explains_is_looked_at_once_more(
    first_ms: float, time_ms: float, is_doubtful: bool
) -> None:
    """Beside a best of 0.2 ms, which all of these have lost."""
    race = Race(0.2)
    assert race.is_lost(time_ms)
    assert race.is_doubtful([time_ms], first_ms) == is_doubtful
    assert not race.is_doubtful([time_ms, time_ms], first_ms)
    assert race.counted([time_ms + 5.0, time_ms]) == (time_ms,)


def test_a_configuration_three_quarters_of_whose_times_are_behind_the_best_gets_no_further_batch() -> None:
    times = [0.2, 0.21, 0.23, 0.24, 0.24, 0.25, 0.26]
    assert not Race(0.2).is_behind(times)
    assert Race(0.19).is_behind(times)
    assert not Race(0.19).is_behind(times[-1:])  # a single time may be a stall
    assert not Race(None).is_behind(times)
