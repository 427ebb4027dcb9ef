"""Strategies behind one interface: ask for a configuration, tell its result, until the budget is spent."""

from __future__ import annotations

import difflib
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import TracebackType

from tuner.errors import RequestError
from tuner.quoting import quoted
from tuner.search.budget import UNLIMITED, Budget
from tuner.search.foreign import Foreign
from tuner.search.pool import Pool
from tuner.search.proposer import FixedOrder, Proposer
from tuner.space.config import Config, Value
from tuner.space.default import declared_or_first
from tuner.space.model import Space
from tuner.space.scope import Scope

# The names stand here, because Optuna and Kernel Tuner take a second to import. A test compares them with the packages.
OPTUNA_SAMPLERS = {"tpe": True, "gp": True, "cmaes": False, "nsga2": True, "qmc": True}  # whether of many objectives
KERNEL_TUNER_STRATEGIES = (
    "adaptive_tabu_greywolf", "basinhopping", "bayes_opt", "brute_force", "diff_evo", "dual_annealing",
    "firefly_algorithm", "genetic_algorithm", "greedy_ils", "greedy_mls", "hybrid_vndx", "minimize", "mls", "nsga2",
    "nsga3", "ordered_greedy_mls", "pso", "random_sample", "simulated_annealing",
)  # fmt: skip


POLL_SECONDS = 0.5  # between looks at the clock while a strategy thinks


@dataclass(frozen=True)
class Hints:
    """What is known of a space beforehand. Configurations that are not in the pool are ignored.

    `warm` are promising configurations to begin with, best first, such as those of a similar problem. `block` names the
    parameters whose product is the threads per block. `first` are configurations to measure before all but the best of
    `warm`, for their own sake.
    """

    warm: Sequence[Mapping[str, Value]] = ()
    block: Sequence[str] = ()
    first: Sequence[Mapping[str, Value]] = ()

    @staticmethod
    def of(space: Space, scope: Scope, warm: Sequence[Mapping[str, Value]] = ()) -> Hints:
        """The hints that a space gives: the parameters in its block, and its default, to compare the best with."""
        names = frozenset().union(*(expression.names for step in space.steps for expression in step.block))
        return Hints(warm, tuple(name for name in space.parameters if name in names), [declared_or_first(space, scope)])


NO_HINTS = Hints()


@dataclass(frozen=True)
class Assignment:
    """What a strategy works from; `objectives` is their number. It tells the user of trouble by `say`."""

    pool: Pool
    seed: int
    budget: Budget
    hints: Hints
    objectives: int
    say: Callable[[str], None]


@dataclass(frozen=True)
class Strategy:
    """A strategy: `propose` makes its proposer, and `check` raises RequestError if a package that it needs is missing.

    many_objectives: whether it can follow more than one objective.
    begins_warm: whether it asks for the warm configurations itself; otherwise they come before its own.
    """

    name: str
    propose: Callable[[Assignment], Proposer]
    check: Callable[[], None] = lambda: None
    many_objectives: bool = False
    begins_warm: bool = False


def _of_optuna(name: str, many_objectives: bool) -> Strategy:
    def propose(work: Assignment) -> Proposer:
        from tuner.search.optuna_strategies import OptunaStrategy

        make = partial(OptunaStrategy, name, work.pool, work.seed, work.objectives)
        return Foreign(work.pool, f"optuna:{name}", make, work.seed, work.say)

    def check() -> None:
        from tuner.search import optuna_strategies

        optuna_strategies.check(name)

    return Strategy(f"optuna:{name}", propose, check, many_objectives)


def _of_kernel_tuner(name: str) -> Strategy:
    def propose(work: Assignment) -> Proposer:
        from tuner.search.kernel_tuner_strategies import KernelTunerStrategy

        budget = (work.budget.evaluations or len(work.pool), work.budget.seconds)
        make = partial(KernelTunerStrategy, name, work.pool, work.seed, *budget)
        return Foreign(work.pool, f"kt:{name}", make, work.seed, work.say)

    def check() -> None:
        from tuner.search import kernel_tuner_strategies

        kernel_tuner_strategies.check(name)

    return Strategy(f"kt:{name}", propose, check)


def _gaussian_process(work: Assignment) -> Proposer:
    from tuner.search.pool_gp import PoolGP  # SciPy takes long to import

    return PoolGP(work.pool, work.seed, work.hints.warm, work.hints.block)


STRATEGIES: Mapping[str, Strategy] = {
    strategy.name: strategy
    for strategy in (
        Strategy("optuna", _gaussian_process, many_objectives=True, begins_warm=True),
        *(_of_optuna(*sampler) for sampler in OPTUNA_SAMPLERS.items()),
        Strategy("random", lambda work: FixedOrder.shuffled(work.pool, work.seed), many_objectives=True),
        Strategy("brute_force", lambda work: FixedOrder.declared(work.pool), many_objectives=True),
        *map(_of_kernel_tuner, KERNEL_TUNER_STRATEGIES),
    )
}


def check(name: str | None, objectives: int = 1) -> None:
    """Raises RequestError for a strategy that does not exist, lacks a package, or cannot follow so many objectives."""
    if name is None:
        return
    if name not in STRATEGIES:
        names = {other.rpartition(":")[2]: other for other in reversed([*STRATEGIES])}  # `kt:` makes none alike
        near = difflib.get_close_matches(name.rpartition(":")[2], names, n=1)
        hint = f"did you mean {names[near[0]]}? " if near else ""
        all_names = ", ".join(STRATEGIES)
        raise RequestError(f"--strategy {quoted(name)}: there is no such strategy; {hint}there are: {all_names}")
    if objectives > 1 and not STRATEGIES[name].many_objectives:
        others = ", ".join(other.name for other in STRATEGIES.values() if other.many_objectives)
        raise RequestError(f"--strategy {name}: follows one objective; for {objectives}, take {others}")
    STRATEGIES[name].check()


def may_model(name: str | None, budget: Budget) -> bool:
    """Whether the Gaussian process may be asked for a configuration: it takes long to import."""
    return (name == "optuna" or (name is None and budget != UNLIMITED)) and budget.evaluations != 1


def choose(name: str | None, budget: Budget, configurations: int) -> str:
    """`name`, or a default: brute force if the budget may cover all configurations, else the Gaussian process."""
    if name is not None:
        return name
    limited = budget.seconds is not None or (budget.evaluations or configurations) < configurations
    return "optuna" if limited else "brute_force"


class Search:
    """A strategy at work on a pool. Use it as a context manager, or close it.

    Any number of configurations may be outstanding, told in any order. A configuration that was never asked for may be
    told too. None is asked for twice, or after it was told. A seed and the same results in the same order give the same
    configurations, even if other code of the process draws random numbers.
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
    ) -> None:
        """The time of the budget starts with the first question. `say` is told where the strategy fails and others take
        its place. Raises RequestError as `check` does."""
        check(name, objectives)
        strategy = STRATEGIES[name]
        self.pool = pool
        self._remaining = min(budget.evaluations or len(pool), len(pool))
        self._seconds, self._deadline = budget.seconds, math.inf
        warm = pool.rows_of(hints.warm)
        # The best known configuration leads: in a race against it, slow ones lose early.
        leaders = warm[:1] + pool.rows_of(hints.first) + ([] if strategy.begins_warm else warm)
        self._leaders = list(dict.fromkeys(leaders))
        if self._remaining <= len(self._leaders):  # a strategy would take long to start, and be asked for nothing
            self._proposer: Proposer = FixedOrder.declared(pool)
        else:
            limit = Budget(self._remaining, budget.seconds)
            self._proposer = strategy.propose(Assignment(pool, seed, limit, hints, objectives, say))

    def __enter__(self) -> Search:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def seconds(self) -> float:
        """The processor time that the strategy has used in a process of its own, in seconds."""
        return self._proposer.seconds

    def ready(self) -> bool:
        """Whether `ask` answers at once, or else begins to work on it in another process."""
        return bool(self._leaders) or self._is_spent() or self._proposer.ready()

    def wait(self, seconds: float) -> None:
        """Return when `ready` may say something else, or after `seconds`. Any thread may call this."""
        self._proposer.wait(seconds)

    def ask(self) -> Config | None:
        """The next configuration. None: wait until an outstanding one is told; if none is, the search is over."""
        if self._seconds is not None and self._deadline == math.inf:
            self._deadline = time.monotonic() + self._seconds
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
        """`value` is the result of `config`, or one for each objective, lower is better; None if it failed.

        Raises ValueError for a configuration that is not in the pool.
        """
        self._proposer.tell(self.pool.row(config), (value,) if isinstance(value, int | float) else value)

    def likely(self, count: int) -> list[Config]:
        """At most `count` configurations to compile ahead: those that may be asked for next, the likeliest first."""
        count = min(count, self._remaining)
        leaders = [row for row in self._leaders if self._proposer.free[row]]
        rest = (row for row in self._proposer.likely(count) if row not in leaders)
        return [self.pool.config(row) for row in [*leaders, *rest][:count]]

    def close(self) -> None:
        """Stop. Nothing may be asked or told afterwards."""
        self._proposer.close()

    def is_late(self) -> bool:
        """Whether the budget is a time, and over."""
        return time.monotonic() >= self._deadline

    def _is_spent(self) -> bool:
        """Whether the budget is."""
        return self._remaining < 1 or self.is_late()

    def _next_leader(self) -> int | None:
        while self._leaders:
            row = self._leaders.pop(0)
            if self._proposer.claim(row):
                return row
        return None
