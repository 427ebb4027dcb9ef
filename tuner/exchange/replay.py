"""Replay: a search strategy run on a recording instead of a device."""

import time
from collections.abc import Sequence

import numpy as np

from tuner.classes import dataclass
from tuner.errors import RequestError
from tuner.quoting import quoted, shown
from tuner.search import strategies
from tuner.search.budget import UNLIMITED, Budget
from tuner.search.experience import Experience
from tuner.search.pool import Pool
from tuner.search.search import Search
from tuner.search.strategies import Hints
from tuner.space.config import MAX_VALUES
from tuner.space.expressions.arithmetic import MAX_NUMBER
from tuner.tuning.recordings.recording import Recording, Row

BLOCK = ("block_size_x", "block_size_y", "block_size_z")  # Kernel Tuner's names of the block's dimensions


@dataclass(frozen=True)
class Replay:
    """The run of a strategy on a recording.

    optimum_ms: the fastest time in the recording.
    evaluations: the time in ms of each configuration that the strategy asked for, in the order in which results were
        reported; None for a configuration that failed in the recording.
    rows: these configurations, as the recording's `entries` name them.
    seconds_in_strategy: CPU time of the strategy itself.
    notes: messages of the strategy, about what it could not do.
    """

    strategy: str
    seed: int
    optimum_ms: float
    evaluations: Sequence[float | None]
    seconds_in_strategy: float
    notes: Sequence[str] = ()
    rows: Sequence[Row] = ()

    def fraction(self, evaluations: int) -> float:
        """The optimum divided by the best time of the first `evaluations`: 1 at the optimum, 0 if all failed."""
        times = [time_ms for time_ms in self.evaluations[:evaluations] if time_ms is not None]
        return self.optimum_ms / min(times) if times else 0.0

    def within(self, share: float) -> int | None:
        """The number of evaluations until a time was within `share` (0.05 = 5 %) of the optimum; None if never."""
        for number, time_ms in enumerate(self.evaluations, start=1):
            if time_ms is not None and time_ms <= self.optimum_ms * (1 + share):
                return number
        return None


def replay(
    recording: Recording,
    strategy: str | None = None,
    budget: Budget = UNLIMITED,
    seed: int = 0,
    workers: int = 1,
    experiences: Sequence[Experience] = (),
) -> Replay:
    """Run `strategy` (default: the one that tuning would choose) on `recording`.

    The search knows the `experiences`. `workers` configurations are outstanding at a time, and finish in random order.
    Raises RequestError for an unknown strategy, a recording that cannot be searched, or a time budget: a replay does
    not spend the time that the measurements took.
    """
    if budget.seconds is not None:
        raise RequestError(
            "--budget: a replay measures nothing, so it takes no time budget; write a number of trials, such as 100"
        )
    strategies.check(strategy)
    try:
        _check_values(recording)
        pool = Pool(recording.parameters, recording.entries)
    except ValueError as error:
        raise RequestError(
            f"the recording of {shown(recording.kernel) or 'no name'} cannot be searched: {shown(str(error))}"
        ) from None
    strategy = strategies.choose(strategy, budget, len(pool))
    times = [entry.time_ms for entry in recording.entries.values()]
    order = np.random.default_rng(seed)
    evaluations: list[float | None] = []
    rows, asked = list(recording.entries), list[Row]()
    outstanding: list[int] = []
    notes: list[str] = []
    began = time.process_time()
    with Search(strategy, pool, budget, seed, Hints((), BLOCK, experiences=experiences), say=notes.append) as search:
        while True:
            while len(outstanding) < workers and (config := search.ask()) is not None:
                outstanding.append(pool.row(config))
            if not outstanding:
                break
            row = outstanding.pop(int(order.integers(len(outstanding))) if workers > 1 else 0)
            evaluations.append(times[row])
            asked.append(rows[row])
            search.tell(pool.config(row), times[row])
    seconds = time.process_time() - began + search.seconds
    return Replay(strategy, seed, recording.optimum_ms, tuple(evaluations), seconds, notes, tuple(asked))


def _check_values(recording: Recording) -> None:
    """Raise ValueError if a parameter has more values, or larger numbers, than a space allows: strategies compute with
    all of them."""
    for name, values in recording.parameters.items():
        if len(values) > MAX_VALUES:
            raise ValueError(f"{name} has {len(values)} values; at most {MAX_VALUES} are allowed")
        for value in values:
            if isinstance(value, int | float) and not abs(value) <= MAX_NUMBER:
                raise ValueError(f"{name} = {quoted(value)}; numbers must be between -2**64 and 2**64")
