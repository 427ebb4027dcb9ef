"""The race: how often a configuration is timed, depending on the best one so far."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import quantiles

from tuner.measure.timing.clock import NOISE, spread

RACE = 1.5  # times the best median; a slower run loses the race
BEHIND = 1.1  # times the best median; if three quarters of a configuration's times are above it, more show nothing
STEADY = 0.01  # spread below which more runs add nothing
MOST_BATCHES = 3  # by default
# On a processor, a hopeless configuration runs until its two shortest times agree within the factor ALIKE, but at most
# MOST_LOOKS times.
MOST_LOOKS, ALIKE = 5, 1.25
HICCUP_MS, HICCUP = 1000.0, 4.0  # other programs lengthen a time to at most HICCUP * time + HICCUP_MS
STALL_MS = 0.5, 20.0  # the least and the most that a stall adds to a run on a GPU; a few runs in ten thousand stall


class Race:
    """Decides how often a configuration is timed; `best_ms` is the median time of the best one so far.

    A configuration is stopped after one run that takes more than RACE times `best_ms`. So a configuration that would
    win is stopped only if a single run takes RACE times its own median. If many runs are wanted, it is also stopped
    after a batch, once three quarters of its times exceed BEHIND times `best_ms`. While more than a quarter of the
    times are below `best_ms` and their spread exceeds STEADY, another batch of runs follows, up to `most_batches` in
    all.

    On a processor (`on_processor`), other programs may slow a run down. So a hopeless configuration runs up to
    MOST_LOOKS times, until two times agree. If the spread exceeds NOISE, a single time below `best_ms` justifies
    another batch. On a GPU, a hopeless run is repeated once if a stall would explain its time, or if it takes more than
    ALIKE times as long as the first run, which normally is the slowest.

    `best_ms` is infinite before the first configuration: nothing is stopped. None disables all rules.
    """

    def __init__(self, best_ms: float | None, on_processor: bool = False, most_batches: int | None = None) -> None:
        self._best_ms, self._most_batches = best_ms, MOST_BATCHES if most_batches is None else most_batches
        self._hopeless_ms = math.inf if best_ms is None else RACE * best_ms
        self._on_processor = on_processor

    def is_lost(self, time_ms: float, start_up_ms: float = 0.0) -> bool:
        """Whether a run of `time_ms` loses the race; a first run may take up to `start_up_ms` longer."""
        return time_ms > self._hopeless_ms + start_up_ms

    def is_doubtful(self, times: Sequence[float], first_ms: float = math.inf) -> bool:
        """Whether a disturbance may have made a configuration lose with these times.

        `first_ms` is the time of the first run, which normally takes at least as long as the others.
        """
        if self._best_ms is None:
            return False
        lowest, *others = sorted(times)
        if not self._on_processor:
            least, most = STALL_MS
            return not others and (least <= lowest - self._best_ms <= most or first_ms * ALIKE < lowest)
        return lowest < self._best_ms * HICCUP + HICCUP_MS and not (others and others[0] <= lowest * ALIKE)

    def is_behind(self, times: Sequence[float]) -> bool:
        """Whether these times show that more of them cannot make the configuration the best."""
        return self._best_ms is not None and len(times) > 1 and quantiles(times, n=4)[0] > BEHIND * self._best_ms

    def counted(self, times: Sequence[float]) -> tuple[float, ...]:
        """The times to report for a configuration that lost.

        On a GPU only the shortest, because the others include stalls.
        """
        return tuple(times) if self._on_processor else (min(times),)

    def is_open(self, times: Sequence[float], batch: int) -> bool:
        """Whether `batch` more runs could still show that the configuration is the best."""
        if self._best_ms is None or len(times) >= self._most_batches * batch:
            return False
        is_noise = self._on_processor and spread(times) > NOISE
        return spread(times) > STEADY and (min(times) if is_noise else quantiles(times, n=4)[0]) < self._best_ms
