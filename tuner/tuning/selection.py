"""The end of a search: which trials are measured again, and which configurations a record keeps."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tuner.errors import TrialError, WorkerDied
from tuner.measure.method import Objective, objective_values
from tuner.measure.process.supervisor import Supervisor
from tuner.measure.results import Final, Finals, Outcome
from tuner.space.model import Config, Scope, Space, config_key
from tuner.store.record import RUNNERS_UP
from tuner.tuning.ledger import Ledger
from tuner.tuning.trial import Trial

FINALISTS = 5
MOST_TRADED_OFF = 20  # finalists, where several objectives are traded off
SLOWEST_BESIDE = 10.0  # a default that takes longer, in times of the best, would leave the others few rounds
RANKED = 500  # of a large space, the best so many are looked at for runners-up


@dataclass(frozen=True)
class Finalist:
    """A trial and its second measurement."""

    trial: Trial
    final: Final

    def values(self, objectives: Sequence[Objective]) -> tuple[float, ...]:
        return objective_values(objectives, self.final.time_ms, self.final.energy_mj, self.trial.outcome.figures)


@dataclass(frozen=True)
class Selection:
    """The finalists, best first, and all that was seen in their finals."""

    finalists: list[Finalist]
    finals: Finals


def select(worker: Supervisor, ledger: Ledger, announce: Callable[[int], None]) -> Selection:
    """The best trials measured again, and the vendor's library beside them; with several objectives, the trials of the
    front. The space's default stands beside them too, for what has been gained over it.

    One that fails now, or takes the worker down, becomes a failed trial. Then the next ones are tried: where none of
    the best is left, or, as they may have hidden others, where any of a front is not. `announce` is told how many are
    about to be measured.
    """
    objectives = worker.task.method.objectives
    several = len(objectives) > 1
    while ranked := (_front(worker, ledger) if several else list(itertools.islice(_best(worker, ledger), FINALISTS))):
        announce(len(ranked))
        trials = ranked + _default_beside(ranked, worker, ledger)
        try:
            finals = worker.finals([trial.config for trial in trials])
        except (WorkerDied, TrialError):  # one of them took the others with it; each shows by itself which
            finals = Finals([_alone(worker, trial) for trial in trials])
        pairs = list(zip(trials, finals.candidates, strict=True))
        for trial, final in pairs:
            if final.failure is not None:
                ledger.revise(replace(trial, values=(), outcome=Outcome(failure="finals", log=final.failure)))
        left = sum(final.failure is None for _, final in pairs[: len(ranked)])
        if left == len(ranked) or (left and not several):
            found = [Finalist(trial, final) for trial, final in pairs if final.failure is None]
            return Selection(sorted(found, key=lambda one: one.values(objectives)), finals)
    return Selection([], Finals())


def _best(worker: Supervisor, ledger: Ledger) -> Iterator[Trial]:
    """The trials that succeeded and are valid, best first."""
    return (trial for trial in ledger.best if worker.task.space.valid(trial.config, worker.scope))


def _front(worker: Supervisor, ledger: Ledger) -> list[Trial]:
    """The front, best first; of a long one, both ends and what lies evenly between them."""
    trials = {trial.values: trial for trial in reversed(list(_best(worker, ledger)))}
    front = [trials[values] for values in non_dominated(list(trials))]
    count = min(len(front), MOST_TRADED_OFF)
    return [front[round(i * (len(front) - 1) / max(1, count - 1))] for i in range(count)]


def non_dominated(points: Sequence[tuple[float, ...]]) -> list[tuple[float, ...]]:
    """The distinct points, in ascending order, that no other one equals or betters in every value."""
    front: list[tuple[float, ...]] = []
    for point in sorted(set(points)):  # none is dominated by a later one
        if not any(all(a <= b for a, b in zip(other, point, strict=True)) for other in front):
            front.append(point)
    return front


def _default_beside(ranked: Sequence[Trial], worker: Supervisor, ledger: Ledger) -> list[Trial]:
    """The default's trial, unless it is one of `ranked`, much slower, not valid or not known."""
    trial = default_trial(worker.task.space, ledger)
    if trial is None or trial in ranked or not worker.task.space.valid(trial.config, worker.scope):
        return []
    return [trial] if (trial.time_ms or 0.0) <= SLOWEST_BESIDE * (ranked[0].time_ms or 0.0) else []


def default_trial(space: Space, ledger: Ledger) -> Trial | None:
    """The trial of the space's default, if it succeeded."""
    return next((trial for trial in ledger.best if trial.config == space.default), None)


def _alone(worker: Supervisor, trial: Trial) -> Final:
    """The final of one trial by itself, without the library."""
    try:
        return worker.finals([trial.config], with_library=False).candidates[0]
    except (WorkerDied, TrialError) as error:
        return Final(failure=f"{error.reason}: {error}")


def runners_up(space: Space, scope: Scope, ranked: Sequence[Config]) -> list[Config]:
    """Those of `ranked`, best first, that a record keeps beside the best: RUNNERS_UP of them.

    How well the last blocks of a grid fill the device depends on the size, so at another size one with another grid is
    more likely to be the best than a near twin of the winner is. Half of them are the best with each other grid; then
    come the best with each other grid and block, then any.
    """
    geometries = [space.geometry(config, scope) for config in ranked]
    grids = _firsts([geometry.grid for geometry in geometries])[1 : 1 + RUNNERS_UP // 2]
    blocks = _firsts([(geometry.grid, geometry.block) for geometry in geometries])[1:]
    chosen = list(dict.fromkeys([*grids, *blocks, *range(1, len(ranked))]))[:RUNNERS_UP]
    return [ranked[position] for position in sorted(chosen)]


def _firsts(values: Sequence[Hashable]) -> list[int]:
    """Where each value occurs first, in ascending order."""
    firsts: dict[Hashable, int] = {}
    for position, value in enumerate(values):
        firsts.setdefault(value, position)
    return list(firsts.values())


def next_best(worker: Supervisor, finalists: Sequence[Finalist], ledger: Ledger) -> list[dict[str, Any]]:
    """What a record keeps beside the first of `finalists`: configurations with their times in ms, the fastest first."""
    trials = itertools.islice(_best(worker, ledger), RANKED)
    times = {config_key(trial.config): (trial.time_ms or 0.0, trial.config) for trial in trials}
    times |= {config_key(f.trial.config): (f.final.time_ms, f.trial.config) for f in finalists}
    best = finalists[0].trial.config
    ranked = sorted(times.values(), key=lambda time: time[0])
    configs = [best, *(config for _, config in ranked if config != best)]
    return [
        {"config": config, "time_ms": times[config_key(config)][0]}
        for config in runners_up(worker.task.space, worker.scope, configs)
    ]
