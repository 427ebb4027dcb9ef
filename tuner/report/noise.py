"""How sure times are: how far they spread, and which differences lie within that."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from tuner.tuning.conclusions import NOISY, TIE, TOLD, middle

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tuner.exchange.recording import Entry, Row
    from tuner.report.subject import Subject

WIDE = 0.1  # of a median time: a spread of which a reader is told


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
        return Timing(self.time_ms, min(self.low, other.low), max(self.high, other.high), self.spread)

    def verdict(self, other: Timing) -> str:
        """Why two times cannot be told apart, TIE or NOISY, where their middle halves overlap; else empty."""
        if self.high < other.low or other.high < self.low:
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


def of_entries(entries: Mapping[Row, Entry]) -> dict[Row, Timing]:
    """The Timings of all trials that succeeded."""
    timed = ((row, entry.time_ms, entry.times) for row, entry in entries.items() if entry.time_ms is not None)
    return {row: of_times(times, time_ms) if times else of_median(time_ms, None) for row, time_ms, times in timed}


def of_best(subject: Subject) -> Timing:
    """The best as its trial timed it, as wide as trial and finals together: nothing that lies between the two can be
    told from it."""
    found, finals = subject.timings[subject.best], subject.finals
    return found if finals is None else found.and_also(of_median(finals.time_ms, finals.spread))


def typical_spread(subject: Subject) -> float | None:
    """The median of the trials' spreads; None where no single times are known."""
    spreads = [found.spread for found in subject.timings.values() if found.spread is not None]
    return median(spreads) if spreads else None
