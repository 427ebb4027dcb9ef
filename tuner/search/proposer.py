"""What chooses rows of a pool: the shape that all strategies have inside, and the two that need no more than a list."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tuner.search.pool import Pool


class Exhausted(Exception):
    """A strategy asks for nothing more, though rows are free; `str()` says why, after its name."""


class Proposer(ABC):
    """Proposes rows of a pool, none twice and none that it has been told of, with any number outstanding."""

    def __init__(self, pool: Pool) -> None:
        self.pool = pool
        self.free = np.ones(len(pool), dtype=bool)  # neither proposed nor told of
        self.seconds = 0.0  # of processor time that it has used outside this process

    def ask(self) -> int | None:
        """The next row. None: there is none before something outstanding is told; if nothing is, there is none left."""
        row = self._next() if self.free.any() else None
        if row is not None:
            self.free[row] = False
        return row

    def ready(self) -> bool:
        """Whether `ask` answers without waiting for another process. If not, that process begins to work on it."""
        return True

    def wait(self, seconds: float) -> None:
        """Return when `ready` may say something else, or after `seconds`. Any thread may call this."""

    def claim(self, row: int) -> bool:
        """Take `row` as proposed, for somebody else is measuring it; whether it was free."""
        was_free = bool(self.free[row])
        if was_free:
            self.free[row] = False
            self._expect(row)
        return was_free

    def tell(self, row: int, values: Sequence[float] | None) -> None:
        """What came of `row`, asked for or not: a value for each objective, lower is better; None where it failed."""
        self.free[row] = False
        self._learn(row, values)

    def likely(self, count: int) -> list[int]:
        """Free rows that may come next, the likeliest first, at most `count`; a guess."""
        return []

    def close(self) -> None:
        """Nothing will be asked or told any more."""

    @abstractmethod
    def _next(self) -> int | None:
        """A free row, of which there is at least one, or None to wait for what is outstanding. Raises Exhausted."""

    def _expect(self, row: int) -> None:
        """Take in that `row` is outstanding, though it was not proposed."""

    def _learn(self, row: int, values: Sequence[float] | None) -> None:
        """Take in what came of `row`."""


class FixedOrder(Proposer):
    """Rows in an order that is fixed beforehand."""

    def __init__(self, pool: Pool, order: NDArray[np.intp]) -> None:
        super().__init__(pool)
        self._order = order
        self._place = 0

    @staticmethod
    def declared(pool: Pool) -> FixedOrder:
        """All, in the order of the declared values; the last parameter changes fastest."""
        return FixedOrder(pool, np.lexsort(pool.rows.T[::-1]) if pool.names else np.arange(len(pool)))

    @staticmethod
    def shuffled(pool: Pool, seed: int) -> FixedOrder:
        """All, in random order."""
        return FixedOrder(pool, np.random.default_rng(seed).permutation(len(pool)))

    def _next(self) -> int:
        while not self.free[self._order[self._place]]:
            self._place += 1
        return int(self._order[self._place])

    def likely(self, count: int) -> list[int]:
        ahead = self._order[self._place : self._place + 2 * count]
        return [int(row) for row in ahead[self.free[ahead]][:count]]
