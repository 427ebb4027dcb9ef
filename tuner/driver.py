"""Tuning, top to bottom: space -> search -> measure -> ledger -> finals -> store."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from tuner import __version__, catalog, devices, operation, source
from tuner.errors import RequestError, TrialError, WorkerDied
from tuner.finals import Final
from tuner.measure import REPEATS, Outcome
from tuner.search import strategies
from tuner.search.enumeration import enumerate_space
from tuner.search.pool import Pool
from tuner.search.strategies import Budget, Hints, Search
from tuner.space import Config, Scope, Space
from tuner.store import Record, Store
from tuner.study import Ledger, Problem, Trial
from tuner.supervisor import TIMEOUT, Supervisor, Task

FINALISTS = 5
LOOK_AHEAD = 256  # configurations that are looked at for something to build


@dataclass(frozen=True)
class Request:
    """What to tune, and how long to try."""

    kernel: str
    size: str
    device: str | None = None
    options: Mapping[str, float] = field(default_factory=dict)
    strategy: str | None = None
    budget: str | None = None
    seed: int = 0
    repeats: int = REPEATS
    timeout: float = TIMEOUT
    fresh: bool = False
    full: bool = False
    results: Path | None = None


@dataclass(frozen=True)
class Result:
    """What tuning found. `record` is None where nothing valid was; `stored` says whether it is the store's best now."""

    kernel: str
    device: dict[str, Any]
    sizes: dict[str, int]
    configurations: int
    evaluated: int
    failed: dict[str, int]
    record: Record | None
    stored: bool
    examples: dict[str, str]


@dataclass(frozen=True)
class Finalist:
    """A trial and its second measurement."""

    trial: Trial
    final: Final


@dataclass(frozen=True)
class Summary:
    """What a record says of the search: valid configurations, trials, failures by reason, strategy."""

    configurations: int
    evaluated: int
    failed: dict[str, int]
    strategy: str


class Progress(Protocol):
    """Told what happens, as it happens."""

    def started(self, space: Space, device: Mapping[str, Any], scope: Scope, total: int, known: int) -> None: ...

    def measured(self, trial: Trial, done: int, best: Trial | None) -> None: ...

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
    strategies.check(request.strategy)
    store = Store(space.name, request.results)
    store.check_writable()
    device_id = devices.for_space(space, request.device)
    signature = source.signature(space)

    with Supervisor(Task(space, sizes, options, device_id, request.repeats, request.timeout)) as worker:
        pool = Pool(space.parameters, enumerate_space(space, worker.scope).list)
        configurations, device = len(pool), worker.device
        strategy = strategies.choose(request.strategy, budget, configurations)
        conditions = f"{signature} {device['toolchain']} {request.repeats} {request.full}"
        with Ledger(space, Problem(sizes, options, device["name"]), conditions, request.fresh) as ledger:
            asked = _Asked(worker, ledger, progress, request)
            total = min(budget.evaluations or configurations, configurations)
            progress.started(space, device, worker.scope, total, len(ledger.trials))
            with Search(strategy, pool, budget, request.seed, Hints.of(space)) as search:
                while (config := search.ask()) is not None:
                    asked.prepare([config, *search.likely(LOOK_AHEAD)])
                    search.tell(config, asked(config))
            progress.finals(min(FINALISTS, len(ledger.best)))
            ranked, library = _finals(worker, ledger)
        summary = Summary(configurations, len(ledger.trials), ledger.failures, strategy)
    record = _record(worker, ranked, library, summary, signature) if ranked else None

    def competes(old: Record) -> bool:
        return not request.fresh and space.valid(old.config, worker.scope)

    return Result(
        kernel=space.name,
        device=device,
        sizes=sizes,
        configurations=configurations,
        evaluated=asked.done,
        failed=ledger.failures,
        record=record,
        stored=record is not None and store.add(record, competes),
        examples={t.outcome.failure: t.outcome.log for t in reversed(ledger.trials) if t.outcome.failure},
    )


class _Asked:
    """Answers a strategy: from the ledger where a configuration is known, else from the worker."""

    def __init__(self, worker: Supervisor, ledger: Ledger, progress: Progress, request: Request) -> None:
        self._worker, self._ledger, self._progress, self._request = worker, ledger, progress, request
        self._best: Trial | None = None
        self.done = 0

    def prepare(self, configs: Iterable[Config]) -> None:
        """Told what will be asked for next."""
        known, timeout = self._ledger.known, self._request.timeout
        self._worker.prepare(config for config in configs if known(config, timeout) is None)

    def __call__(self, config: Config) -> float | None:
        timeout = self._request.timeout
        trial = self._ledger.known(config, timeout)
        if trial is None:
            best_ms = self._best.time_ms if self._best and not self._request.full else None
            trial = Trial(config, self._worker.measure(config, best_ms), timeout)
            self._ledger.add(trial)
        self.done += 1
        if trial.time_ms is not None and (self._best is None or trial.time_ms < (self._best.time_ms or 0.0)):
            self._best = trial
        self._progress.measured(trial, self.done, self._best)
        return trial.time_ms


def _finals(worker: Supervisor, ledger: Ledger) -> tuple[list[Finalist], Final | None]:
    """The fastest trials measured again, fastest first, and the vendor's library beside them.

    One that fails now, or takes the worker down, becomes a failed trial; where none of the fastest is left, the next
    ones are tried, down to the last.
    """
    while candidates := [t for t in ledger.best if worker.task.space.valid(t.config, worker.scope)][:FINALISTS]:
        try:
            finals = worker.finals([trial.config for trial in candidates])
        except (WorkerDied, TrialError):  # one of them took the others with it; each shows by itself which
            finals = [_alone(worker, trial) for trial in candidates]
        found = [Finalist(trial, final) for trial, final in zip(candidates, finals, strict=False) if not final.failure]
        for trial, final in zip(candidates, finals, strict=False):
            if final.failure is not None:
                ledger.add(replace(trial, outcome=Outcome(failure="finals", log=final.failure)))
        if found:
            return sorted(found, key=lambda one: one.final.time_ms), next((f for f in finals if f.library), None)
    return [], None


def _alone(worker: Supervisor, trial: Trial) -> Final:
    """The final of one trial by itself, without the library."""
    try:
        return worker.finals([trial.config])[0]
    except (WorkerDied, TrialError) as error:
        return Final(failure=f"{error.reason}: {error}")


def _record(
    worker: Supervisor, ranked: Sequence[Finalist], library: Final | None, summary: Summary, signature: str
) -> Record:
    """The record of the fastest finalist."""
    trial, final = ranked[0].trial, ranked[0].final
    scope, op, device = worker.scope, worker.task.space.operation, worker.device
    library_ms = library.time_ms if library else None
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
        library_ms=library_ms,
        vs_library=library_ms / final.time_ms if library_ms else None,
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
        next=[{"config": one.trial.config, "time_ms": one.final.time_ms} for one in ranked[1:]],
    )
