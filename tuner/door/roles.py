"""Which arrays with an answer a kernel writes without needing what they hold.

Kernel Tuner declares no roles. An output that is poisoned before each run reveals more faults than one that is
restored, but a kernel may rely on what it holds: a stencil leaves its border as it was. So a configuration is tried on
poisoned outputs; if its result is right, the kernel does not need what they held.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tuner.errors import TrialError, WorkerDied
from tuner.search import strategies
from tuner.search.listing import listed
from tuner.search.proposer import FixedOrder

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tuner.measure.process.supervisor import Task
    from tuner.search.pool import Pool
    from tuner.space.config import Config
    from tuner.tuning.crew.crew import Crew, Crews
    from tuner.tuning.request import CheckedRequest

TRIED = 5  # configurations: the first ones may fail for other reasons
AHEAD = 256  # configurations of the search that may be built meanwhile


def is_right(crews: Crews, checked: CheckedRequest, task: Task) -> bool:
    """Whether one of the first configurations of the task's space has the right result.

    `checked` is the request of the search that follows, whose first configurations are built meanwhile. Raises
    DeviceError, RequestError and NoConfiguration as a run does.
    """
    with crews.on(task, checked.device_ids) as crew:
        pool = listed(task.space, crew.scope)
        first = _first(pool, checked)
        crew.build_ahead(first)
        return any(_is_right(crew, config) for config in first[:TRIED])


def _first(pool: Pool, checked: CheckedRequest) -> Sequence[Config]:
    """The configurations that the search will measure first; for a strategy that computes them, those that are declared
    first."""
    request = checked.request
    is_random = strategies.choose(request.strategy, checked.budget, len(pool)) == "random"
    order = FixedOrder.shuffled(pool, request.seed) if is_random else FixedOrder.declared(pool)
    return [pool.config(row) for row in order.likely(min(checked.budget.evaluations or len(pool), AHEAD))]


def _is_right(crew: Crew, config: Config) -> bool:
    try:
        return crew.measured(config).failure is None
    except (TrialError, WorkerDied):  # it does not compile, or crashed; the next one gets a new process
        return False
