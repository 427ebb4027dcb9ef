"""Switches: parameters with two values, by which a search tells kinds of configurations apart.

A switch, such as whether sizes are compiled in, often changes how a kernel works. At another size of the device, all
configurations of a kind may be faster or slower than the others, while within a kind the order hardly changes.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuner.search.pool import Pool

LEAST_EFFECT = 1.01  # a switch counts if the fastest with one value took at least so many times as long as the other's
# Of the logarithm of the ratio of times, here and there. The last three are in units of the deviation between kinds.
DEVIATION, WEIGHT = 0.5, 2.0  # between kinds, as expected before any is known, which counts like so many results
COMMON = 1.25  # deviation of what all kinds have in common
WITHIN = 0.1  # deviation between configurations of a kind
MUCH_SLOWER = 1.1  # than the fastest of its kind: what takes so many times as long
ALIKE = 0.4  # correlation of two kinds that differ in one switch; with each further one, it is multiplied by this again

Array = NDArray[Any]


class Switches:
    """How the switches of a pool's rows are set. Rows with the same settings are of one kind."""

    def __init__(self, pool: Pool, logs: Sequence[Mapping[int, float]]) -> None:
        """`logs` are times by row, elsewhere: what had no effect in any of them is no switch. See LEAST_EFFECT."""
        switches = [column for column, values in enumerate(pool.values) if len(values) == 2]
        matter = [c for c in switches if any(_effect(pool.rows[:, c], times) >= LEAST_EFFECT for times in logs)]
        self._settings = pool.rows[:, matter]

    def first_of_each(self, rows: Sequence[int], count: int) -> list[int]:
        """The first rows of each kind, at most `count`, in their order."""
        kinds = Counter[bytes]()
        chosen = []
        for row in rows:
            kinds[kind := self._kind(row)] += 1
            if kinds[kind] <= count:
                chosen.append(row)
        return chosen

    def gains(
        self, rows: Sequence[int], there: Mapping[int, float], here: Mapping[int, float], ahead: Sequence[int]
    ) -> Array:
        """How much each of `rows` is expected to improve on the fastest of `here`, in the logarithm of the time.

        `there` has the times of the rows elsewhere, in ms, and `here` those that were measured here. A Gaussian process
        models the ratio of both: the more alike two kinds are, the more alike are their ratios. How much kinds differ
        is learnt, too. `ahead` are rows that are being measured: others of their kind are less worth a trial meanwhile.
        """
        known = self._typical(there, [*here, *ahead])
        seen = [row for row in here if row in known]
        ratios = np.log([here[row] / known[row] for row in seen])
        weights = np.linalg.solve(self._covariance(seen), ratios)
        variance = (WEIGHT * DEVIATION**2 + ratios @ weights) / (WEIGHT + len(seen))
        expected = np.log([there[row] for row in rows]) + self._common(rows, seen) @ weights
        seen += [row for row in ahead if row in known]
        common = self._common(rows, seen)
        certain = np.sum(common * np.linalg.solve(self._covariance(seen), common.T).T, axis=1)
        deviation = np.sqrt(variance * (COMMON**2 + 1 + WITHIN**2 - certain))
        best = math.log(min(here.values())) if here else expected.min(initial=math.inf)
        return np.asarray(_expected_improvement((best - expected) / deviation) * deviation)

    def _typical(self, there: Mapping[int, float], rows: Sequence[int]) -> dict[int, float]:
        """The times of `rows` there. Those of other rows than the fast ones of a kind say nothing about the kind: if a
        row is missing there, or much slower, the time of the fastest of its kind takes its place."""
        fastest: dict[bytes, float] = {}
        for row, time_ms in there.items():
            fastest[self._kind(row)] = min(fastest.get(self._kind(row), math.inf), time_ms)
        known = {row: fastest[self._kind(row)] for row in rows if self._kind(row) in fastest}
        return known | {row: there[row] for row in known if there.get(row, math.inf) <= MUCH_SLOWER * known[row]}

    def _kind(self, row: int) -> bytes:
        return bytes(self._settings[row])

    def _common(self, rows: Sequence[int], others: Sequence[int]) -> Array:
        """The covariance of the ratios of rows with those of others, but for what each has for itself."""
        apart = self._settings[[*rows]][:, None] != self._settings[[*others]][None]
        return np.asarray(COMMON**2 + ALIKE ** np.count_nonzero(apart, axis=2))

    def _covariance(self, rows: Sequence[int]) -> Array:
        """The covariance of the ratios of different rows."""
        return self._common(rows, rows) + WITHIN**2 * np.eye(len(rows))


def _effect(settings: NDArray[np.integer], times: Mapping[int, float]) -> float:
    """The ratio of the shortest times with each value of a switch; 1 if only one value occurs."""
    shortest: dict[int, float] = {}
    for row, time_ms in times.items():
        value = int(settings[row])
        shortest[value] = min(shortest.get(value, time_ms), time_ms)
    return max(shortest.values()) / min(shortest.values()) if len(shortest) == 2 else 1.0


def _expected_improvement(distances: Array) -> Array:
    """By how much a normal variable is expected to exceed 0, in deviations; its mean is so many of them above 0."""
    density = np.exp(-(distances**2) / 2) / math.sqrt(2 * math.pi)
    share = np.array([math.erfc(-distance / math.sqrt(2)) / 2 for distance in distances])
    return np.asarray(distances * share + density)
