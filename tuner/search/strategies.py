"""The search strategies by name, and what a search gives them."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

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
from tuner.space.config import Value
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
