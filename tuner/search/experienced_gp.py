"""`ExperiencedGP`: the default strategy when other searches of the same space are known, with a hedge against them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from threadpoolctl import ThreadpoolController

from tuner.search.experience import WARM, Experience, agreement
from tuner.search.pool import Pool
from tuner.search.pool_gp import START, PoolGP
from tuner.search.proposer import Proposer
from tuner.space.config import Value

MOST_EXPERIENCES = 4  # that are asked; the others come after these in order of their fit
# Configurations of experiences, one after the other, that are no improvement: of other devices, and if one is of this.
PATIENCE, PATIENCE_OF_DEVICE = 3, 8
IMPROVEMENT = 0.999  # a time is an improvement if it is at most this share of the best so far
AGREEMENT = 0.55  # least Kendall tau of an experience that is trusted

Values = tuple[float, ...]


class ExperiencedGP(Proposer):
    """`PoolGP`, with configurations from experiences in between.

    1. The best configuration of each experience comes first, then the next best of the one whose configurations have
       been the fastest here, until PATIENCE of them, one after the other, were no improvement. If an experience is of
       this device, it is PATIENCE_OF_DEVICE.
    2. `PoolGP` begins its search as if there were no experiences: it does not learn their results.
    3. When it has START results, each experience is judged: does a model of its own results order these as they were
       measured here? Of one that is too short for a model: is its best faster than all of them? Those that pass are
       trusted. `PoolGP` learns all results of their configurations, and their next best ones alternate with its own
       choices, again until so many were no improvement. All others are dropped, with their results.

    At most WARM configurations come from experiences. So if none is trusted, the search measures what it would have
    measured without them, at most WARM evaluations later. An experience that is trusted, but misleads, may cost more.
    """

    def __init__(
        self,
        pool: Pool,
        seed: int | None,
        experiences: Sequence[Experience],
        block: Sequence[str] = (),
        first: Iterable[Mapping[str, Value]] = (),
    ) -> None:
        """`experiences` come in the order in which they fit. `first` are configurations that are measured in any case,
        so that they are not an experience's."""
        super().__init__(pool)
        self._model = PoolGP(pool, seed, (), block)
        self._block = block
        self._experiences = list(experiences)[:MOST_EXPERIENCES]
        given = {*pool.rows_of(first)}
        rankings = [each.ranking(pool) for each in self._experiences]
        self._queues = [[row for row in ranking if row not in given][:WARM] for ranking in rankings]
        # The experience of each row that may be taken over, also if another worker or an earlier run measures it.
        self._owners: dict[int, int] = {}
        for number, queue in enumerate(self._queues):
            for row in queue:
                self._owners.setdefault(row, number)
        self._values: dict[int, Values | None] = {}
        self._of_model: set[int] = set()  # rows that the model has asked for
        self._best = [math.inf] * len(self._queues)  # here, of the rows of each experience
        self._fastest = self._fastest_of_model = math.inf
        self._taken = 0
        self._first = list(range(len(self._queues)))  # experiences whose best was not yet proposed
        self._patience = PATIENCE_OF_DEVICE if any(each.of_device for each in self._experiences) else PATIENCE
        self._left = self._patience
        self._is_begun = False  # whether the model's search has begun
        self._trusted: list[int] | None = None  # None before the judgement
        self._model_next = True  # whether the model's choice is next, rather than a trusted experience's

    def likely(self, count: int) -> list[int]:
        queued = [] if self._is_begun else [queue[0] for queue in self._queues if queue]
        rows = [*queued, *self._model.likely(count)]
        return [row for row in dict.fromkeys(rows) if self.free[row]][:count]

    def _next(self) -> int:
        if not self._is_begun:
            if (row := self._take(range(len(self._queues)))) is not None:
                return row
            self._is_begun = True
        if self._trusted and not self._model_next:
            self._model_next = True
            if (row := self._take(self._trusted)) is not None:
                return row
        self._model_next = False
        while True:
            row = self._model.ask()
            assert row is not None  # whatever is free here is free for the model
            self._of_model.add(row)
            if self.free[row]:
                return row
            if row in self._values:  # measured for an experience: the model gets the result for nothing
                self._tell(row)

    def _take(self, experiences: Sequence[int]) -> int | None:
        """The next row of one of the experiences; None if their turn is over."""
        if self._taken >= WARM:
            return None
        order = sorted(experiences, key=lambda number: self._best[number])
        for number in [*self._first, *(order if self._left > 0 else [])]:
            is_first = number in self._first
            if is_first:
                self._first.remove(number)
            while self._queues[number]:
                row = self._queues[number].pop(0)
                if self.free[row]:
                    self._left -= not is_first
                    self._taken += 1
                    self._owners[row] = number
                    return row
        return None

    def _expect(self, row: int) -> None:
        if row in self._owners:  # such as the best known one, which a search measures before all others
            number = self._owners[row]
            if number in self._first and self._queues[number][:1] == [row]:
                self._first.remove(number)
                self._taken += 1
        else:
            self._of_model.add(row)
            self._model.claim(row)

    def _learn(self, row: int, values: Sequence[float] | None) -> None:
        self._values[row] = None if values is None else tuple(values)
        cost = values[0] if values is not None and math.isfinite(values[0]) else math.inf
        if row in self._owners and row not in self._of_model:
            number = self._owners[row]
            self._best[number] = min(self._best[number], cost)
            if cost <= IMPROVEMENT * self._fastest:
                self._left = self._patience
            if self._trusted and number in self._trusted:
                self._model.tell(row, values)
        else:
            self._tell(row)
        self._fastest = min(self._fastest, cost)

    def _tell(self, row: int) -> None:
        """Tell the model the result of a row of its own; with START of them, judge the experiences."""
        self._of_model.add(row)
        values = self._values[row]
        self._model.tell(row, values)
        if values is not None:
            self._fastest_of_model = min(self._fastest_of_model, values[0])
        if self._trusted is None and len(self._of_model & self._values.keys()) >= START:
            self._judge()

    def _judge(self) -> None:
        own = {row: values for row, values in self._values.items() if row in self._of_model}
        slowest = max((values[0] for values in own.values() if values is not None), default=1.0)
        of_failure = slowest + abs(slowest)  # all failures are alike, and worse than any success
        costs = {row: of_failure if values is None else values[0] for row, values in own.items()}
        self._trusted = []
        for number, experience in enumerate(self._experiences):
            with ThreadpoolController().limit(limits=1, user_api="blas"):  # as in `PoolGP`
                tau = agreement(experience, self.pool, self._block, costs)
            is_right = tau >= AGREEMENT if tau is not None else self._best[number] < self._fastest_of_model
            if is_right:
                self._trusted.append(number)
        self._is_begun, self._left = True, self._patience
        for row, values in self._values.items():
            if row not in self._of_model and self._owners.get(row) in self._trusted:
                self._model.tell(row, values)
