"""Compare two times: which one is shorter, or why the measurements cannot tell.

Reports and tables use `Timing.verdict`, which needs quartiles alone. The finals have the times of each round, and use
`ratio`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median, quantiles, stdev
from typing import TYPE_CHECKING, Literal, NamedTuple

from tuner.classes import dataclass

if TYPE_CHECKING:
    from tuner.store.record import Record

RELEVANT = 0.01  # a relative difference of two times that matters
OVERHEAD = 1.5  # times the launch overhead: a shorter time is mostly that overhead
CLOCK_MS = 0.002  # two shorter times are those of launches: no clock of a device tells their kernels apart
WAKING_MS = 0.02  # the same on a processor through OpenCL, whose threads may take so long to wake up
CONFIDENCE = 0.99  # of the interval of a median
# The times of one configuration may differ by so much in two processes, whose arrays lie elsewhere in memory. So a
# smaller difference in one process says nothing of the next.
REPEATABLE = 0.005
REPEATABLE_MS = 0.0002  # the same for runs of some microseconds, whose times of equal code differ by as much
DISTORTED = 0.1  # relative difference of two gains, by the medians and by the shortest times
MOST_HIDDEN = 0.1  # relative difference in the same rounds that is no tie, however noisy the times are
FEWEST_PROCESSES, MOST_PROCESSES = 4, 12  # in which times of a processor are compared
# Student's t, by the degrees of freedom from 1 on, for an interval of 95 %
STUDENT = (12.71, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201)
Comparison = Literal["faster", "slower", "as fast", "undecided"]  # what an interval says of a time and another one
DIFFERENT: tuple[Comparison, ...] = ("faster", "slower")
TIE, NOISY, TOO_SHORT = "a tie", "too noisy to tell", "too short to tell"  # why two times are indistinguishable


class Interval(NamedTuple):
    """A median, and an interval that contains the true one with a probability of CONFIDENCE, or less if there were
    fewer than eight values; or, from several processes, that of a further one with a probability of 95 %."""

    low: float
    middle: float
    high: float


@dataclass(frozen=True)
class Timing:
    """A median time, and the first and third quartile (`low`, `high`), in ms.

    `spread` is the interquartile range over the median; None if unknown, and then the quartiles equal the median.
    """

    time_ms: float
    low: float
    high: float
    spread: float | None = None

    def and_also(self, other: Timing) -> Timing:
        """Extend the quartiles and the spread to cover another measurement of the same configuration."""
        known = [each.spread for each in (self, other) if each.spread is not None]
        return Timing(self.time_ms, min(self.low, other.low), max(self.high, other.high), max(known, default=None))

    def verdict(self, other: Timing) -> str:
        """TIE or NOISY if the two times are indistinguishable, else an empty string.

        They are distinguishable if their interquartile ranges do not overlap and the medians differ by more than
        either spread.
        """
        are_disjoint = self.high < other.low or other.high < self.low
        difference = abs(self.time_ms - other.time_ms) / min(self.time_ms, other.time_ms)
        if are_disjoint and difference > max(self.spread or 0.0, other.spread or 0.0):
            return ""
        return tie_or_noisy(self.time_ms, other.time_ms)


def tie_or_noisy(time_ms: float, other_ms: float) -> str:
    """Why two indistinguishable times are so: TIE if they differ by at most RELEVANT, else NOISY."""
    return TIE if abs(other_ms / time_ms - 1) <= RELEVANT else NOISY


def of_times(times: Sequence[float], time_ms: float | None = None) -> Timing:
    """The Timing of these times in ms; `time_ms` replaces their median."""
    time_ms = median(times) if time_ms is None else time_ms
    low, high = quartiles(times)
    return Timing(time_ms, low, high, (high - low) / time_ms if len(times) > 1 else None)


def of_median(time_ms: float, spread: float | None) -> Timing:
    """The Timing of a median and a spread, with quartiles symmetric about the median."""
    half = (spread or 0.0) / 2
    return Timing(time_ms, time_ms * (1 - half), time_ms * (1 + half), spread)


def of_medians(time_ms: float, spread: float | None, other_ms: float, other_spread: float | None) -> str:
    """`Timing.verdict` of two medians with their spreads; an unknown spread is assumed to equal the other one."""
    timing = of_median(time_ms, other_spread if spread is None else spread)
    return timing.verdict(of_median(other_ms, spread if other_spread is None else other_spread))


def of_default(record: Record) -> str:
    """Why a record's default is indistinguishable from its best, according to the finals; else an empty string.

    Older records lack the default's spread.
    """
    if record.default_ms is None:
        return ""
    if is_too_short(record):
        return TIE if tie_or_noisy(record.time_ms, record.default_ms) == TIE else TOO_SHORT
    if (undistorted_gain(record) or 1) < 1 < record.default_ms / record.time_ms:
        return NOISY  # by the shortest times, the default is faster
    if record.default_ties or record.default_spread is not None:
        return tie_or_noisy(record.time_ms, record.default_ms) if record.default_ties else ""
    return of_medians(record.time_ms, record.spread, record.default_ms, None)


def undistorted_gain(record: Record) -> float | None:
    """The gain over the default by the shortest times, if the gain by the medians is distorted; else None.

    Other programs interrupt a long run more often than a short one, so they lengthen the medians unequally.
    """
    if record.least_gain is None or record.default_ms is None:
        return None
    by_medians = record.default_ms / record.time_ms
    is_distorted = abs(by_medians - record.least_gain) > DISTORTED * min(by_medians, record.least_gain)
    return record.least_gain if is_distorted else None


def by_least(record: Record) -> str:
    """The same as a remark; empty if it is not distorted."""
    gain = undistorted_gain(record)
    return f"; {gain:.3g} x by the shortest times, which a busy machine distorts less" if gain else ""


def interval(values: Sequence[float]) -> Interval:
    """The interval of the median, between two of the sorted values (the sign test, for any distribution).

    Fewer than eight values reach no such probability; then it is their whole range, which holds the true median with a
    probability of 1 - 2^(1 - their number): 93.8 % of five, 98.4 % of seven.
    """
    ordered, count = sorted(values), len(values)
    below, tail = 0, 0.0  # the probability that at most `below` of the values are on one side of the true median
    while below < (count - 1) // 2 and (tail := tail + math.comb(count, below) / 2**count) <= (1 - CONFIDENCE) / 2:
        below += 1
    first = max(0, below - 1)
    return Interval(ordered[first], median(ordered), ordered[count - 1 - first])


def between_processes(values: Sequence[float]) -> Interval:
    """The interval in which the value of a further process lies, from the positive values of at least two processes."""
    middle = median(values)
    return around(middle, reach(stdev(values) / middle, len(values)))


def reach(deviation: float, count: int) -> float:
    """By how much a further value differs from the mean of `count` values with this standard deviation at most, with a
    probability of 95 %."""
    return STUDENT[min(count - 1, len(STUDENT)) - 1] * deviation * math.sqrt(1 + 1 / count)


def around(middle: float, reach: float) -> Interval:
    """The interval whose ends differ from a positive value by the factor 1 + `reach`: they are positive, too."""
    return Interval(middle / (1 + reach), middle, middle * (1 + reach))


def ratio(times: Sequence[float], others: Sequence[float]) -> Interval:
    """The interval of another configuration's time over that of one, from times of the same rounds.

    A round has both, so what slows the machine down for both cancels out. If one of them missed rounds, their intervals
    are divided, which is wider.
    """
    if len(times) == len(others):
        return interval([other / time_ms for time_ms, other in zip(times, others, strict=True)])
    one, two = interval(times), interval(others)
    return Interval(two.low / one.high, two.middle / one.middle, two.high / one.low)


def compared(ratio: Interval, other_ms: float) -> Comparison:
    """What the interval of a time over another one says; the other one is `other_ms`.

    Differences that another process may show for equal code are none. Times are as fast if they certainly differ by no
    more than RELEVANT.
    """
    margin = max(REPEATABLE, REPEATABLE_MS / other_ms)
    equal = 1 + max(RELEVANT, margin)
    if ratio.low > 1 + margin:
        return "slower"
    if ratio.high < 1 / (1 + margin):
        return "faster"
    return "as fast" if ratio.low >= 1 / equal and ratio.high <= equal else "undecided"


def is_tied(found: Interval, fastest_ms: float) -> bool:
    """Whether noise cannot separate a configuration from the fastest; `found` is its time over the fastest's."""
    margin = max(REPEATABLE, REPEATABLE_MS / fastest_ms)
    return found.low <= 1 + margin and found.middle <= 1 + MOST_HIDDEN


def is_too_short(record: Record) -> bool:
    """Whether the times of a record and of its default are both no more than the overhead of a launch."""
    if record.default_ms is None:
        return False
    through_processor = record.kind == "opencl" and record.launch_ms is None  # measured on every GPU below 1 ms
    least = WAKING_MS if through_processor else max(CLOCK_MS, OVERHEAD * (record.launch_ms or 0.0))
    return max(record.time_ms, record.default_ms) < least


def quartiles(times: Sequence[float]) -> tuple[float, float]:
    """The first and the third quartile of times, in ms."""
    if len(times) < 2:
        return times[0], times[0]
    low, _, high = quantiles(times, n=4)
    return low, high
