"""Tuning, top to bottom: space -> search -> measure -> ledger -> finals -> store."""

from __future__ import annotations

import datetime
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from tuner import __version__, catalog, devices, operation, source
from tuner.crew import Crew, Measured
from tuner.errors import RequestError, TrialError, WorkerDied
from tuner.finals import Final, Finals
from tuner.measure import STANDARD, Method, Objective, Outcome, objective_values
from tuner.search import strategies
from tuner.search.enumeration import enumerate_space
from tuner.search.pool import Pool
from tuner.search.strategies import Budget, Hints, Search
from tuner.space import Config, Scope, Space
from tuner.storage import EXAMPLES
from tuner.store import Record, Store
from tuner.study import Ledger, Problem, Trial, non_dominated
from tuner.supervisor import TIMEOUT, Supervisor, Task

FINALISTS, RUNNERS_UP = 5, 8
MOST_TRADED_OFF = 20  # finalists, where several objectives are traded off


@dataclass(frozen=True)
class Request:
    """What to tune, and how long to try."""

    kernel: str
    size: str
    device: str | None = None  # one, or several with commas between, or all
    options: Mapping[str, float] = field(default_factory=dict)
    strategy: str | None = None
    budget: str | None = None
    seed: int = 0
    method: Method = STANDARD
    timeout: float = TIMEOUT
    fresh: bool = False
    storage: str | None = None  # the URL of a database, where several machines share the work
    results: Path | None = None


@dataclass(frozen=True)
class Point:
    """A configuration and the value of each objective, by name."""

    config: Config
    values: dict[str, float]


@dataclass(frozen=True)
class Result:
    """What tuning found. `record` is None where nothing valid was; `stored` says whether it is the store's best now.
    `front` holds what no other configuration betters, where there are several objectives."""

    kernel: str
    device: dict[str, Any]
    sizes: dict[str, int]
    configurations: int
    evaluated: int
    failed: dict[str, int]
    record: Record | None
    stored: bool
    examples: dict[str, str]
    trials: list[Trial]  # all that the ledger has, of earlier runs too
    front: list[Point] = field(default_factory=list)


@dataclass(frozen=True)
class Finalist:
    """A trial and its second measurement."""

    trial: Trial
    final: Final

    def values(self, objectives: Sequence[Objective]) -> tuple[float, ...]:
        return objective_values(objectives, self.final.time_ms, self.final.energy_mj, self.trial.outcome.figures)


@dataclass(frozen=True)
class Summary:
    """What a record says of the search: valid configurations, trials, failures by reason, strategy."""

    configurations: int
    evaluated: int
    failed: dict[str, int]
    strategy: str


class Progress(Measured, Protocol):
    """Told what happens, as it happens."""

    def started(self, space: Space, device: Mapping[str, Any], scope: Scope, total: int, known: int) -> None: ...

    def finals(self, count: int) -> None: ...


def tune(request: Request, progress: Progress) -> Result:
    """Find, verify, record and return the best configuration.

    Raises RequestError where the request is wrong. Interrupted at any moment, it leaves every finished trial in the
    ledger, and the same request goes on from there.
    """
    space = catalog.load(request.kernel)
    sizes = operation.parse_size(request.size, space.operation)
    options = operation.parse_options(request.options, space.operation)
    if not 1 <= request.timeout <= 86_400:
        raise RequestError(f"--timeout {request.timeout}: write seconds, from 1 to 86400")
    budget = Budget.parse(request.budget)
    strategies.check(request.strategy, len(request.method.objectives))
    if request.storage == "":
        raise RequestError(f"--storage is empty; write a URL such as {EXAMPLES}")
    store = Store(space.name, request.results)
    store.check_writable()
    device_ids = devices.several(space, request.device)
    signature = source.signature(space)

    with Crew(Task(space, sizes, options, request.method, request.timeout), device_ids) as crew:
        pool = Pool(space.parameters, enumerate_space(space, crew.scope).list)
        strategy = strategies.choose(request.strategy, budget, len(pool))
        conditions = f"{signature} {crew.device['toolchain']} {request.method}"
        problem = Problem(sizes, options, crew.device["name"], conditions, request.method.metrics)
        hints = Hints.of(space, store.similar(space, crew.scope, *_device_key(crew.device), signature))
        with (
            Ledger(space, problem, request.fresh, request.storage) as ledger,
            Search(strategy, pool, budget, request.seed, hints, len(problem.metrics)) as search,
        ):
            total = min(budget.evaluations or len(pool), len(pool))
            progress.started(space, crew.device, crew.scope, total, len(ledger.trials))
            evaluated = crew.run(search, ledger, progress)
            ranked, finals = _finals(crew.lead, ledger, progress)
        summary = Summary(len(pool), len(ledger.trials), ledger.failures, strategy)
    record = _record(crew.lead, ranked, finals, summary, ledger, signature) if ranked else None

    def competes(old: Record) -> bool:
        return not request.fresh and space.valid(old.config, crew.scope)

    return Result(
        kernel=space.name,
        device=crew.device,
        sizes=sizes,
        configurations=len(pool),
        evaluated=evaluated,
        failed=ledger.failures,
        record=record,
        stored=record is not None and store.add(record, competes),
        trials=ledger.trials,
        front=_front(ranked, request.method) if len(problem.metrics) > 1 else [],
        examples={t.outcome.failure: t.outcome.log for t in reversed(ledger.trials) if t.outcome.failure},
    )


def _device_key(device: Mapping[str, Any]) -> tuple[str, str, str]:
    """Name, kind and architecture, as the store wants them."""
    return device["name"], device["device"].partition(":")[0], device["architecture"]


def _finals(worker: Supervisor, ledger: Ledger, progress: Progress) -> tuple[list[Finalist], Finals]:
    """The best trials measured again, best first, and the vendor's library beside them.

    One that fails now, or takes the worker down, becomes a failed trial; where none of the best is left, the next
    ones are tried, down to the last.
    """
    objectives = worker.task.method.objectives
    while candidates := _candidates(worker, ledger):
        progress.finals(len(candidates))
        try:
            finals = worker.finals([trial.config for trial in candidates])
        except (WorkerDied, TrialError):  # one of them took the others with it; each shows by itself which
            finals = Finals([_alone(worker, trial) for trial in candidates])
        pairs = list(zip(candidates, finals.candidates, strict=True))
        for trial, final in pairs:
            if final.failure is not None:
                ledger.revise(replace(trial, values=(), outcome=Outcome(failure="finals", log=final.failure)))
        found = [Finalist(trial, final) for trial, final in pairs if not final.failure]
        if found:
            return sorted(found, key=lambda one: one.values(objectives)), finals
    progress.finals(0)
    return [], Finals()


def _candidates(worker: Supervisor, ledger: Ledger) -> list[Trial]:
    """The trials that are worth measuring again, best first: with several objectives, those of the front. The space's
    default too, for what has been gained over it."""
    space, several = worker.task.space, len(worker.task.method.objectives) > 1
    best, most = (ledger.front, MOST_TRADED_OFF) if several else (ledger.best, FINALISTS)
    chosen = [trial for trial in best if space.valid(trial.config, worker.scope)][:most]
    others = [trial for trial in ledger.best if trial not in chosen and space.valid(trial.config, worker.scope)]
    return chosen + [trial for trial in others if trial.config == space.default]


def _front(ranked: Sequence[Finalist], method: Method) -> list[Point]:
    """What the finals have left of the front, best first."""
    points = {one.values(method.objectives): one.trial.config for one in reversed(ranked)}
    front = non_dominated(list(points))
    return [Point(points[values], dict(zip(method.metrics, values, strict=True))) for values in front]


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


def _next(worker: Supervisor, ranked: Sequence[Finalist], ledger: Ledger) -> list[dict[str, Any]]:
    """The runners-up with their times in ms."""
    best = ranked[0].trial.config
    times = {
        str(trial.config): trial.time_ms for trial in ledger.best if worker.task.space.valid(trial.config, worker.scope)
    }
    times |= {str(one.trial.config): one.final.time_ms for one in ranked}
    configs = [best, *(t.config for t in ledger.best if str(t.config) in times and t.config != best)]
    chosen = runners_up(worker.task.space, worker.scope, configs)
    return [{"config": config, "time_ms": times[str(config)]} for config in chosen]


def _record(
    worker: Supervisor, ranked: Sequence[Finalist], finals: Finals, summary: Summary, ledger: Ledger, signature: str
) -> Record:
    """The record of the best finalist."""
    trial, final = ranked[0].trial, ranked[0].final
    scope, op, device, method = worker.scope, worker.task.space.operation, worker.device, worker.task.method
    library = finals.library
    return Record(
        device=device["name"],
        kind=device["device"].partition(":")[0],
        architecture=device["architecture"],
        sizes=dict(scope.sizes),
        options=dict(scope.options),
        config=trial.config,
        time_ms=final.time_ms,
        spread=final.spread,
        rounds=len(final.times),
        gflops=operation.gflops(op, scope, final.time_ms),
        library=library.library if library else None,
        library_ms=library.time_ms if library else None,
        vs_library=library.time_ms / final.time_ms if library else None,
        error=trial.outcome.error,
        bound=trial.outcome.bound,
        signature=signature,
        toolchain=device["toolchain"],
        configurations=summary.configurations,
        evaluated=summary.evaluated,
        failed=summary.failed,
        strategy=summary.strategy,
        date=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        version=__version__,
        next=_next(worker, ranked, ledger),
        objective=method.objectives[0],
        caches="cold" if method.cold else "warm",
        energy_mj=final.energy_mj,
        default_ms=next((f.final.time_ms for f in ranked if f.trial.config == worker.task.space.default), None),
        clock_mhz=finals.clock_mhz,
        throttled=finals.throttled,
        registers=trial.outcome.figures.registers,
        spills=trial.outcome.figures.spills,
        occupancy=trial.outcome.occupancy,
    )
