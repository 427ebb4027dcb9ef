"""Differences between processes: what the rounds of several processes say of finalists.

On a processor, times depend on where a process has its memory and its code. So the ratio of two finalists' times in one
process differs from that in the next, by several percent where memory limits them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median, stdev
from typing import TYPE_CHECKING

from tuner.classes import dataclass
from tuner.store.verdicts import REPEATABLE, REPEATABLE_MS, ratio

if TYPE_CHECKING:
    from tuner.measure.results import Final

FEWEST = 4  # processes that tell how much ratios differ between them
DEVIATIONS = 4.0  # between processes: a smaller difference is a tie. They are many, as a few processes hardly tell one
MOST_HIDDEN = 0.05  # a larger relative difference is no tie, however much processes differ
ERRORS = 2.5  # standard errors by which a median ratio must differ from the limit of a tie
COMPARED = 1.2  # the slowest ratio from which the deviation between processes is estimated


def in_all(finals: Sequence[Final]) -> list[Final]:
    """Those that took part in all processes. What the first one shows to be far slower takes part in no other one."""
    most = max(len(final.by_process) for final in finals)
    return [final for final in finals if len(final.by_process) == most]


@dataclass(frozen=True)
class Processes:
    """What several processes, each with rounds of the same finalists, say of them.

    `deviation` is the standard deviation between processes of a finalist's median ratio to the fastest: the median one
    of all finalists that are nearly as fast, as one that another program disturbed once has a large one. A finalist is
    tied with the fastest if its median ratio in the rounds of all processes is at most 1 + `margin`.
    """

    fastest: Final
    count: int
    deviation: float
    margin: float

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
        least = max(REPEATABLE, REPEATABLE_MS / fastest.time_ms)
        return Processes(fastest, count, deviation, max(least, min(MOST_HIDDEN, DEVIATIONS * deviation)))

    def excess(self, final: Final) -> float:
        """By how much the median ratio of a finalist exceeds the largest one of a tie."""
        return ratio(self.fastest.times, final.times).middle - (1 + self.margin)

    def is_tied(self, final: Final) -> bool:
        """Whether a finalist is tied with the fastest. One that did not take part in all processes is not."""
        return final is self.fastest or (len(final.by_process) == self.count and self.excess(final) <= 0)

    def is_settled(self, by_preference: Sequence[Final]) -> bool:
        """Whether it is certain which of these finalists, the preferred one first, is the first that is tied.

        It is not if a median ratio is so near to the limit of a tie that the error of that median may exceed the
        difference.
        """
        error = ERRORS * self.deviation / math.sqrt(self.count)
        for final in by_preference:
            if final is self.fastest or (excess := self.excess(final)) <= -error:
                return True
            if excess < error:
                return False
        return True
