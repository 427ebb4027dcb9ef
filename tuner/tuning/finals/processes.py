"""Differences between processes: what the rounds of several processes say of finalists.

On a processor, times depend on where a process has its memory and its code, and on what else the machine does
meanwhile. So the ratio of two finalists' times in one process differs from that in the next, by several percent where
memory limits them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median, stdev
from typing import TYPE_CHECKING, NamedTuple

from tuner.classes import dataclass
from tuner.store import verdicts
from tuner.store.verdicts import REPEATABLE, REPEATABLE_MS, Interval, around, ratio, reach

if TYPE_CHECKING:
    from tuner.measure.results import Final

MOST_GIVEN_UP = 0.05  # relative difference above which no preference makes up for the time
ERRORS = 2.5  # standard errors by which a median ratio must differ from the limit of a tie
COMPARED = 1.2  # the slowest ratio of a tie, and from which the deviation between processes is estimated


class Standing(NamedTuple):
    """How a finalist compares with the fastest: the interval of its time divided by the fastest's, whether it is tied,
    and whether it may then become the best by rule, if it is not the record that is there."""

    ratio: Interval
    is_tied: bool
    may_win: bool


def in_all(finals: Sequence[Final]) -> list[Final]:
    """Those that took part in all processes. What the first one shows to be far slower takes part in no other one."""
    most = max(len(final.by_process) for final in finals)
    return [final for final in finals if len(final.by_process) == most]


def interval(final: Final) -> Interval:
    """The interval of a finalist's median time in ms; of several processes, that of the median in a further one."""
    parts, middle = final.by_process, final.time_ms
    if len(parts) == 1:
        return verdicts.interval(final.times)
    return around(middle, reach(stdev(median(part) / middle for part in parts), len(parts)))


@dataclass(frozen=True)
class Processes:
    """What several processes, each with rounds of the same finalists, say of them.

    `deviation` is the standard deviation between processes of a finalist's median ratio to the fastest: the median one
    of all finalists that are nearly as fast, as one that another program disturbed once has a large one.
    """

    fastest: Final
    count: int
    deviation: float

    @staticmethod
    def of(finals: Sequence[Final]) -> Processes:
        """What the processes say of those of `finals` that took part in all of them."""
        finals = in_all(finals)
        fastest = min(finals, key=lambda final: final.time_ms)
        parts = [
            [ratio(*pair).middle for pair in zip(fastest.by_process, final.by_process, strict=True)]
            for final in finals
            if final is not fastest and ratio(fastest.times, final.times).middle <= COMPARED
        ]
        count = len(fastest.by_process)
        deviation = median(stdev(part) for part in parts) if parts and count > 1 else 0.0
        return Processes(fastest, count, deviation)

    @property
    def reach(self) -> float:
        """By how much the median ratio of a further process may differ from that of these, relative.

        That is also how far other tunings are, minutes later: their ratios differ by more than the error of a mean of
        these processes, because what disturbs the machine lasts for longer than one of them.
        """
        return reach(self.deviation, self.count)

    def standing(self, final: Final) -> Standing:
        """How a finalist compares with the fastest. It is tied if a further process may find it as fast."""
        if final is self.fastest:
            return Standing(Interval(1.0, 1.0, 1.0), True, True)
        found = around(ratio(self.fastest.times, final.times).middle, self.reach)
        is_near = found.low <= 1 + self._least and found.middle <= COMPARED
        is_tied = is_near and len(final.by_process) == self.count
        return Standing(found, is_tied, is_tied and found.middle <= 1 + self._most_given_up)

    def is_settled(self, by_preference: Sequence[Final], of_record: Final | None) -> bool:
        """Whether it is certain which of these finalists, the preferred one first, is the first that may win.

        It is not if a median ratio is so near to the limit that the error of that median may exceed the difference. The
        finalist of the record may win as long as it is tied.
        """
        error = ERRORS * self.deviation / math.sqrt(self.count)
        tied = min((1 + self.reach) * (1 + self._least), COMPARED)
        for final in by_preference:
            limit = tied if final is of_record else min(tied, 1 + self._most_given_up)
            excess = ratio(self.fastest.times, final.times).middle - limit
            if final is self.fastest or excess <= -error:
                return True
            if excess < error:
                return False
        return True

    @property
    def _least(self) -> float:
        """The relative difference that is always a tie."""
        return max(REPEATABLE, REPEATABLE_MS / self.fastest.time_ms)

    @property
    def _most_given_up(self) -> float:
        return max(MOST_GIVEN_UP, self._least)
