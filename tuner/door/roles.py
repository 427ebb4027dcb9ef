"""Whether a kernel needs what its arrays with an answer hold before a run.

Kernel Tuner declares no roles. An output that is poisoned before each run reveals more faults than one that is
restored, but a kernel may rely on what it holds: a stencil leaves its border as it was, a sum by atomics begins at
zero, and a reduction with fewer blocks writes fewer partial sums. So outputs are poisoned only if no configuration is
known whose result is wrong then and right on restored arrays.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tuner.errors import TrialError, WorkerDied
from tuner.measure.method import Method
from tuner.measure.results import MEASURE, VERIFY
from tuner.search import strategies
from tuner.search.listing import listed
from tuner.search.proposer import FixedOrder
from tuner.space.default import declared_or_first

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tuner.measure.process.task import Task
    from tuner.measure.results import Outcome
    from tuner.search.pool import Pool
    from tuner.space.config import Config
    from tuner.tuning.crew.crew import Crew
    from tuner.tuning.crew.crews import Crews
    from tuner.tuning.request import CheckedRequest

TRIED = 5  # configurations that have a result: it may be wrong for other reasons
MOST_TRIED = 10  # with those that have none
RUN_SECONDS = 0.2  # of runs, after which one right configuration is enough
AHEAD = 256  # configurations of the search that may be built meanwhile


def may_be_poisoned(crews: Crews, checked: CheckedRequest, poisoned: Task) -> bool:
    """Whether some configurations are right on poisoned outputs, and none of these on restored ones alone.

    `checked` is the request of the search on restored arrays, and `poisoned` its task on poisoned outputs. The first
    configurations of the search are built meanwhile. Raises DeviceError, RequestError and NoConfiguration as a run
    does.
    """
    with crews.on(poisoned, checked.device_ids) as crew:
        first = _first(listed(poisoned.space, crew.scope), checked, declared_or_first(poisoned.space, crew.scope))
        crew.build_ahead(first)
        outcomes = _tried(crew, first)
    wrong = [config for config, outcome in outcomes if outcome.rejection is not None]
    is_right = any(outcome.failure is None for _, outcome in outcomes)
    return is_right and not need_content(crews, checked, wrong)


def _tried(crew: Crew, configs: Sequence[Config]) -> list[tuple[Config, Outcome]]:
    """Some configurations that have a result, and their outcomes; no more once one is right and the runs take long.

    They are those that are built first, because one build may take longer than all others. The search measures them
    again. What the others would tell, its end tells too.
    """
    outcomes: list[tuple[Config, Outcome]] = []
    seconds, left = 0.0, list(configs)
    for _ in range(min(MOST_TRIED, len(configs))):
        config = crew.first_built(left)
        left.remove(config)
        outcome = _outcome(crew, config)
        if outcome is None:
            continue
        outcomes.append((config, outcome))
        seconds += outcome.seconds.get(VERIFY, 0.0) + outcome.seconds.get(MEASURE, 0.0)
        is_enough = seconds > RUN_SECONDS and any(each.failure is None for _, each in outcomes)
        if is_enough or len(outcomes) == TRIED:
            break
    return outcomes


def need_content(crews: Crews, checked: CheckedRequest, wrong: Sequence[Config]) -> bool:
    """Whether the result of one of these configurations, which is wrong on poisoned outputs, is right on restored ones.

    Raises as `may_be_poisoned` does.
    """
    if not wrong:
        return False
    with crews.on(replace(checked.task, method=Method(repeats=1)), checked.device_ids) as crew:
        outcomes = (_outcome(crew, config) for config in wrong)
        return any(outcome is not None and outcome.failure is None for outcome in outcomes)


def _first(pool: Pool, checked: CheckedRequest, begins: Config) -> Sequence[Config]:
    """The configurations that the search will measure first: it `begins` with one. For a strategy that computes the
    others, those that are declared first."""
    request = checked.request
    is_random = strategies.choose(request.strategy, checked.budget, len(pool)) == "random"
    order = FixedOrder.shuffled(pool, request.seed) if is_random else FixedOrder.declared(pool)
    most = min(checked.budget.evaluations or len(pool), AHEAD)
    others = [config for row in order.likely(most) if (config := pool.config(row)) != begins]
    return [begins, *others][:most]


def _outcome(crew: Crew, config: Config) -> Outcome | None:
    """None if the configuration has no result: it does not compile, or crashed its process."""
    try:
        return crew.measured(config)
    except (TrialError, WorkerDied):  # the next one gets a new process
        return None
