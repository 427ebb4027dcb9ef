"""Batches of runs, enqueued ahead so that the device never waits for the host."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tuner.devices.base import Device, Timer

AHEAD = 3  # batches in the queue at any time
POLL_SECONDS = 0.0005  # between two looks at a batch


def batches(device: Device, run: Callable[[], None], count: int) -> Generator[float | None, None, None]:
    """Enqueue batches of `count` runs without end. Yields the time of the next batch in ms, None until it has ended."""
    idle = [device.timer() for _ in range(AHEAD)]
    enqueued: deque[Timer] = deque()
    while True:
        for timer in idle:
            timer.start()
            for _ in range(count):
                run()
            timer.stop()
            enqueued.append(timer)
        while not enqueued[0].finished():
            yield None
        idle = [enqueued.popleft()]
        yield idle[0].milliseconds()


def next_ms(running: Generator[float | None, None, None]) -> float:
    """Wait for the next of these `batches`. Returns its time in ms."""
    while (time_ms := next(running)) is None:
        time.sleep(POLL_SECONDS)
    return time_ms
