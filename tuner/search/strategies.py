"""Strategies behind one door: asked for configurations and told what came of them, until the budget is spent."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import TracebackType

from tuner.errors import RequestError
from tuner.search import through_kernel_tuner, through_optuna
from tuner.search.pool import Pool
from tuner.search.pool_gp import PoolGP
from tuner.search.proposer import Listed, Proposer
from tuner.space.model import Config, Space, Value


@dataclass(frozen=True)
class Budget:
    """How much may be spent: configurations, seconds, or neither."""

    evaluations: int | None = None
    seconds: float | None = None

    @staticmethod
    def parse(text: str | None) -> Budget:
        """`100` configurations, `90s`, `2m` or `1h`. Raises RequestError for anything else."""
        if text is None:
            return Budget()
        units = {"s": 1, "m": 60, "h": 3600}
        number, unit = (text[:-1], text[-1]) if text[-1:] in units else (text, "")
        try:
            value = float(number) if unit else int(number)
        except ValueError:
            value = 0
        if not 0 < value < 10**9:
            raise RequestError(
                f"--budget {text!r}: write a number of configurations such as 100, or a time: 90s, 2m, 1h"
            )
        return Budget(seconds=value * units[unit]) if unit else Budget(evaluations=int(value))


UNLIMITED = Budget()


@dataclass(frozen=True)
class Hints:
    """What may be known of a space beforehand: promising configurations to begin with, such as the best of a similar
    problem, the parameters whose product is the number of threads in a block, and configurations to be measured before
    all others but the most promising, for their own sake. Configurations that are not in the pool are left out."""

    warm: Sequence[Mapping[str, Value]] = ()
    block: Sequence[str] = ()
    first: Sequence[Mapping[str, Value]] = ()

    @staticmethod
    def of(space: Space, warm: Sequence[Mapping[str, Value]] = ()) -> Hints:
        """The hints that a space gives: the parameters that its block names, and its default, which the best is
        measured against."""
        named = frozenset().union(*(expression.names for expression in space.block))
        return Hints(warm, tuple(name for name in space.parameters if name in named), [space.default])


NO_HINTS = Hints()


@dataclass(frozen=True)
class Assignment:
    """What a strategy is given: the pool, a seed, what may be spent, what is known beforehand, how many objectives."""

    pool: Pool
    seed: int
    budget: Budget
    hints: Hints
    objectives: int


@dataclass(frozen=True)
class Strategy:
    """A way to choose: `propose` makes what chooses rows of the pool. `check` raises RequestError where a package that
    it needs is missing.

    many_objectives: whether it follows more than one.
    begins_warm: whether it takes up the warm configurations itself; else they come before it.
    """

    name: str
    propose: Callable[[Assignment], Proposer]
    check: Callable[[], None] = lambda: None
    many_objectives: bool = False
    begins_warm: bool = False


def _of_optuna(name: str) -> Strategy:
    return Strategy(
        f"optuna:{name}",
        lambda given: through_optuna.ThroughOptuna(name, given.pool, given.seed, given.objectives),
        partial(through_optuna.check, name),
        many_objectives=name in through_optuna.MULTI_OBJECTIVE,
    )


def _of_kernel_tuner(name: str) -> Strategy:
    def propose(given: Assignment) -> Proposer:
        evaluations = given.budget.evaluations or len(given.pool)
        return through_kernel_tuner.ThroughKernelTuner(name, given.pool, given.seed, evaluations, given.budget.seconds)

    return Strategy(f"kt:{name}", propose, partial(through_kernel_tuner.check, name))


STRATEGIES: Mapping[str, Strategy] = {
    strategy.name: strategy
    for strategy in (
        Strategy(
            "optuna",
            lambda given: PoolGP(given.pool, given.seed, given.hints.warm, given.hints.block),
            many_objectives=True,
            begins_warm=True,
        ),
        *map(_of_optuna, through_optuna.NAMES),
        Strategy("random", lambda given: Listed.shuffled(given.pool, given.seed), many_objectives=True),
        Strategy("brute_force", lambda given: Listed.declared(given.pool), many_objectives=True),
        *map(_of_kernel_tuner, through_kernel_tuner.NAMES),
    )
}


def check(name: str | None, objectives: int = 1) -> None:
    """Raises RequestError for a strategy that does not exist, lacks a package, or follows fewer objectives."""
    if name is None:
        return
    if name not in STRATEGIES:
        raise RequestError(f"--strategy {name!r}: there is no such strategy; there are: {', '.join(STRATEGIES)}")
    if objectives > 1 and not STRATEGIES[name].many_objectives:
        others = ", ".join(other.name for other in STRATEGIES.values() if other.many_objectives)
        raise RequestError(f"--strategy {name}: follows one objective; for {objectives}, take {others}")
    STRATEGIES[name].check()


def choose(name: str | None, budget: Budget, configurations: int) -> str:
    """The strategy to use where none is named: all configurations if the budget is not known to forbid it."""
    if name is not None:
        return name
    limited = budget.seconds is not None or (budget.evaluations or configurations) < configurations
    return "optuna" if limited else "brute_force"


class Search:
    """A strategy at work on a pool. Use it as a context manager, or close it.

    Any number of configurations may be outstanding, and they may be told in any order; one that was never asked for may
    be told too, and will not be asked for. None is asked for twice. The same seed gives the same configurations, if
    the answers are the same and come in the same order, whatever else draws random numbers in the process.
    """

    def __init__(
        self,
        name: str,
        pool: Pool,
        budget: Budget = UNLIMITED,
        seed: int = 0,
        hints: Hints = NO_HINTS,
        objectives: int = 1,
    ) -> None:
        """Time starts to count now. Raises RequestError for what `check` refuses."""
        check(name, objectives)
        strategy = STRATEGIES[name]
        self.pool = pool
        self._left = min(budget.evaluations or len(pool), len(pool))
        self._deadline = None if budget.seconds is None else time.monotonic() + budget.seconds
        # The best that is known goes before them: beside it they are stopped where they are slow.
        self._first = pool.known(hints.warm)[:1] + pool.known(hints.first)
        if not strategy.begins_warm:
            self._first += pool.known(hints.warm)
        self._proposer = strategy.propose(Assignment(pool, seed, Budget(self._left, budget.seconds), hints, objectives))

    def __enter__(self) -> Search:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def ask(self) -> Config | None:
        """The next configuration. None: there is none before something outstanding is told; if nothing is, the search
        is over."""
        if self._left < 1 or (self._deadline is not None and time.monotonic() >= self._deadline):
            return None
        row = self._beforehand()
        if row is None:
            row = self._proposer.ask()
        if row is None:
            return None
        self._left -= 1
        return self.pool.config(row)

    def tell(self, config: Mapping[str, Value], value: float | Sequence[float] | None) -> None:
        """The value of `config`, or one for each objective, lower being better; None where it failed.

        Raises ValueError for a configuration that is not in the pool.
        """
        self._proposer.tell(self.pool.row(config), (value,) if isinstance(value, int | float) else value)

    def likely(self, count: int) -> list[Config]:
        """Configurations that may be asked for next, the likeliest first, at most `count`: to be compiled ahead."""
        return [self.pool.config(row) for row in self._proposer.likely(min(count, self._left))]

    def close(self) -> None:
        """Stop; nothing may be asked or told any more."""
        self._proposer.close()

    def _beforehand(self) -> int | None:
        while self._first:
            row = self._first.pop(0)
            if self._proposer.claim(row):
                return row
        return None
