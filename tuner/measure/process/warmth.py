"""Warmth: while a GPU waits for its next run, a light kernel keeps it at the clocks at which it works."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from tuner.errors import LaunchError, TunerError
from tuner.measure import turns

if TYPE_CHECKING:
    from tuner.devices import Device

SLICE_MS = 1.0  # of the light kernel; what is left of it ends while the host prepares the run that has come
MOST_SECONDS = 60.0  # a longer wait is no wait for a build


def keep(device: Device, is_over: Callable[[float], bool]) -> None:
    """Keep the device working until a wait is over, or for MOST_SECONDS.

    `is_over` waits up to so many seconds and returns whether the wait is over. Returns at once for a device that does
    not work beside its host. The light kernel, a single thread that reads a clock, runs in slices of SLICE_MS, and none
    begins while a process has its turn on the device. Ends this process if the device fails: then the next run gets a
    new process, and no configuration is to blame.
    """
    if not device.asynchronous:
        return
    end = time.monotonic() + MOST_SECONDS
    seconds = 0.0
    while not is_over(seconds) and time.monotonic() < end:
        seconds = SLICE_MS / 1e3
        if not turns.are_free(device.place):
            continue
        try:
            device.synchronize()  # the slice before
            device.occupy(SLICE_MS)
        except LaunchError as error:
            sys.exit(f"while the device waited: {error}")
        except TunerError:
            return  # without a compiler, for example: the next run meets the same error and reports it
