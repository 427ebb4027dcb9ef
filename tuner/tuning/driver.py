"""Tuning, top to bottom: space -> search -> measure -> ledger -> finals -> store."""

from __future__ import annotations

import contextlib
import importlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol

from tuner.devices import DeviceInfo
from tuner.devices.ceilings import Ceilings
from tuner.measure.process.supervisor import announce
from tuner.measure.sustained import SECONDS
from tuner.search import strategies
from tuner.search.listing import is_likely_kept, listed
from tuner.search.strategies import Hints, Search
from tuner.space import identity
from tuner.space.model import Space
from tuner.space.scope import Scope
from tuner.store.kept_ceilings import KeptCeilings
from tuner.store.lookup import Query
from tuner.store.store import Record
from tuner.tuning import summary
from tuner.tuning.crew import Crew
from tuner.tuning.request import CheckedRequest, TuningRequest
from tuner.tuning.selection import select
from tuner.tuning.shift import TrialListener
from tuner.tuning.summary import Failures, Point, Summary
from tuner.tuning.trial import Trial

# Optuna and Kernel Tuner take a second or more to import. That is done while the workers open their devices.
SLOW_IMPORTS = ("optuna", "tuner.tuning.ledger", "scipy.linalg", "tuner.search.pool_gp")
SLOW_IMPORT_TO_LIST = "tuner.search.enumeration"


@dataclass(frozen=True)
class Result:
    """The result of a tuning run. `record` is None where every configuration failed; `stored` says whether the store
    took it.

    `failed` holds the number of failures for each reason, and one of them; only of configurations that are valid now.
    With several objectives `front` holds the non-dominated configurations.
    """

    kernel: str
    device: DeviceInfo
    sizes: dict[str, int]
    types: dict[str, str]
    configurations: int
    evaluated: int
    failed: Failures
    record: Record | None
    stored: bool
    trials: list[Trial]  # all in the ledger, those of earlier runs too
    front: list[Point] = field(default_factory=list)


class Progress(TrialListener, Protocol):
    """Hears of every step of a run; `measured_before` counts the trials of earlier runs."""

    def begun(self, step: str) -> None: ...

    def started(
        self,
        space: Space,
        device: DeviceInfo,
        scope: Scope,
        total: int,
        measured_before: int,
        ceilings: Ceilings | None,
    ) -> None: ...

    def finals(self, count: int) -> None: ...


def tune(request: TuningRequest, progress: Progress) -> Result:
    """Find, verify, record and return the best configuration.

    Raises RequestError where the request is wrong. An interrupt at any moment leaves every finished trial in the
    ledger, and the same request continues from there.
    """
    checked = CheckedRequest.of(request)
    task, store, budget = checked.task, checked.store, checked.budget
    space, method = task.space, task.method
    signature = identity.of(space)
    announce(space, progress.noted)
    if space.operation.reference.kind == "none":
        progress.noted("reference: none: no output is compared, and the results are unverified")
    kept = KeptCeilings(request.results)
    for problem in kept.problems:
        progress.noted(problem)
    progress.begun(f"opening {' and '.join(checked.device_ids)}")
    with _imports_ahead(space), Crew(task, checked.device_ids, progress.noted) as crew:
        progress.begun("listing the valid configurations")
        from tuner.tuning.ledger import Ledger
        from tuner.tuning.study import StudyKey

        pool = listed(space, crew.scope)
        strategy = strategies.choose(request.strategy, budget, len(pool))
        query = Query.of(space, crew.scope, crew.device)
        key = StudyKey(
            task.sizes, task.options, crew.device.name, signature, crew.device.toolchain, method, types=task.types
        )
        hints = Hints.of(space, crew.scope, store.similar(query))
        with (
            Ledger(space, key, request.fresh, request.storage, progress.noted) as ledger,
            Search(strategy, pool, budget, request.seed, hints, len(method.objectives), progress.noted) as search,
        ):
            total = min(budget.evaluations or len(pool), len(pool))
            ceilings = kept.of(crew.device)
            progress.started(space, crew.device, crew.scope, total, len(ledger.trials), ceilings)
            if not ledger.trials and ledger.has_earlier_protocol(space, key):
                progress.noted("earlier trials were timed in another way than today; they are kept, but not used")
            evaluated = crew.run(search, ledger, progress)
            sustained = SECONDS if request.sustained else None
            selection = select(crew.lead, ledger, progress.finals, progress.noted, sustained)
        failed = summary.failures(t for t in ledger.trials if pool.find(t.config) is not None)
        found = Summary(len(pool), len(ledger.trials), failed, strategy)
    record: Record | None = None
    if selection.finalists:
        record = summary.record(crew.lead, selection, found, ledger, signature, ceilings)
    for doubt in summary.doubts(record, crew.device) if record else ():
        progress.noted(doubt)
    if request.sustained and record and not record.sustained:
        progress.noted(summary.not_sustained(record))

    def competes(old: Record) -> bool:
        return not request.fresh and space.valid(old.config, crew.scope)

    return Result(
        kernel=space.name,
        device=crew.device,
        sizes=task.sizes,
        types=task.types,
        configurations=len(pool),
        evaluated=evaluated,
        failed=failed,
        record=record,
        stored=record is not None and store.add(record, competes),
        trials=ledger.trials,
        front=summary.front(selection, method) if len(method.objectives) > 1 else [],
    )


@contextlib.contextmanager
def _imports_ahead(space: Space) -> Iterator[None]:
    """A block during which a thread imports what will take long."""
    names = [*SLOW_IMPORTS, *([] if is_likely_kept(space) else [SLOW_IMPORT_TO_LIST])]
    is_over = threading.Event()

    def import_all() -> None:
        for name in names:
            if not is_over.is_set():
                importlib.import_module(name)

    thread = threading.Thread(target=import_all)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()  # some modules cannot be imported while Python ends
