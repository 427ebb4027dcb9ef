"""Anchors: the vendor library's times for the same problem, on the same arrays."""

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

SCREEN_SECONDS = 1.0
FINALISTS = 3  # algorithms that remain after the screening rounds

T = TypeVar("T")


class Anchors:
    """The vendor library's default algorithm, and its fastest ones.

    Algorithms that fail or compute a wrong result are left out.
    """

    def __init__(self, device: Device, workbench: Workbench, stopwatch: Stopwatch) -> None:
        self._device, self._workbench, self._stopwatch = device, workbench, stopwatch

    @functools.cached_property
    def default(self) -> Library | None:
        """The algorithm that the vendor library chooses; None if there is none, or it is wrong."""
        self._workbench.bits = None  # those of a library are no configuration's
        library = _attempt(self._workbench.library)
        return library if library is not None and self._is_right(library) else None

    @functools.cached_property
    def fastest(self) -> Sequence[Library]:
        """The fastest algorithms after a screening round; the finals decide which of them is best."""
        self._workbench.bits = None
        right = [call for call in _attempt(self._workbench.library_algorithms) or () if self._is_right(call)]
        timed = [(_attempt(functools.partial(self._stopwatch.time, call)), call) for call in right]
        least = min((time for time, _ in timed if time is not None), default=0.0)
        hopeful = [call for time, call in timed if time is not None and time <= RACE * least]
        if len(hopeful) <= FINALISTS:
            return hopeful
        times = interleave(self._device, self._stopwatch, hopeful, SCREEN_SECONDS).times
        ranked = sorted((median(series), position) for position, series in enumerate(times) if series)
        return [hopeful[position] for _, position in ranked[:FINALISTS]]

    def _is_right(self, library: Library) -> bool:
        return _attempt(functools.partial(self._workbench.verify, library)) is not None


def _attempt(action: Callable[[], T]) -> T | None:
    """The result of `action`; None if it raises anything, because libraries have their own exception types."""
    try:
        return action()
    except Exception:
        return None
