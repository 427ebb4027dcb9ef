"""Tuning, top to bottom: space -> search -> measure -> ledger -> finals -> store."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from tuner import __version__, catalog, devices, operation, source
from tuner.errors import WorkerDied
from tuner.finals import Final
from tuner.measure import REPEATS
from tuner.search.enumeration import enumerate_space
from tuner.search.strategies import Budget, choose, search
from tuner.space import Config, Scope, Space
from tuner.store import Record, Store
from tuner.study import Ledger, Trial
from tuner.supervisor import TIMEOUT, Supervisor, Task

FINALISTS = 5


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
    budget = Budget.parse(request.budget)
    strategy = choose(request.strategy, budget)
    store = Store(space.name, request.results)
    device_id = devices.for_space(space, request.device)
    signature = source.signature(space)

    with Supervisor(Task(space, sizes, options, device_id, request.repeats, request.timeout)) as worker:
        searchspace = enumerate_space(space, worker.scope)
        device = worker.device
        ledger = Ledger(space, sizes, options, device["name"], f"{signature} {device['toolchain']} {request.repeats}")
        if request.fresh:
            ledger.forget()
        asked = _Asked(worker, ledger, progress)
        total = min(budget.evaluations or searchspace.size, searchspace.size)
        progress.started(space, device, worker.scope, total, len(ledger.trials))
        search(strategy, searchspace, asked, budget, request.seed)

        finalists = ledger.best[:FINALISTS]
        progress.finals(len(finalists))
        finals = _finals(worker, finalists)
        record = _record(worker, finalists, finals, ledger, strategy, int(searchspace.size), signature)
    return Result(
        kernel=space.name,
        device=device,
        sizes=sizes,
        configurations=int(searchspace.size),
        evaluated=asked.done,
        failed=asked.failed,
        record=record,
        stored=record is not None and store.add(record),
        examples={t.outcome.failure: t.outcome.log for t in reversed(ledger.trials) if t.outcome.failure},
    )


class _Asked:
    """Answers a strategy: from the ledger where a configuration is known, else from the worker."""

    def __init__(self, worker: Supervisor, ledger: Ledger, progress: Progress) -> None:
        self._worker, self._ledger, self._progress = worker, ledger, progress
        self._best: Trial | None = None
        self.done = 0
        self.failed: dict[str, int] = {}

    def __call__(self, config: Config) -> float | None:
        trial = self._ledger.known(config)
        if trial is None:
            trial = Trial(config, self._worker.measure(config))
            self._ledger.add(trial)
        self.done += 1
        failure = trial.outcome.failure
        if failure is not None:
            self.failed[failure] = self.failed.get(failure, 0) + 1
        elif self._best is None or (trial.time_ms or 0.0) < (self._best.time_ms or 0.0):
            self._best = trial
        self._progress.measured(trial, self.done, self._best)
        return trial.time_ms


def _finals(worker: Supervisor, finalists: list[Trial]) -> list[Final]:
    """The finalists measured again; where that fails as a whole, each with the times it has."""
    if not finalists:
        return []
    try:
        return worker.finals([trial.config for trial in finalists])
    except WorkerDied:
        return [Final(trial.outcome.times) for trial in finalists]


def _record(
    worker: Supervisor,
    finalists: list[Trial],
    finals: list[Final],
    ledger: Ledger,
    strategy: str,
    configurations: int,
    signature: str,
) -> Record | None:
    """The record of the fastest finalist; None where none is left."""
    own = [(f, t) for f, t in zip(finals, finalists, strict=False) if f.failure is None]
    if not own:
        return None
    library = next((f for f in finals if f.library is not None), None)
    ranked = sorted(own, key=lambda pair: pair[0].time_ms)
    final, trial = ranked[0]
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
        configurations=configurations,
        evaluated=len(ledger.trials),
        failed=ledger.failures,
        strategy=strategy,
        date=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        version=__version__,
        next=[{"config": t.config, "time_ms": f.time_ms} for f, t in ranked[1:]],
    )
