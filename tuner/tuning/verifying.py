"""`tune verify`: measure on this machine what imported records say, so that they become verified records."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from tuner.catalog import kernel_names
from tuner.classes import dataclass
from tuner.errors import DeviceError, EnvironmentTrouble, RequestError
from tuner.measure.method import Method
from tuner.space import deployments
from tuner.space.config import Config, config_key
from tuner.space.sources.rendering import Version
from tuner.space.texts import full_problem_text
from tuner.store.record import Record
from tuner.tuning.checking import cases
from tuner.tuning.checking.cases import Case, Gathered
from tuner.tuning.crew.crews import Crews
from tuner.tuning.driver import Result, tune_with
from tuner.tuning.ledger.trial import RESUME
from tuner.tuning.progress import Progress
from tuner.tuning.request import TuningRequest

if TYPE_CHECKING:
    from tuner.space.model import Space

Status = Literal["verified", "failed", "not verified"]


@dataclass(frozen=True)
class Verification:
    """What became of one imported record, whose best is `config` and whose time was `imported_ms`.

    `status`: `verified` if its best gives right results here; `failed` if it does not, or does not run; `not verified`
    if nothing was run. `reason` says why. `time_ms` is the time of its best here. `record` is the verified record that
    this run wrote, whose best may be a runner-up of the imported one; None if it wrote none.
    """

    kernel: str
    device: str
    problem: str
    status: Status = "not verified"
    reason: str = ""
    sizes: dict[str, int] = field(default_factory=dict)
    types: dict[str, str] = field(default_factory=dict)
    options: dict[str, float] = field(default_factory=dict)
    config: Config = field(default_factory=dict)
    imported_ms: float | None = None
    time_ms: float | None = None
    record: Record | None = None

    def to_json(self) -> dict[str, Any]:
        record = self.record
        own = None if record is None else {"config": record.config, "time_ms": record.time_ms, "spread": record.spread}
        return {**vars(self), "record": own}


def verified(gathered: Gathered, results: Path | None, progress: Progress) -> Iterator[Verification]:
    """Verify the imported records of these cases. Raises EnvironmentTrouble if the machine stays in trouble."""
    for name, error in gathered.unusable.items():
        progress.noted(f"{name}: its records are left out: {error}")
    with Crews(progress.noted) as crews:
        for case in gathered.cases:
            for record in case.records:
                if record.is_imported:
                    yield _verified(crews, case, record, results, progress)


def _verified(crews: Crews, case: Case, record: Record, results: Path | None, progress: Progress) -> Verification:
    space, op = case.space, case.space.operation
    problem = full_problem_text(record.sizes, record.types, record.options, op.options)
    about = Verification(
        space.name, record.device, problem, sizes=record.sizes, types=record.types, options=record.options,
        config=record.config, imported_ms=record.time_ms,
    )  # fmt: skip
    if not record.is_of(Version.of(space)) or not cases.is_of_operation(record, op):
        return replace(about, reason="it is of another version of the kernel; import it again, or tune")
    size = ",".join(f"{name}={value}" for name, value in record.sizes.items())
    request = TuningRequest(
        kernel_names.address(space),
        size or None,
        device=case.device.id,
        options=record.options,
        types=record.types,
        method=Method(deployment=deployments.of_caches(record.caches) or deployments.ISOLATED),
        same_bits_as=record.same_bits_as or None,
        results=results,
    )
    try:
        scope = op.scope(record.sizes, record.options, case.device.language, case.device.limits, record.types)
        configs = _configs(space, case, record, lambda config: space.valid(config, scope))
        if record.config not in configs:
            return replace(about, status="failed", reason="its configuration is not valid on this device")
        result = tune_with(crews, request, progress, configs)
    except EnvironmentTrouble as error:
        text = str(error).removesuffix(f"; {RESUME}")
        raise EnvironmentTrouble(f"{space.name} at {problem}: {text}", error.reason) from None
    except (DeviceError, RequestError) as error:
        return replace(about, status="failed", reason=str(error))
    return _of_result(about, result)


def _configs(space: Space, case: Case, record: Record, is_valid: Callable[[Config], bool]) -> list[Config]:
    """The record's configurations, and the best of the verified record that the problem may have, which must not be
    replaced by something slower."""
    verified = [each.config for each in case.records if each.is_verified and each.is_of(Version.of(space))][:1]
    configs = {config_key(config): config for config in (*record.configs, *verified) if is_valid(config)}
    return [*configs.values()]


def _of_result(about: Verification, result: Result) -> Verification:
    """What a run over the record's configurations shows of its best."""
    about = replace(about, record=result.record if result.stored else None)
    if result.accused is not None:
        return replace(about, status="failed", reason=result.accused)
    failure = next((trial.outcome for trial in result.failures if trial.config == about.config), None)
    if failure is not None:
        reason = failure.failure or ""
        return replace(about, status="failed", reason=f"{reason}\n{failure.log}".strip())
    finalists = {config_key(each.trial.config): each.final.time_ms for each in result.selection.finalists}
    trials = {config_key(each.config): each.time_ms for each in result.trials}
    key = config_key(about.config)
    time_ms = finalists.get(key, trials.get(key))
    if result.record is None or time_ms is None:
        return replace(about, status="failed", reason="no run of it has succeeded")
    return replace(about, status="verified", time_ms=time_ms)
