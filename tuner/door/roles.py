"""Which arrays with an answer a kernel writes without needing what they hold.

Kernel Tuner declares no roles. An output that is poisoned before each run reveals more faults than one that is
restored, but a kernel may rely on what it holds: a stencil leaves its border as it was. So a configuration is tried on
poisoned outputs; if its result is right, the kernel does not need what they held.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tuner.errors import WorkerDied
from tuner.search.listing import listed

if TYPE_CHECKING:
    from tuner.measure.process.supervisor import Supervisor, Task
    from tuner.space.config import Config
    from tuner.tuning.crew.crew import Crews

TRIED = 5  # configurations: the first ones may fail for other reasons


def is_right(crews: Crews, task: Task, device_ids: list[str]) -> bool:
    """Whether one of the first configurations of the task's space has the right result.

    Raises DeviceError, RequestError and NoConfiguration as a run does.
    """
    with crews.on(task, device_ids) as crew:
        pool = listed(task.space, crew.scope)
        configs = [pool.config(row) for row in range(min(TRIED, len(pool)))]
        return any(_is_right(crew.lead, config) for config in configs)


def _is_right(worker: Supervisor, config: Config) -> bool:
    try:
        return worker.measure(config).failure is None
    except WorkerDied:  # the configuration crashed; the next one gets a new process
        return False
