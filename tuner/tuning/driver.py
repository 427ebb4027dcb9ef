"""Tuning, top to bottom: space -> search -> measure -> ledger -> finals -> store."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tuner.devices import DeviceInfo
from tuner.measure.sustained import SECONDS
from tuner.measure.timing.clock import NOISE
from tuner.search.pool import Pool
from tuner.space.config import Config
from tuner.store import rejected
from tuner.store.lookup import Query
from tuner.store.store import Record, Store
from tuner.tuning.crew.crew import Crews
from tuner.tuning.exploration import Progress, explored
from tuner.tuning.finals import summary
from tuner.tuning.finals.selection import Selection, select
from tuner.tuning.finals.summary import Failures, Point, Summary
from tuner.tuning.ledger.trial import Trial
from tuner.tuning.request import CheckedRequest, TuningRequest


@dataclass(frozen=True)
class Result:
    """The result of a tuning run. `record` is None where every configuration failed; `stored` says whether the store
    took it, and `kept` is what it has of this problem if it did not.

    `failed` holds the number of failures for each reason, and one of them; only of configurations that are valid now.
    With several objectives `front` holds the non-dominated configurations. `warnings` are what was said of the space
    file, its inputs, and the times of the best, that makes the result doubtful.
    """

    kernel: str
    device: DeviceInfo
    sizes: dict[str, int]
    types: dict[str, str]
    options: dict[str, float]
    configurations: int
    evaluated: int
    failed: Failures
    record: Record | None
    stored: bool
    trials: list[Trial]  # all in the ledger, those of earlier runs too
    failures: list[Trial]  # of configurations that are valid now, in the order they were measured
    selection: Selection
    warnings: list[str]
    front: list[Point] = field(default_factory=list)
    kept: Record | None = None


def tune(request: TuningRequest, progress: Progress) -> Result:
    """Find, verify, record and return the best configuration.

    Raises RequestError where the request is wrong. An interrupt at any moment leaves every finished trial in the
    ledger, and the same request continues from there.
    """
    with Crews(progress.noted) as crews:
        return tune_with(crews, request, progress)


def tune_with(
    crews: Crews,
    request: TuningRequest,
    progress: Progress,
    configs: Sequence[Config] | None = None,
    others: Sequence[Config] = (),
) -> Result:
    """`tune` on devices that stay open between requests. `configs`, if given, are compared in place of a search, in a
    quick final round; then the record has none but these, and `others` among its runners-up."""
    checked = CheckedRequest.of(request)
    given = None if configs is None else [*configs, *others]
    with explored(crews, checked, progress, given) as search:
        crew, ledger = search.crew, search.ledger
        parameters = checked.task.space.parameters
        finalists, all_given = (None, None) if configs is None else (Pool.of(parameters, configs), search.pool)
        sustained = SECONDS if request.sustained else None
        selection = select(
            crew.lead, ledger, progress.finals, progress.noted, finalists, sustained, configs is not None, all_given
        )
    right = [finalist.trial.config for finalist in selection.finalists]
    rejected.keep(Query.of(checked.task.space, crew.scope, crew.device), right=right)
    failures = [trial for trial in search.trials if trial.outcome.failure is not None]
    failed = summary.failures(failures)
    found = Summary(len(search.pool), len(ledger.trials), failed, search.strategy)
    record: Record | None = None
    if selection.finalists:
        record = summary.record(crew.lead, selection, found, ledger, search.signature, search.ceilings)
    doubts = [*summary.doubts(record, crew.device)] if record else []
    for doubt in doubts:
        progress.noted(doubt)
    if request.sustained and record and not record.sustained:
        progress.noted(summary.not_sustained(record))
    for conclusion in record.conclusions if record else ():
        progress.noted(conclusion)
    task = checked.task

    found_wrong = rejected.Rejections(Query.of(task.space, crew.scope, crew.device))  # by this run and by others

    def competes(old: Record) -> bool:
        is_wrong = found_wrong.reason(old.config) is not None
        return not request.fresh and not is_wrong and task.space.valid(old.config, crew.scope)

    stored, kept = False, None
    if record is not None and not (stored := checked.store.add(record, competes, NOISE)):
        there = Store.of(task.space, request.results).records  # as another process may have written it by now
        kept = next((old for old in there if old.key == record.key), None)
    return Result(
        kernel=task.space.name,
        device=crew.device,
        sizes=task.sizes,
        types=task.types,
        options=task.options,
        configurations=len(search.pool),
        evaluated=search.evaluated,
        failed=failed,
        record=record,
        warnings=[*search.doubts, *doubts],
        stored=stored,
        trials=ledger.trials,
        failures=failures,
        selection=selection,
        front=summary.front(selection, task.method) if len(task.method.objectives) > 1 else [],
        kept=kept,
    )
