"""The order in which input sets and poison alternate: at random, each as often as any other."""

from __future__ import annotations

import secrets
from collections.abc import Iterable

from tuner.measure.answers.poison import NAN, NUMBER


class Rotation:
    """Draws the input set, a number below `count`, and the poison of each run.

    Kernels are verified on set 0, with outputs of NaN. `used` has the sets of the timed runs since `begin`.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._sets, self._pinned, self._fills = list[int](), list[int](), list[int]()  # still to be drawn
        self.used: list[int] = []

    def verified(self) -> None:
        """Note that a kernel was verified: the next run gets another set and other poison."""
        self._fills = [NUMBER]
        self.begin()

    def begin(self) -> None:
        """Begin a batch of runs: the first one gets a set other than 0, and later ones get every set in turn.

        So each set contributes equally to the times of every configuration.
        """
        self._sets, self.used = list(range(1, self._count)), []

    def pin_inputs(self, runs: int) -> int:
        """Use one set for the next `runs` runs and return its number. Sets alternate in random order."""
        index = _drawn(self._pinned, range(self._count))
        self._sets = [index] * runs
        return index

    def pin(self, index: int) -> None:
        """Use this set for the next run."""
        self._sets = [index]

    def draw(self) -> tuple[int, int]:
        """The input set and the poison of the next run."""
        index = _drawn(self._sets, range(self._count))
        self.used.append(index)
        return index, _drawn(self._fills, (NAN, NUMBER))


def _drawn(deck: list[int], everything: Iterable[int]) -> int:
    """Remove and return a random element of `deck`, which is refilled with `everything` if empty."""
    if not deck:
        deck.extend(everything)
    return deck.pop(secrets.randbelow(len(deck)))
