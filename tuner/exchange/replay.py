"""A strategy run over a recorded space, without a device and at full speed."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tuner.errors import RequestError
from tuner.exchange.recording import Recording
from tuner.search import strategies
from tuner.search.pool import Pool
from tuner.search.strategies import UNLIMITED, Budget, Hints, Search
from tuner.space.model import Config

BLOCK = ("block_size_x", "block_size_y", "block_size_z")  # what Kernel Tuner calls the threads of a block


@dataclass(frozen=True)
class Replay:
    """What a strategy found: the time in ms of each configuration that it asked for, in the order told, None for one
    that failed in the recording too; the least time in the recording; and the seconds of processor time that the
    strategy itself took.
    """

    strategy: str
    seed: int
    optimum_ms: float
    evaluations: Sequence[float | None]
    seconds_in_strategy: float

    def fraction(self, evaluations: int) -> float:
        """The optimum over the best found in so many evaluations: 1 where it was found, 0 where all failed."""
        found = [time_ms for time_ms in self.evaluations[:evaluations] if time_ms is not None]
        return self.optimum_ms / min(found) if found else 0.0

    def within(self, share: float) -> int | None:
        """Evaluations until the best found is at most `share` (0.05: 5 %) above the optimum; None where it never is."""
        for done, time_ms in enumerate(self.evaluations, start=1):
            if time_ms is not None and time_ms <= self.optimum_ms * (1 + share):
                return done
        return None


def replay(
    recording: Recording,
    strategy: str | None = None,
    budget: Budget = UNLIMITED,
    seed: int = 0,
    workers: int = 1,
    warm: Sequence[Config] = (),
) -> Replay:
    """Run `strategy`, or the one that tuning would choose, over `recording`.

    `warm` configurations come first. With several `workers`, so many configurations are outstanding, and any one of
    them is told next. Raises RequestError for an unknown strategy, and for a budget in time, since nothing takes the
    time that it took.
    """
    if budget.seconds is not None:
        raise RequestError("--budget: a replay does not take the time that measuring took; write a number, such as 100")
    strategies.check(strategy)
    try:
        pool = Pool(recording.parameters, recording.entries)
    except ValueError as error:
        raise RequestError(f"the recording of {recording.kernel} cannot be searched: {error}") from None
    strategy = strategies.choose(strategy, budget, len(pool))
    times = [entry.time_ms for entry in recording.entries.values()]
    order = np.random.default_rng(seed)
    evaluations: list[float | None] = []
    outstanding: list[int] = []
    spent = -time.process_time()
    with Search(strategy, pool, budget, seed, Hints(warm, BLOCK)) as search:
        while True:
            while len(outstanding) < workers and (config := search.ask()) is not None:
                outstanding.append(pool.row(config))
            if not outstanding:
                break
            row = outstanding.pop(int(order.integers(len(outstanding))) if workers > 1 else 0)
            evaluations.append(times[row])
            search.tell(pool.config(row), times[row])
    spent += time.process_time()
    return Replay(strategy, seed, recording.optimum_ms, tuple(evaluations), spent)
