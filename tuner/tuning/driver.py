"""Tuning, top to bottom: space -> search -> measure -> ledger -> finals -> store."""

from __future__ import annotations

import datetime
import importlib
import math
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from tuner import devices
from tuner.devices import DeviceInfo
from tuner.errors import RequestError
from tuner.measure.method import PROTOCOL, STANDARD, TIMEOUT, Method, check_timeout
from tuner.measure.process.supervisor import Supervisor, Task, announce
from tuner.measure.timing import NOISE
from tuner.search import strategies
from tuner.search.listing import is_likely_kept, listed
from tuner.search.strategies import Budget, Hints, Search
from tuner.space import catalog, chosen_types, identity, operation, source
from tuner.space.model import Config, Scope, Space
from tuner.store.lookup import Query
from tuner.store.store import Record, Store
from tuner.tuning.address import EXAMPLES
from tuner.tuning.crew import Crew
from tuner.tuning.selection import Selection, default_trial, next_best, non_dominated, select
from tuner.tuning.shift import TrialListener
from tuner.tuning.trial import Trial
from tuner.version import VERSION

if TYPE_CHECKING:
    from tuner.tuning.ledger import Ledger

# Optuna and Kernel Tuner take a second or more to import. That is done while the workers open their devices.
SLOW_IMPORTS = ("tuner.tuning.ledger", "tuner.search.pool_gp")
SLOW_IMPORT_TO_LIST = "tuner.search.enumeration"


@dataclass(frozen=True)
class TuningRequest:
    """A kernel and its problem, and how to search."""

    kernel: str
    size: str
    device: str | None = None  # one, several with commas between, or `all`
    options: Mapping[str, float] = field(default_factory=dict)
    types: Mapping[str, str] = field(default_factory=dict)
    strategy: str | None = None
    budget: str | None = None
    seed: int = 0
    method: Method = STANDARD
    timeout: float = TIMEOUT
    fresh: bool = False
    storage: str | None = None  # the URL of a database, for machines that share the work
    results: Path | None = None


@dataclass(frozen=True)
class Point:
    """A configuration and the value of each objective by name; None where it is unknown."""

    config: Config
    values: dict[str, float | None]


@dataclass(frozen=True)
class Result:
    """The result of a tuning run. `record` is None where every configuration failed; `stored` says whether the store
    took it.

    `examples` holds one log for each reason of failure. With several objectives `front` holds the non-dominated
    configurations.
    """

    kernel: str
    device: DeviceInfo
    sizes: dict[str, int]
    types: dict[str, str]
    configurations: int
    evaluated: int
    failed: dict[str, int]
    record: Record | None
    stored: bool
    examples: dict[str, str]
    trials: list[Trial]  # all in the ledger, those of earlier runs too
    front: list[Point] = field(default_factory=list)


@dataclass(frozen=True)
class Summary:
    """The search in a record: the number of valid configurations and of trials, failures by reason, strategy."""

    configurations: int
    evaluated: int
    failed: dict[str, int]
    strategy: str


class Progress(TrialListener, Protocol):
    """Hears of every step of a run; `measured_before` counts the trials of earlier runs."""

    def begun(self, step: str) -> None: ...

    def started(self, space: Space, device: DeviceInfo, scope: Scope, total: int, measured_before: int) -> None: ...

    def finals(self, count: int) -> None: ...


def tune(request: TuningRequest, progress: Progress) -> Result:
    """Find, verify, record and return the best configuration.

    Raises RequestError where the request is wrong. An interrupt at any moment leaves every finished trial in the
    ledger, and the same request continues from there.
    """
    space = catalog.load(request.kernel)
    types = chosen_types.parse(request.types, space.operation)
    sizes = operation.parse_size(request.size, space.operation, types)
    options = operation.parse_options(request.options, space.operation, types)
    check_timeout(request.timeout)
    budget = Budget.parse(request.budget)
    strategies.check(request.strategy, len(request.method.objectives))
    if request.storage == "":
        raise RequestError(f"--storage is empty; write a URL such as {EXAMPLES}")
    store = Store(space.name, request.results)
    store.check_writable()
    device_ids = devices.several(space, request.device)
    signature = identity.of(space)
    announce(space, progress.noted)
    if space.operation.reference.kind == "none":
        progress.noted("reference: none: no output is compared, and the results are unverified")

    task = Task(space, sizes, options, request.method, request.timeout, types)
    progress.begun(f"opening {' and '.join(device_ids)}")
    _import_ahead(space)
    with Crew(task, device_ids, progress.noted) as crew:
        progress.begun("listing the valid configurations")
        from tuner.tuning.ledger import Ledger
        from tuner.tuning.study import StudyKey

        pool = listed(space, crew.scope)
        strategy = strategies.choose(request.strategy, budget, len(pool))
        query = Query.of(space, crew.scope, crew.device)
        key = StudyKey(sizes, options, crew.device.name, signature, crew.device.toolchain, request.method, types=types)
        hints = Hints.of(space, store.similar(query))
        with (
            Ledger(space, key, request.fresh, request.storage, progress.noted) as ledger,
            Search(
                strategy, pool, budget, request.seed, hints, len(request.method.objectives), progress.noted
            ) as search,
        ):
            total = min(budget.evaluations or len(pool), len(pool))
            progress.started(space, crew.device, crew.scope, total, len(ledger.trials))
            if not ledger.trials and ledger.has_earlier_protocol(space, key):
                progress.noted("earlier trials were timed in another way than today; they are kept, but not used")
            evaluated = crew.run(search, ledger, progress)
            selection = select(crew.lead, ledger, progress.finals, progress.noted)
        summary = Summary(len(pool), len(ledger.trials), ledger.failures, strategy)
    record = _record(crew.lead, selection, summary, ledger, signature) if selection.finalists else None
    for doubt in _doubts(record, crew.device) if record else ():
        progress.noted(doubt)

    def competes(old: Record) -> bool:
        return not request.fresh and space.valid(old.config, crew.scope)

    return Result(
        kernel=space.name,
        device=crew.device,
        sizes=sizes,
        types=types,
        configurations=len(pool),
        evaluated=evaluated,
        failed=ledger.failures,
        record=record,
        stored=record is not None and store.add(record, competes),
        trials=ledger.trials,
        front=_front(selection, request.method) if len(request.method.objectives) > 1 else [],
        examples={t.outcome.failure: t.outcome.log for t in reversed(ledger.trials) if t.outcome.failure},
    )


def _import_ahead(space: Space) -> None:
    """Import what will take long, in a thread."""
    names = [*SLOW_IMPORTS, *([] if is_likely_kept(space) else [SLOW_IMPORT_TO_LIST])]
    threading.Thread(target=lambda: [importlib.import_module(name) for name in names]).start()


def _doubts(record: Record, device: DeviceInfo) -> Iterator[str]:
    """What should make a user doubt the times of a record."""
    if record.spread > NOISE:
        yield (
            f"the times of the best spread by {record.spread:.0%}, which is noise: other programs kept {device.name} "
            "busy; run the same command again when it is idle"
        )
    fastest = device.peak.fastest_gflops if device.peak else None
    if record.gflops and fastest and record.gflops > fastest:
        yield (
            f"{record.gflops:.0f} GFLOP/s is more than {device.name} can do, {fastest:.0f} in its fastest format; "
            "check the operation's `flops`, and what the kernel leaves out"
        )


def _front(selection: Selection, method: Method) -> list[Point]:
    """The finalists that no other one dominates, best first."""
    configs = {finalist.values(method.objectives): finalist.trial.config for finalist in reversed(selection.finalists)}
    return [
        Point(configs[values], {name: _number(value) for name, value in zip(method.metrics, values, strict=True)})
        for values in non_dominated(list(configs))
    ]


def _number(value: float) -> float | None:
    """A count as an int; None for infinity, which stands for an unknown value."""
    if math.isinf(value):
        return None
    return int(value) if value.is_integer() else value


def _record(worker: Supervisor, selection: Selection, summary: Summary, ledger: Ledger, signature: str) -> Record:
    """The record of the best finalist."""
    finals, finalists = selection.finals, selection.finalists
    trial, final = finalists[0].trial, finalists[0].final
    default = default_trial(worker.task.space, ledger)
    default_times = [finalist.final.time_ms for finalist in finalists if finalist.trial == default]
    scope, op, device, method = worker.scope, worker.task.space.operation, worker.device, worker.task.method
    library, by = finals.library, op.reference.kind
    return Record(
        device=device.name,
        kind=device.kind,
        architecture=device.architecture,
        sizes=dict(scope.sizes),
        options=dict(scope.options),
        types=dict(scope.types),
        config=trial.config,
        time_ms=final.time_ms,
        spread=final.spread,
        rounds=len(final.times),
        gflops=operation.gflops(op, scope, final.time_ms),
        library=library.library if library else None,
        library_ms=library.time_ms if library else None,
        vs_library=library.time_ms / final.time_ms if library else None,
        error=trial.outcome.error if by != "none" else None,
        bound=trial.outcome.bound if by != "none" else None,
        wrong=trial.outcome.wrong,
        signature=signature,
        toolchain=device.toolchain,
        configurations=summary.configurations,
        evaluated=summary.evaluated,
        failed=summary.failed,
        strategy=summary.strategy,
        date=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        version=VERSION,
        next=next_best(worker, finalists, ledger),
        objective=method.objectives[0],
        caches="cold" if method.cold else "warm",
        energy_mj=final.energy_mj,
        default_ms=default_times[0] if default_times else default.time_ms if default else None,
        clock_mhz=finals.clock_mhz,
        throttled=finals.throttled,
        registers=trial.outcome.figures.registers,
        spills=trial.outcome.figures.spills,
        occupancy=trial.outcome.occupancy,
        gbytes=operation.gbytes(op, scope, final.time_ms),
        protocol=PROTOCOL,
        input_sets=finals.input_sets,
        skipped_mutants=finals.skipped_mutants,
        verified=by,
        code=source.code(worker.task.space),
    )
