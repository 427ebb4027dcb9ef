"""Accusation of a reference: configurations that disagree with it, but agree with each other.

A reference by a kernel or a configuration may itself be wrong. Then it condemns the right configurations.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from tuner.devices.environment import PERHAPS_ITS_OWN
from tuner.errors import EnvironmentTrouble, TunerError
from tuner.space.config import Config, config_key
from tuner.space.texts import config_text
from tuner.space.values.forms import ConfigReference, KernelReference

if TYPE_CHECKING:
    from tuner.measure.process.supervisor import Supervisor
    from tuner.measure.process.task import Task
    from tuner.space.computation import Operation
    from tuner.tuning.ledger.ledger import Ledger

logger = logging.getLogger(__name__)

Detour = Callable[["Task"], contextlib.AbstractContextManager[None]]  # a block in which the worker has another task
DISAGREE = frozenset({"wrong result", "not a number", "wrong in a later run"})  # failures of a comparison
SAMPLE = 20  # configurations that are compared with each other
TIMED = 2  # timed runs of each, which are compared, too; their times count for nothing
MOST_CAMPS = 4


def dissenters(worker: Supervisor, ledger: Ledger) -> list[Config]:
    """The configurations whose outputs disagree with a reference that may be wrong itself; empty for any other."""
    if not isinstance(worker.task.space.operation.reference, KernelReference | ConfigReference):
        return []
    space, scope = worker.task.space, worker.scope
    wrong = (trial.config for trial in ledger.trials if trial.outcome.reason in DISAGREE)
    return [config for config in wrong if space.valid(config, scope)]


def of(worker: Supervisor, ledger: Ledger, detour: Detour, begun: Callable[[str], None]) -> str | None:
    """Why the reference of the worker's task is doubtful; None if it is not. `begun` is told if it must be tested.

    It is doubtful if the configurations that disagree with it agree with each other, and are more than those that agree
    with it, to which the reference itself belongs. If they form several camps, only the largest accuses it, and only
    if the inputs are random, so that it agreed on several sets. Configurations agree if all elements of all outputs
    of one are within the tolerance of those of the other, in the timed runs and in the checks of the finals.
    """
    against, reference = dissenters(worker, ledger), worker.task.space.operation.reference
    supporters = {config_key(trial.config) for trial in ledger.best}
    if isinstance(reference, ConfigReference):
        supporters.discard(config_key(reference.config))
    count = len(supporters) + 1
    if len(against) <= count or not isinstance(reference, KernelReference | ConfigReference):
        return None
    sample = [against[i * len(against) // min(SAMPLE, len(against))] for i in range(min(SAMPLE, len(against)))]
    begun(f"testing the reference: comparing {len(sample)} configurations that disagree with it")
    camp = _largest(worker, sample, detour)
    if len(camp) < 2 or len(camp) * len(against) <= count * len(sample):
        return None
    if len(camp) < len(sample) and not _has_random_inputs(worker.task.space.operation):
        return None
    name = (
        f"the kernel {reference.kernel}"
        if isinstance(reference, KernelReference)
        else f"the configuration {config_text(reference.config)}"
    )
    compared = "" if len(sample) == len(against) else f" ({len(sample)} were compared)"
    also = f"{len(supporters)} other{' agrees' if len(supporters) == 1 else 's agree'}"
    others = [*(trial.config for trial in ledger.best), *(config for config in sample if config not in camp)]
    if isinstance(reference, ConfigReference):
        others.append({**reference.config})
    return (
        f"the reference is doubtful: {len(against)} configurations disagree with {name}{compared}, and {len(camp)} "
        f"of them agree with each other, such as {config_text(camp[0])} and {config_text(camp[1])}; {also} with it; "
        f"nothing is stored; correct the kernel, or write another `reference:`{_of_values(camp, others)}"
    )


def _of_values(camp: Sequence[Config], others: Sequence[Config]) -> str:
    """The end of the message if a camp alone has a value of a parameter, which may change what is computed."""
    first, *rest = camp
    own = {
        name: value
        for name, value in first.items()
        if all(each[name] == value for each in rest) and all(each.get(name) != value for each in others)
    }
    if not own:
        return ""
    return (
        f"; those that agree with each other have {config_text(own)}, and no others do: if {' or '.join(own)} changes "
        "what is computed, as a number of rounds does, give it the value of the reference alone"
    )


def _largest(worker: Supervisor, sample: Sequence[Config], detour: Detour) -> Sequence[Config]:
    """The configurations of the largest camp; empty if another camp is, or may be, as large."""
    rest, camps = list(sample), list[list[Config]]()
    while rest and len(rest) >= max(map(len, camps), default=1) and len(camps) < MOST_CAMPS:
        camp = [rest[0], *_agreeing(worker, rest[0], rest[1:], detour)]
        camps.append(camp)
        rest = [config for config in rest if config not in camp]
    first, *others = sorted(camps, key=len, reverse=True)
    return [] if max(len(rest), *map(len, others), 0) >= len(first) else first


def _agreeing(worker: Supervisor, config: Config, others: Sequence[Config], detour: Detour) -> list[Config]:
    """Those of `others` whose outputs agree with those of `config`, which is the reference meanwhile."""
    task = worker.task
    operation = replace(task.space.operation, reference=ConfigReference(config))
    method = replace(task.method, repeats=TIMED, objectives=("time",), observers="")
    with detour(replace(task, space=replace(task.space, operation=operation), method=method)):
        found = [other for other in others if _agrees(worker, other)]
        return [other for other in found if _agrees(worker, other, is_final=True)]


def _agrees(worker: Supervisor, config: Config, is_final: bool = False) -> bool:
    """Whether a configuration agrees with the reference, on the inputs of the search or of the finals.

    False if it crashes, or if the other one cannot be a reference. Raises EnvironmentTrouble of the machine.
    """
    try:
        return (worker.verify([config])[0] if is_final else worker.measure(config)).failure is None
    except TunerError as error:
        if isinstance(error, EnvironmentTrouble) and error.reason not in PERHAPS_ITS_OWN:
            raise
        logger.debug("agreement of %s: %s", config_text(config), error)
        return False


def _has_random_inputs(op: Operation) -> bool:
    """Whether another input set has other contents."""
    inputs: Iterator[bool] = (a.fill is None or a.fill.is_random for a in op.arrays if a.role != "out")
    return any(inputs)
