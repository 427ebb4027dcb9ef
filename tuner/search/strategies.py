"""All search strategies behind one ask-and-tell interface with a budget."""

from __future__ import annotations

import difflib
import math
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuner.classes import dataclass
from tuner.errors import OptionError
from tuner.quoting import quoted
from tuner.search.budget import UNLIMITED, Budget
from tuner.search.experience import Experience, in_turn
from tuner.search.experienced_gp import ExperiencedGP
from tuner.search.foreign import Foreign
from tuner.search.pool import Pool
from tuner.search.pool_gp import START, PoolGP
from tuner.search.proposer import FixedOrder, Proposer
from tuner.space.config import Config, Value
from tuner.space.default import declared_or_first
from tuner.space.model import Space
from tuner.space.scope import Scope

# The names are repeated here because Optuna and Kernel Tuner take a second to import. A test checks that the names
# match theirs.
OPTUNA_SAMPLERS = {"tpe": True, "gp": True, "cmaes": False, "nsga2": True, "qmc": True}  # whether multi-objective
KERNEL_TUNER_STRATEGIES = (
    "adaptive_tabu_greywolf", "basinhopping", "bayes_opt", "brute_force", "diff_evo", "dual_annealing",
    "firefly_algorithm", "genetic_algorithm", "greedy_ils", "greedy_mls", "hybrid_vndx", "minimize", "mls", "nsga2",
    "nsga3", "ordered_greedy_mls", "pso", "random_sample", "simulated_annealing",
)  # fmt: skip
SLOW_IMPORTS = {  # modules whose import takes a strategy half a second; only the first search of a run waits for it
    "bayes_opt": ("sklearn.gaussian_process",),
    "cmaes": ("cmaes", "scipy.stats"),
    "qmc": ("scipy.stats",),
}

LEAST_LEFT = 1 / 4  # of the time of a budget: so much is left for the search, however long its preparation takes
POLL_SECONDS = 0.5  # between checks of the deadline while a strategy computes


@dataclass(frozen=True)
class Hints:
    """Prior knowledge about a space. Configurations that are not in the pool are ignored.

    `warm` are promising configurations to measure first, best first. `block` names the parameters whose product is the
    number of threads per block. `first` are configurations that must be measured, such as the default; they come right
    after the best of `warm`. `experiences` are searches of similar problems, the most similar first. Only
    `ExperiencedGP` judges how well they agree with this search. All other strategies measure the best configurations of
    the experiences after `warm`, one of each experience in turn.
    """

    warm: Sequence[Mapping[str, Value]] = ()
    block: Sequence[str] = ()
    first: Sequence[Mapping[str, Value]] = ()
    experiences: Sequence[Experience] = ()

    @property
    def promising(self) -> list[Mapping[str, Value]]:
        """`warm`, and the best configurations of the experiences in turn."""
        return [*self.warm, *in_turn(self.experiences)]

    @staticmethod
    def of(
        space: Space,
        scope: Scope,
        warm: Sequence[Mapping[str, Value]] = (),
        first: Sequence[Mapping[str, Value]] = (),
        experiences: Sequence[Experience] = (),
    ) -> Hints:
        """The hints of a space: the parameters of its block size, and the arguments. Its default, which is the baseline
        of a search, precedes the configurations of `first`."""
        names = frozenset().union(*(expression.names for step in space.steps for expression in step.block))
        block = tuple(name for name in space.parameters if name in names)
        return Hints(warm, block, [declared_or_first(space, scope), *first], experiences)


NO_HINTS = Hints()


@dataclass(frozen=True)
class Assignment:
    """The input of a strategy. `objectives` is the number of objectives; `say` shows a message to the user.

    options: those of a strategy of Kernel Tuner, which then runs once. If None, the strategy has its default options,
        and runs again as long as it finds new configurations.
    """

    pool: Pool
    seed: int
    budget: Budget
    hints: Hints
    objectives: int
    say: Callable[[str], None]
    options: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Strategy:
    """A strategy: `propose` creates its proposer, and `check` raises RequestError if a required package is missing.

    many_objectives: whether it supports several objectives.
    begins_warm: whether it proposes the warm configurations itself; otherwise `Search` asks for them first.
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
        return Foreign(work.pool, f"optuna:{name}", make, work.seed, work.say, SLOW_IMPORTS.get(name, ()))

    def check() -> None:
        from tuner.search import optuna_strategies

        optuna_strategies.check(name)

    return Strategy(f"optuna:{name}", propose, check, many_objectives)


def _of_kernel_tuner(name: str) -> Strategy:
    def propose(work: Assignment) -> Proposer:
        from tuner.search.kernel_tuner_strategies import KernelTunerStrategy

        budget = (work.budget.evaluations or len(work.pool), work.budget.seconds)
        make = partial(KernelTunerStrategy, name, work.pool, work.seed, *budget, work.options)
        return Foreign(work.pool, f"kt:{name}", make, work.seed, work.say, SLOW_IMPORTS.get(name, ()))

    def check() -> None:
        from tuner.search import kernel_tuner_strategies

        kernel_tuner_strategies.check(name)

    return Strategy(f"kt:{name}", propose, check)


def _gaussian_process(work: Assignment) -> Proposer:
    hints = work.hints
    if hints.experiences and not hints.warm and work.objectives == 1:
        return ExperiencedGP(work.pool, work.seed, hints.experiences, hints.block, hints.first)
    return PoolGP(work.pool, work.seed, hints.promising, hints.block)


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
    """Raise RequestError if the strategy does not exist, lacks a package, or does not support so many objectives."""
    if name is None:
        return
    if name not in STRATEGIES:
        # Without prefixes, which would make all names similar.
        names = {other.rpartition(":")[2]: other for other in reversed([*STRATEGIES])}
        near = difflib.get_close_matches(name.rpartition(":")[2], names, n=1)
        hint = f"did you mean {names[near[0]]}? " if near else ""
        all_names = ", ".join(STRATEGIES)
        raise OptionError(f"{quoted(name)}: there is no such strategy; {hint}there are: {all_names}", "strategy")
    if objectives > 1 and not STRATEGIES[name].many_objectives:
        others = ", ".join(other.name for other in STRATEGIES.values() if other.many_objectives)
        raise OptionError(f"{name}: supports one objective; for {objectives}, take {others}", "strategy")
    STRATEGIES[name].check()


def may_model(name: str | None, budget: Budget) -> bool:
    """Whether a search probably uses the Gaussian process. If so, import it ahead of time, because that is slow."""
    is_short = budget.evaluations is not None and budget.evaluations <= START
    return (name == "optuna" or (name is None and budget != UNLIMITED)) and not is_short


def choose(name: str | None, budget: Budget, configurations: int) -> str:
    """`name`, or a default: brute force if the budget may cover all configurations, else the Gaussian process."""
    if name is not None:
        return name
    limited = budget.seconds is not None or (budget.evaluations or configurations) < configurations
    return "optuna" if limited else "brute_force"


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
        return None if self._seconds is None else self._left(self._seconds)

    def _left(self, seconds: float) -> float:
        """What would be left of a budget of `seconds` if the first `ask` were now."""
        return seconds if self._began is None else max(self._began + seconds - time.monotonic(), LEAST_LEFT * seconds)

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
        if self._seconds is not None and self.deadline == math.inf:
            self.deadline = time.monotonic() + self._left(self._seconds)
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
