"""Anchors: what the vendor's library makes of the same problem, on the same arrays."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from statistics import median
from typing import TYPE_CHECKING, TypeVar

from tuner.measure.timing.clock import Stopwatch, interleave
from tuner.measure.timing.race import RACE

if TYPE_CHECKING:
    from tuner.devices.base import Device, Library
    from tuner.measure.workbench import Workbench

HEAT_SECONDS = 1.0
QUALIFIED = 3  # algorithms, by the heat

T = TypeVar("T")


class Anchors:
    """The vendor's routine as the vendor chooses to run it, and the fastest of the ways in which it can run.

    What fails, or computes a wrong result, is left out.
    """

    def __init__(self, device: Device, workbench: Workbench, stopwatch: Stopwatch) -> None:
        self._device, self._workbench, self._stopwatch = device, workbench, stopwatch

    @functools.cached_property
    def default(self) -> Library | None:
        """What the vendor chooses."""
        library = _attempt(self._workbench.library)
        return library if library is not None and self._is_right(library) else None

    @functools.cached_property
    def qualified(self) -> Sequence[Library]:
        """The fastest of a heat. The rounds that they go on to say which of them is best."""
        right = [call for call in _attempt(self._workbench.library_algorithms) or () if self._is_right(call)]
        looks = [(_attempt(functools.partial(self._stopwatch.time, call)), call) for call in right]
        fastest = min((time for time, _ in looks if time is not None), default=0.0)
        hopeful = [call for time, call in looks if time is not None and time <= RACE * fastest]
        if len(hopeful) <= QUALIFIED:
            return hopeful
        times = interleave(self._device, self._stopwatch, hopeful, HEAT_SECONDS).times
        ranked = sorted((median(taken), position) for position, taken in enumerate(times) if taken)
        return [hopeful[position] for _, position in ranked[:QUALIFIED]]

    def _is_right(self, library: Library) -> bool:
        return _attempt(functools.partial(self._workbench.verify, library)) is not None


def _attempt(action: Callable[[], T]) -> T | None:
    """What comes of it; None where it fails, as a library does with errors of its own."""
    try:
        return action()
    except Exception:
        return None
