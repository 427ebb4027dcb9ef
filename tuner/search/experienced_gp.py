"""`ExperiencedGP`: the default strategy when other searches of the same space are known, with a hedge against them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter

from threadpoolctl import ThreadpoolController

from tuner.search.experience import WARM, Experience, agreement
from tuner.search.pool import Pool
from tuner.search.pool_gp import START, PoolGP
from tuner.search.proposer import Proposer
from tuner.search.switches import Switches
from tuner.space.config import Value

MOST_EXPERIENCES = 4  # that are asked; the others come after these in order of their fit
# Configurations of experiences, one after the other, that may bring no improvement before the search begins. If one
# experience is of this device: PATIENCE_OF_DEVICE. Otherwise PATIENCE, in which the best of each experience is counted:
# of more experiences, one is more likely to be right at once, and more is lost if all mislead.
PATIENCE, PATIENCE_OF_DEVICE = 4, 8
NEAR = 1.1  # a configuration is near the best of an experience if it takes at most so many times as long there
IMPROVEMENT = 0.999  # a time is an improvement if it is at most this share of the best so far
AGREEMENT = 0.55  # least Kendall tau of an experience that is trusted
MOST_FASTER = 1  # of the model's first configurations, than all those of an experience that is trusted
MOST_FAILURES = 40  # of trusted experiences that the model learns

Values = tuple[float, ...]


class ExperiencedGP(Proposer):
    """`PoolGP`, with configurations from experiences in between.

    1. The best configuration of each experience comes first, then the next best of the one whose configurations have
       been the fastest here, until several of them, one after the other, were no improvement: see PATIENCE. If an
       experience is of this device, the next one is that with the largest of `Switches.gains`.
    2. `PoolGP` begins its search as if there were no experiences: it does not learn their results.
    3. When it has START results, each experience is judged. It is trusted if a model of its own results orders these as
       they were measured here, and at most MOST_FASTER of them are faster than all of its own configurations. One that
       is too short for a model is trusted if none of them is faster. `PoolGP` learns all results of the trusted
       experiences' configurations, and their next best ones alternate with its own choices, again until so many were no
       improvement. It also learns what failed in their searches, and asks for that last. All other experiences are
       dropped, with their results.

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
        self._given = {*pool.rows_of(first)}
        self._times = [each.times(pool) for each in self._experiences]
        self._is_of_device = any(each.of_device for each in self._experiences)
        rankings = [sorted((row for row in of if row not in self._given), key=of.__getitem__) for of in self._times]
        near = [_near_best(ranking, times) for ranking, times in zip(rankings, self._times, strict=True)]
        self._switches = Switches(pool, near)
        self._queues = [
            [*dict.fromkeys([*ranking[:WARM], *self._switches.first_of_each([*rows], WARM)])]
            for ranking, rows in zip(rankings, near, strict=True)
        ]
        # The experience of each row that may be taken over, also if another worker or an earlier run measures it.
        self._owners: dict[int, int] = {}
        for number, queue in enumerate(self._queues):
            for row in queue:
                self._owners.setdefault(row, number)
        self._values: dict[int, Values | None] = {}
        self._of_model: set[int] = set()  # rows that the model has asked for
        self._best = [math.inf] * len(self._queues)  # here, of the rows of each experience
        self._fastest = math.inf
        self._taken = 0
        self._first = list(range(len(self._queues)))  # experiences whose best was not yet proposed
        self._patience = max(1, PATIENCE - len(self._experiences))
        if self._is_of_device:
            self._patience = PATIENCE_OF_DEVICE
        self._left = self._patience
        self._is_begun = False  # whether the model's search has begun
        self._trusted: list[int] | None = None  # None before the judgement
        self._model_next = True  # whether the model's choice is next, rather than a trusted experience's

    def needs_results(self) -> bool:
        return self._is_of_device and not self._is_begun

    def likely(self, count: int) -> list[int]:
        queued = [queue[0] for queue in self._queues if queue]
        if self._is_of_device:
            queued += [row for _, row, _ in sorted(self._gains(queued), key=itemgetter(0), reverse=True)]
        rows = [*([] if self._is_begun else queued), *self._model.likely(count)]
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
            if not self._model.free.any():
                self._model.free |= self.free  # all that is left has failed elsewhere
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
        while self._first:
            number = self._first.pop(0)
            if (row := self._next_of(number)) is not None:
                return self._taking(row, number)
        if self._left <= 0:
            return None
        self._left -= 1
        if self._is_of_device and not self._is_begun:
            ahead = [row for row in self._owners if not self.free[row] and row not in self._values]
            _, row, number = max(self._gains(ahead), key=itemgetter(0), default=(0.0, None, 0))
            return None if row is None else self._taking(row, number)
        for number in sorted(experiences, key=lambda number: self._best[number]):
            if (row := self._next_of(number)) is not None:
                return self._taking(row, number)
        return None

    def _gains(self, ahead: Sequence[int]) -> list[tuple[float, int, int]]:
        """The expected gain of each row that waits in a queue, the row, and the number of its experience."""
        here = {row: values[0] for row, values in self._values.items() if values and 0 < values[0] < math.inf}
        gains = []
        for number, queue in enumerate(self._queues):
            rows = [row for row in queue if self.free[row]]
            of_rows = self._switches.gains(rows, self._times[number], here, ahead)
            gains += [(float(gain), row, number) for gain, row in zip(of_rows, rows, strict=True)]
        return gains

    def _next_of(self, number: int) -> int | None:
        """The next row of an experience's queue that is free."""
        queue = self._queues[number]
        while queue:
            if self.free[row := queue.pop(0)]:
                return row
        return None

    def _taking(self, row: int, number: int) -> int:
        """The row, counted as one of the experience."""
        self._taken += 1
        self._owners[row] = number
        return row

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
        self._model.tell(row, self._values[row])
        if self._trusted is None and len(self._of_model & self._values.keys()) >= START:
            self._judge()

    def _judge(self) -> None:
        own = {row: values for row, values in self._values.items() if row in self._of_model}
        slowest = max((values[0] for values in own.values() if values is not None), default=1.0)
        of_failure = slowest + abs(slowest)  # all failures are alike, and worse than any success
        costs = {row: of_failure if values is None else values[0] for row, values in own.items()}
        # The given ones may be far better than those that the model begins with.
        fair = [values[0] for row, values in own.items() if values is not None and row not in self._given]
        self._trusted = []
        for number, experience in enumerate(self._experiences):
            faster = sum(cost < self._best[number] for cost in fair)
            if faster > MOST_FASTER:
                continue
            with ThreadpoolController().limit(limits=1, user_api="blas"):  # as in `PoolGP`
                tau = agreement(experience, self.pool, self._block, costs)
            if tau >= AGREEMENT if tau is not None else not faster:
                self._trusted.append(number)
        self._is_begun, self._left = True, self._patience
        for row, values in self._values.items():
            if row not in self._of_model and self._owners.get(row) in self._trusted:
                self._model.tell(row, values)
        self._avoid_failures([self._experiences[number] for number in self._trusted])

    def _avoid_failures(self, experiences: Sequence[Experience]) -> None:
        """Let the model learn what failed in these experiences, and succeeded in none, and ask for it last."""
        succeeded = {row for experience in experiences for row in experience.times(self.pool)}
        failed = dict.fromkeys(row for experience in experiences for row in experience.failures(self.pool))
        new = [row for row in failed if row not in succeeded and self._model.free[row] and row not in self._values]
        self._model.free[new] = False
        for row in new[:MOST_FAILURES]:
            self._model.tell(row, None)


def _near_best(ranking: Sequence[int], times: Mapping[int, float]) -> dict[int, float]:
    """The times of the rows of a ranking that are NEAR those of the first, in its order."""
    return {row: times[row] for row in ranking if times[row] <= NEAR * times[ranking[0]]}
