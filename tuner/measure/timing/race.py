"""How often a configuration is timed, against the best one so far."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import quantiles

from tuner.measure.timing.clock import NOISE, spread

RACE = 1.5
STEADY = 0.01
MOST_BATCHES = 3
LOOKS, ALIKE = 5, 1.25  # at a hopeless time of a busy processor, until the two shortest differ by this factor at most
HICCUP_MS, HICCUP = 1000.0, 4.0  # the most that other programs add to a time, and multiply it by
STALL_MS = 0.5, 20.0  # what a stall adds to a run on a GPU, of which a few in ten thousand have one


class Race:
    """Decides how often a configuration is timed, against the best one so far, whose median is `best_ms`.

    A configuration is stopped after one run that takes more than RACE times `best_ms`. The best configuration itself
    would be stopped only by a run that much slower than its own median. Another batch of runs follows, up to
    MOST_BATCHES in all, while more than a quarter of the times lie below `best_ms` and their spread exceeds STEADY.

    On a processor (`on_processor`), other programs may take its time. So a hopeless time is looked at again, up to
    LOOKS times, until two are alike. Where the spread exceeds NOISE, one time below `best_ms` brings another batch.
    On a GPU, a hopeless time that a stall explains, or that exceeds the first run's, is looked at once more.

    `best_ms` is infinite before the first configuration: nothing is stopped. None turns all rules off.
    """

    def __init__(self, best_ms: float | None, on_processor: bool = False) -> None:
        self._best_ms = best_ms
        self._hopeless_ms = math.inf if best_ms is None else RACE * best_ms
        self._on_processor = on_processor

    def is_lost(self, time_ms: float, start_up_ms: float = 0.0) -> bool:
        """Whether a run of `time_ms` stops the configuration; up to `start_up_ms` of it is due to a first run."""
        return time_ms > self._hopeless_ms + start_up_ms

    def is_doubtful(self, looks: Sequence[float], first_ms: float = math.inf) -> bool:
        """Whether a race that these times have lost may yet be won: something else may have made all of them longer.
        `first_ms` is the time of the first run, which takes longer than others if anything."""
        if self._best_ms is None:
            return False
        lowest, *others = sorted(looks)
        if not self._on_processor:
            least, most = STALL_MS
            return not others and (least <= lowest - self._best_ms <= most or first_ms * ALIKE < lowest)
        return lowest < self._best_ms * HICCUP + HICCUP_MS and not (others and others[0] <= lowest * ALIKE)

    def counted(self, looks: Sequence[float]) -> tuple[float, ...]:
        """The times that count of a configuration that has lost: on a GPU the least, as what a stall adds to a run is
        not the kernel's."""
        return tuple(looks) if self._on_processor else (min(looks),)

    def is_open(self, times: Sequence[float], batch: int) -> bool:
        """Whether `batch` more runs could still show that the configuration is the best."""
        if self._best_ms is None or len(times) >= MOST_BATCHES * batch:
            return False
        is_noise = self._on_processor and spread(times) > NOISE
        return spread(times) > STEADY and (min(times) if is_noise else quantiles(times, n=4)[0]) < self._best_ms
