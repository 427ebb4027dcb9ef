"""Which set of inputs each run finds, and what fills its outputs: drawn at random, each as often as any other."""

from __future__ import annotations

import secrets
from collections.abc import Iterable

from tuner.measure.answers.poison import NAN, NUMBER


class Rotation:
    """The turns of `count` sets of inputs, by their numbers from 0 on, and of what fills outputs.

    Kernels are verified on set 0, with outputs of NaN. `found` has the sets of the timed runs since `begin`.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._sets, self._shared, self._fills = list[int](), list[int](), list[int]()  # still to be drawn
        self.found: list[int] = []

    def verified(self) -> None:
        """A kernel has been verified: the next run finds all else."""
        self._fills = [NUMBER]
        self.begin()

    def begin(self) -> None:
        """A batch of runs begins: the next one finds another set than the one that kernels are verified on, and those
        after it find every set in turn. So each set has the same part in the times of every configuration."""
        self._sets, self.found = list(range(1, self._count)), []

    def share(self, runs: int) -> int:
        """The next `runs` runs find the same set, the number of which is returned. Sets take turns, in random order."""
        index = _drawn(self._shared, range(self._count))
        self._sets = [index] * runs
        return index

    def draw(self) -> tuple[int, int]:
        """The set and the filling of the next run."""
        index = _drawn(self._sets, range(self._count))
        self.found.append(index)
        return index, _drawn(self._fills, (NAN, NUMBER))


def _drawn(deck: list[int], everything: Iterable[int]) -> int:
    """One of `deck`, which then lacks it; an empty deck is filled with `everything`."""
    if not deck:
        deck.extend(everything)
    return deck.pop(secrets.randbelow(len(deck)))
