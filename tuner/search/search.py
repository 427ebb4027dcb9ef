"""A running search: a strategy behind an ask-and-tell interface, with a budget."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuner.search.budget import UNLIMITED, Budget
from tuner.search.pool import Pool
from tuner.search.proposer import FixedOrder, Proposer
from tuner.search.strategies import NO_HINTS, STRATEGIES, Assignment, Hints, check
from tuner.space.config import Config, Value

LEAST_LEFT = 1 / 4  # of the time of a budget: so much is left for the search, however long its preparation takes
POLL_SECONDS = 0.5  # between checks of the deadline while a strategy computes


class Search:
    """A running search: a strategy over a pool, with a budget. Use it as a context manager, or close it.

    Any number of configurations may be outstanding, and results may be told in any order, also for configurations that
    were never asked for. `ask` returns no configuration twice, and none that was told. The same seed and the same
    results in the same order reproduce the search, even if other code in the process draws random numbers.
    """

    def __init__(
        self,
        name: str,
        pool: Pool,
        budget: Budget = UNLIMITED,
        seed: int = 0,
        hints: Hints = NO_HINTS,
        objectives: int = 1,
        say: Callable[[str], None] = lambda _: None,
        began: float | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        """The time of the budget starts at `began`, a time of `time.monotonic`; by default, at the first `ask`. At
        least LEAST_LEFT of this time is left at the first `ask`, however early `began` is.

        `say` receives a message if the strategy fails and random configurations replace it. `options` are those of
        `Assignment`. Raises RequestError as `check` does.
        """
        check(name, objectives)
        strategy = STRATEGIES[name]
        self.pool = pool
        self._remaining = min(budget.evaluations or len(pool), len(pool))
        self._seconds, self._began = budget.seconds, began
        self.deadline = math.inf  # by `time.monotonic`; without a limit of time, and before the first `ask`, infinite
        warm = pool.rows_of(hints.promising)
        # The best known configuration is measured first: in a race against it, slow ones are stopped early.
        leaders = warm[:1] + pool.rows_of(hints.first) + ([] if strategy.begins_warm else warm)
        self._leaders = list(dict.fromkeys(leaders))
        if self._remaining <= len(self._leaders):  # the strategy, which is slow to start, would never be asked
            self._proposer: Proposer = FixedOrder.declared(pool)
        else:
            limit = Budget(self._remaining, budget.seconds)
            self._proposer = strategy.propose(Assignment(pool, seed, limit, hints, objectives, say, options))

    def __enter__(self) -> Search:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def seconds(self) -> float:
        """The CPU time, in seconds, that the strategy has used in a separate process."""
        return self._proposer.seconds

    @property
    def left(self) -> float | None:
        """The seconds that the search would have if it began now; None if the budget has no time limit."""
        seconds = self._seconds
        if seconds is None or self._began is None:
            return seconds
        return max(self._began + seconds - time.monotonic(), LEAST_LEFT * seconds)

    def ready(self) -> bool:
        """Whether `ask` returns at once. If not, the strategy's process starts to compute the next configuration."""
        return bool(self._leaders) or self._is_spent() or self._proposer.ready()

    def needs_results(self) -> bool:
        """Whether few configurations should be outstanding now, because results decide what comes next."""
        return self._proposer.needs_results()

    def wait(self, seconds: float) -> None:
        """Return when the value of `ready` may have changed, or after `seconds`. Any thread may call this."""
        self._proposer.wait(seconds)

    def ask(self) -> Config | None:
        """The next configuration. None: first tell outstanding results; if none is outstanding, the search is over."""
        if self.deadline == math.inf and (left := self.left) is not None:
            self.deadline = time.monotonic() + left
        while not self.ready():
            self.wait(POLL_SECONDS)
        if self._is_spent():
            return None
        row = self._next_leader()
        if row is None:
            row = self._proposer.ask()
        if row is None:
            return None
        self._remaining -= 1
        return self.pool.config(row)

    def tell(self, config: Mapping[str, Value], value: float | Sequence[float] | None) -> None:
        """Report the result of `config`: a value, or one per objective, lower is better; None if it failed.

        Raises ValueError for a configuration that is not in the pool.
        """
        self._proposer.tell(self.pool.row(config), (value,) if isinstance(value, int | float) else value)

    def likely(self, count: int) -> list[Config]:
        """At most `count` configurations to compile ahead: those that probably come next, the likeliest first."""
        count = min(count, self._remaining)
        leaders = [row for row in self._leaders if self._proposer.free[row]]
        rest = (row for row in self._proposer.likely(count) if row not in leaders)
        return [self.pool.config(row) for row in [*leaders, *rest][:count]]

    def rest(self, most: int) -> list[Config]:
        """All configurations that are still to come. Empty if they are more than `most`, or not known yet."""
        if self._leaders or self._seconds is not None or not isinstance(self._proposer, FixedOrder):
            return []
        return self.likely(most) if min(self._remaining, int(self._proposer.free.sum())) <= most else []

    def advance(self, config: Config) -> None:
        """Ask for one of the configurations of `rest` before all others."""
        if isinstance(self._proposer, FixedOrder):
            self._proposer.advance(self.pool.row(config))

    def prefer(self, scores: NDArray[np.float64]) -> None:
        """Ask for the free configuration with the highest of these positive scores before all others, if the strategy
        has an order that no result changes."""
        if isinstance(self._proposer, FixedOrder):
            free = np.where(self._proposer.free, scores, 0.0)
            if free.any():
                self._proposer.advance(int(free.argmax()))

    def close(self) -> None:
        """Stop the strategy. `ask` and `tell` must not be called afterwards."""
        self._proposer.close()

    def is_late(self) -> bool:
        """Whether the budget has a time limit, and the time has run out."""
        return not self.seconds_left()

    def seconds_left(self) -> float:
        """The seconds until the time of the budget has run out: 0 after that, infinite without a time limit."""
        return max(self.deadline - time.monotonic(), 0.0)

    def _is_spent(self) -> bool:
        """Whether the budget is used up."""
        return self._remaining < 1 or self.is_late()

    def _next_leader(self) -> int | None:
        while self._leaders:
            row = self._leaders.pop(0)
            if self._proposer.claim(row):
                return row
        return None
