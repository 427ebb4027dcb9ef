"""Switches: parameters with two values, by which a search tells kinds of configurations apart.

A switch, such as whether sizes are compiled in, often changes how a kernel works. At another size of the device, all
configurations of a kind may be faster or slower than the others, while within a kind the order hardly changes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from tuner.search.pool import Pool

MOST_CONTRASTS = 3
LEAST_EFFECT = 1.01  # a switch counts if the fastest with one value took at least so many times as long as the other's


class Switches:
    """How the switches of a pool's rows are set. Rows with the same settings are of one kind."""

    def __init__(self, pool: Pool, logs: Sequence[Mapping[int, float]]) -> None:
        """`logs` are times by row, elsewhere: what had no effect in any of them is no switch. See LEAST_EFFECT."""
        switches = [column for column, values in enumerate(pool.values) if len(values) == 2]
        matter = [c for c in switches if any(_effect(pool.rows[:, c], times) >= LEAST_EFFECT for times in logs)]
        self._settings = pool.rows[:, matter]

    def _apart(self, row: int, others: Sequence[int]) -> list[int]:
        """The number of switches that are set otherwise than in `row`, for each of the others."""
        differ = self._settings[[*others]] != self._settings[row]
        return [int(number) for number in np.count_nonzero(differ, axis=1)]

    def first_of_each(self, rows: Sequence[int], count: int) -> list[int]:
        """The first rows of each kind, at most `count`, in their order."""
        kinds = Counter[bytes]()
        chosen = []
        for row in rows:
            kinds[kind := self._settings[row].tobytes()] += 1
            if kinds[kind] <= count:
                chosen.append(row)
        return chosen

    def contrasts(self, rankings: Sequence[Sequence[int]]) -> dict[int, int]:
        """The rows whose switches differ most from those of each ranking's first row, and from one another, by row the
        number of their ranking; at most MOST_CONTRASTS, and the first ones of those that differ equally."""
        seen = [ranking[0] for ranking in rankings if ranking]
        found: dict[int, int] = {}
        while len(found) < MOST_CONTRASTS:
            apart = [(min(self._apart(row, seen)), row, n) for n, ranking in enumerate(rankings) for row in ranking]
            most, row, number = max(apart, key=lambda each: each[0], default=(0, 0, 0))
            if not most:
                break
            found[row] = number
            seen.append(row)
        return found

    def expected(self, row: int, there: Mapping[int, float], here: Mapping[int, float]) -> float:
        """The time that `row` probably takes, by the times of rows `there`, which has it, and `here`.

        It is taken to be to the time there as those of the same kind are, or if there are none, as those of the kinds
        that differ in the fewest switches. Of several such ratios, the least counts.
        """
        both = [other for other in here if other in there]
        apart = self._apart(row, both)
        ratios = [here[other] / there[other] for other, a in zip(both, apart, strict=True) if a == min(apart)]
        return there[row] * min(ratios, default=1.0)


def _effect(settings: NDArray[np.integer], times: Mapping[int, float]) -> float:
    """The ratio of the shortest times with each value of a switch; 1 if only one value occurs."""
    shortest: dict[int, float] = {}
    for row, time_ms in times.items():
        value = int(settings[row])
        shortest[value] = min(shortest.get(value, time_ms), time_ms)
    return max(shortest.values()) / min(shortest.values()) if len(shortest) == 2 else 1.0
