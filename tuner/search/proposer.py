"""`Proposer`, the interface of all strategies, and `FixedOrder`, which proposes rows in a fixed order."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tuner.search.pool import Pool


class Exhausted(Exception):
    """A strategy has ended although rows are free; `str()` says why, to be read after the strategy's name."""


class Proposer(ABC):
    """Proposes rows of a pool, each at most once, and none whose result is known. Any number may be outstanding."""

    def __init__(self, pool: Pool) -> None:
        self.pool = pool
        self.free = np.ones(len(pool), dtype=bool)  # neither proposed nor told
        self.seconds = 0.0  # CPU time used outside this process

    def ask(self) -> int | None:
        """The next row. None if an outstanding result must be told first; if nothing is outstanding, none is left."""
        row = self._next() if self.free.any() else None
        if row is not None:
            self.free[row] = False
        return row

    def ready(self) -> bool:
        """Whether `ask` returns without waiting for another process. If not, that process starts to work on it."""
        return True

    def wait(self, seconds: float) -> None:
        """Return when the value of `ready` may have changed, or after `seconds`. Any thread may call this."""

    def needs_results(self) -> bool:
        """Whether the next row depends so much on outstanding results that few should be outstanding."""
        return False

    def claim(self, row: int) -> bool:
        """Mark `row` as outstanding because another worker measures it. Return whether it was free."""
        was_free = bool(self.free[row])
        if was_free:
            self.free[row] = False
            self._expect(row)
        return was_free

    def tell(self, row: int, values: Sequence[float] | None) -> None:
        """Report the result of `row`, asked for or not: one value per objective, lower is better; None if it failed."""
        self.free[row] = False
        self._learn(row, values)

    def likely(self, count: int) -> list[int]:
        """At most `count` free rows that `ask` will probably return next, the likeliest first."""
        return []

    def close(self) -> None:
        """Release resources. `ask` and `tell` are not called afterwards."""

    @abstractmethod
    def _next(self) -> int | None:
        """A free row, or None to wait for an outstanding result. At least one row is free.

        Raises Exhausted if the strategy has ended.
        """

    def _expect(self, row: int) -> None:
        """Note that `row` is outstanding although this strategy did not propose it."""

    def _learn(self, row: int, values: Sequence[float] | None) -> None:
        """Use the result of `row`."""


class FixedOrder(Proposer):
    """Proposes rows in a fixed order."""

    def __init__(self, pool: Pool, order: NDArray[np.intp]) -> None:
        super().__init__(pool)
        self._order = order
        self._place = 0

    @staticmethod
    def declared(pool: Pool) -> FixedOrder:
        """All rows in the order of the declared values; the last parameter varies fastest."""
        return FixedOrder(pool, np.lexsort(pool.rows.T[::-1]) if pool.names else np.arange(len(pool)))

    @staticmethod
    def shuffled(pool: Pool, seed: int) -> FixedOrder:
        """All rows in random order."""
        return FixedOrder(pool, np.random.default_rng(seed).permutation(len(pool)))

    def _next(self) -> int:
        while not self.free[self._order[self._place]]:
            self._place += 1
        return int(self._order[self._place])

    def advance(self, row: int) -> None:
        """Propose this row, which is free, before all others."""
        place = self._place + int(np.flatnonzero(self._order[self._place :] == row)[0])
        self._order[self._place : place + 1] = [row, *self._order[self._place : place]]

    def likely(self, count: int) -> list[int]:
        ahead = self._order[self._place : self._place + 2 * count]
        return [int(row) for row in ahead[self.free[ahead]][:count]]
