"""What belongs to the time of a launch, and what does not."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tuner.devices import Device
from tuner.measure import timing


class Seen:
    """A device that waits for its host, and writes down what is asked of it."""

    asynchronous = True

    def __init__(self) -> None:
        self.log: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return lambda *_: self.log.append(name) or 1.0

    def timer(self) -> Any:
        return self


@pytest.mark.parametrize(("cold", "expected_ms", "before"), [
    (False, 0.5, ["call"]), (False, 5.0, []), (True, 0.5, ["flush"]),
])  # fmt: skip
def test_a_timed_call_is_enqueued_while_the_device_is_busy(cold: bool, expected_ms: float, before: list[str]) -> None:
    device: Any = Seen()
    timing.Stopwatch(device, cold).time(lambda: device.log.append("call"), expected_ms)
    order = ["synchronize", *before, "occupy", "start", "call", "stop", "synchronize", "milliseconds"]
    assert device.log == order


@pytest.mark.gpu
def test_the_hosts_delay_is_no_part_of_a_time(cuda: Device) -> None:
    stopwatch = timing.Stopwatch(cuda)
    assert 0.9 < stopwatch.time(lambda: cuda.occupy(1.0)) < 1.3

    def late() -> None:
        time.sleep(0.0001)
        cuda.occupy(0.01)

    assert min(stopwatch.time(late) for _ in range(20)) < 0.06
