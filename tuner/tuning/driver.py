"""Run one tuning request from start to end: space -> search -> measure -> ledger -> finals -> store."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from pathlib import Path

from tuner import devices
from tuner.classes import dataclass
from tuner.devices import DeviceInfo
from tuner.errors import RequestError
from tuner.measure.results import Finals
from tuner.measure.sustained import SECONDS
from tuner.measure.timing.clock import NOISE
from tuner.search.pool import Pool
from tuner.space.config import Config
from tuner.space.model import Space
from tuner.space.scope import Scope
from tuner.space.values import bit_classes
from tuner.store import rejected
from tuner.store.lookup import Query
from tuner.store.record import Record
from tuner.store.store import Store
from tuner.tuning.crew.crews import Crews
from tuner.tuning.exploration import Exploration, explored
from tuner.tuning.finals import accusation, summary
from tuner.tuning.finals.selection import FinalsPlan, Selection, select
from tuner.tuning.finals.summary import Failures, Point, Summary
from tuner.tuning.ledger.trial import Trial
from tuner.tuning.progress import Progress
from tuner.tuning.recordings import logs
from tuner.tuning.recordings.recording import Entry
from tuner.tuning.request import CheckedRequest, TuningRequest


@dataclass(frozen=True)
class Result:
    """The result of a tuning run.

    `record` is None if every configuration failed. `stored` says whether the store accepted it; if not, `kept` is the
    store's record of this problem. `failed` maps each reason for which valid configurations failed to the number of
    failures and the first failed trial. With several objectives `front` holds the non-dominated configurations.
    `warnings` are the reasons to doubt the result: about the space file, its inputs, and the best configuration's
    times. `accused` says why the reference is doubtful; then `record` is None.
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
    trials: list[Trial]  # of valid configurations, including those of earlier runs
    failures: list[Trial]  # of valid configurations, in the order of measurement
    selection: Selection
    warnings: list[str]
    front: list[Point] = field(default_factory=list)
    kept: Record | None = None
    accused: str | None = None


def tune(request: TuningRequest, progress: Progress) -> Result:
    """Find, verify and store the best configuration.

    An interrupt loses no finished trial: the same request continues from the ledger. Raises RequestError if the
    request is wrong, DeviceError if no device is usable, and EnvironmentTrouble if a fault of the machine (a full disk,
    too little memory) persists.
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
    """`tune` on devices that stay open between requests.

    `configs` replace the search: they are measured, together with `others`, and compared in a quick final round. Only
    `configs` can become the record; `others` can become its runners-up.
    """
    checked = CheckedRequest.of(request)
    space = checked.task.space
    with explored(crews, checked, progress, None if configs is None else [*configs, *others]) as search:
        crew, ledger = search.crew, search.ledger
        selection, accused = _judged(search, progress, lambda: _selected(search, request, progress, configs))
        ledger.note_accusation(accused or "")
        accusers = accusation.dissenters(crew.lead, ledger) if accused is not None else []
    if search.preference.same_bits is not None and not selection.finalists and accused is None:
        progress.noted(search.preference.same_bits.missing)
    right = [*accusers, *(finalist.trial.config for finalist in selection.finalists)]
    rejected.keep(Query.of(space, crew.scope, crew.device), right=right)
    return _concluded(checked, search, selection, accused, progress, is_search=configs is None)


def _selected(
    search: Exploration, request: TuningRequest, progress: Progress, configs: Sequence[Config] | None
) -> Selection:
    """The finals of a search, or of given `configs`."""
    plan = FinalsPlan(
        among=None if configs is None else Pool.of(search.crew.lead.task.space.parameters, configs),
        others=None if configs is None else search.pool,
        sustained=SECONDS if request.sustained else None,
        quick=configs is not None or request.quick,
        runs=request.verify,
        preference=search.preference,
        until=search.until,
    )
    return select(search.crew.lead, search.ledger, progress.finals, progress.noted, plan)


def _concluded(
    checked: CheckedRequest,
    search: Exploration,
    selection: Selection,
    accused: str | None,
    progress: Progress,
    *,
    is_search: bool,
) -> Result:
    """The result of a run, whose record is stored. The user is told its doubts and conclusions."""
    request, task = checked.request, checked.task
    failures = [trial for trial in search.trials if trial.outcome.failure is not None]
    failed = summary.failures(failures)
    record = _record(search, selection, failed)
    doubts = _doubts(search, task.space, record, is_search=is_search)
    for doubt in doubts:
        progress.noted(doubt)
    if request.sustained and record and not record.sustained:
        progress.noted(summary.not_sustained(record))
    for conclusion in record.conclusions if record else ():
        progress.noted(conclusion)
    stored, kept = False, None
    if record is not None and search.is_lasting:
        stored, kept = _stored(checked, search, selection, record)
        if is_search and request.log and record.is_plain:
            _keep_log(task.space, record, search.trials, request.results, progress)
    return Result(
        kernel=task.space.name,
        device=search.crew.device,
        sizes=task.sizes,
        types=task.types,
        options=task.options,
        configurations=search.pool.valid,
        evaluated=search.evaluated,
        failed=failed,
        record=record,
        warnings=[*search.doubts, *doubts, *([accused] if accused else [])],
        accused=accused,
        stored=stored,
        trials=search.trials,
        failures=failures,
        selection=selection,
        front=summary.front(selection, task.method) if len(task.method.objectives) > 1 else [],
        kept=kept,
    )


def _record(search: Exploration, selection: Selection, failed: Failures) -> Record | None:
    """The record of the best finalist; None if there is none."""
    if not selection.finalists:
        return None
    same_bits = search.preference.same_bits
    about = search.signature, search.ceilings, "" if same_bits is None else same_bits.name
    of_search = Summary(search.pool.valid, len(search.ledger.trials), failed, search.strategy)
    return summary.record(search.crew.lead, selection, of_search, search.ledger, *about)


def _doubts(search: Exploration, space: Space, record: Record | None, *, is_search: bool) -> list[str]:
    """What makes a result doubtful. Parameters without effect show only in a search."""
    crew = search.crew
    found = [*summary.doubts(record, crew.device)] if record else []
    if is_search:
        found += _dead_parameters(space, crew.scope, crew.device, search.trials)
    slow = summary.slow_derivation(space, search.trials)
    return [*found, slow] if slow else found


def _stored(
    checked: CheckedRequest, search: Exploration, selection: Selection, record: Record
) -> tuple[bool, Record | None]:
    """Store a record, unless an earlier one is better. Returns whether it was stored, and the earlier one."""
    request, space, crew = checked.request, checked.task.space, search.crew
    rejections = rejected.Rejections(Query.of(space, crew.scope, crew.device))  # of all runs

    def competes(old: Record) -> bool:
        is_wrong = rejections.reason(old.config) is not None
        has_lost = request.method.objectives[0] == "time" and any(
            finalist.trial.config == old.config for finalist in selection.finalists[1:]
        )  # against times of the same rounds, so that its stored time no longer counts
        # Those of "record" change when another becomes the record.
        has_other_bits = search.preference.same_bits is not None and not bit_classes.are_same(old.bits, record.bits)
        is_out = request.fresh or is_wrong or has_lost or has_other_bits
        return not is_out and space.valid(old.config, crew.scope)

    if checked.store.add(record, competes, NOISE):
        return True, None
    stored_records = Store.of(space, request.results).records  # another process may have changed them
    return False, next((old for old in stored_records if old.key == record.key), None)


def _keep_log(space: Space, record: Record, trials: Sequence[Trial], results: Path | None, progress: Progress) -> None:
    """Write what the search has measured, so that other searches know it. A log that cannot be written is only noted:
    the record is there."""
    measured = [
        (
            trial.config,
            Entry(trial.time_ms, failure=trial.outcome.failure, extra={logs.OCCUPANCY: trial.outcome.occupancy}),
        )
        for trial in trials
    ]
    try:
        logs.keep(logs.LoggedProblem.of(space.name, record), space, measured, results)
    except RequestError as error:
        progress.noted(f"the log of the search is not kept: {error}")


def _judged(search: Exploration, progress: Progress, selected: Callable[[], Selection]) -> tuple[Selection, str | None]:
    """The selection, or an empty one and the reason if the reference is doubtful.

    Configurations may disagree with the reference only on the inputs or with the options of the finals.
    """
    crew, ledger = search.crew, search.ledger

    def accused() -> str | None:
        return accusation.of(crew.lead, ledger, crew.detour, progress.begun)

    before = accusation.dissenters(crew.lead, ledger)
    if (reason := accused()) is not None:
        return Selection([], Finals()), reason
    selection = selected()
    if len(accusation.dissenters(crew.lead, ledger)) > len(before):
        reason = accused()
    return (selection if reason is None else Selection([], Finals())), reason


def _dead_parameters(space: Space, scope: Scope, device: DeviceInfo, trials: Sequence[Trial]) -> list[str]:
    """Messages about parameters whose values gave the same code in all trials whose builds are cached."""
    from tuner.devices.builds import equal_code

    right = [trial.config for trial in trials if trial.outcome.failure is None]
    return equal_code.of_trials(space, scope, right, devices.cached_builds(device))
