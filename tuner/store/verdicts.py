"""Which of two times is the shorter, or why nobody can tell: one notion for all that is said of times."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median, quantiles
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tuner.store.record import Record

TOLD = 0.01  # of a time: a difference that matters
TIE, NOISY = "a tie", "too noisy to tell"  # why two times cannot be told apart


@dataclass(frozen=True)
class Timing:
    """A median time, and the ends of the middle half of the times that it is of, in ms. `spread` is the width of that
    half over the median; None where the single times are not known, and then it has no width."""

    time_ms: float
    low: float
    high: float
    spread: float | None = None

    def and_also(self, other: Timing) -> Timing:
        """The same with a middle half that reaches over that of another measurement of the same."""
        known = [each.spread for each in (self, other) if each.spread is not None]
        return Timing(self.time_ms, min(self.low, other.low), max(self.high, other.high), max(known, default=None))

    def verdict(self, other: Timing) -> str:
        """Why two times cannot be told apart, TIE or NOISY; else empty. They can where their middle halves do not
        overlap, and they differ by more than either spreads."""
        apart = self.high < other.low or other.high < self.low
        difference = abs(self.time_ms - other.time_ms) / min(self.time_ms, other.time_ms)
        if apart and difference > max(self.spread or 0.0, other.spread or 0.0):
            return ""
        return word(self.time_ms, other.time_ms)


def word(time_ms: float, other_ms: float) -> str:
    """What two times are that cannot be told apart: TIE or NOISY."""
    return TIE if abs(other_ms / time_ms - 1) <= TOLD else NOISY


def of_times(times: Sequence[float], time_ms: float | None = None) -> Timing:
    """The Timing of these times; `time_ms` is told in place of their median."""
    time_ms = median(times) if time_ms is None else time_ms
    low, high = middle(times)
    return Timing(time_ms, low, high, (high - low) / time_ms if len(times) > 1 else None)


def of_median(time_ms: float, spread: float | None) -> Timing:
    """The Timing of which only median and spread are known: as much lies below as above."""
    half = (spread or 0.0) / 2
    return Timing(time_ms, time_ms * (1 - half), time_ms * (1 + half), spread)


def of_medians(time_ms: float, spread: float | None, other_ms: float, other_spread: float | None) -> str:
    """`Timing.verdict` of times of which only medians and spreads are known; a spread that is not known is that of the
    other."""
    one = of_median(time_ms, other_spread if spread is None else spread)
    return one.verdict(of_median(other_ms, spread if other_spread is None else other_spread))


def of_default(record: Record) -> str:
    """Why the default of a record cannot be told from its best, as the finals found; else empty. Earlier records do not
    know the default's spread."""
    if record.default_ms is None:
        return ""
    if record.default_ties or record.default_spread is not None:
        return word(record.time_ms, record.default_ms) if record.default_ties else ""
    return of_medians(record.time_ms, record.spread, record.default_ms, None)


def middle(times: Sequence[float]) -> tuple[float, float]:
    """The ends of the middle half of times in ms: the first and the third quartile."""
    if len(times) < 2:
        return times[0], times[0]
    low, _, high = quantiles(times, n=4)
    return low, high
