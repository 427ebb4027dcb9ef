"""`tune run`: launch a looked-up configuration on random data, verify it, and time it against the vendor library."""

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import field
from pathlib import Path

from tuner import devices
from tuner.catalog import catalog
from tuner.classes import dataclass
from tuner.errors import TrialError, WorkerDied
from tuner.launch import launcher
from tuner.measure.process import scratch
from tuner.measure.process.attempts import with_retries
from tuner.measure.process.supervisor import Supervisor
from tuner.measure.process.task import Task, announce
from tuner.measure.results import Finals, Outcome, rejection
from tuner.space.chosen import Chosen
from tuner.store import rates, rejected, verdicts
from tuner.store.ceilings_file import StoredCeilings
from tuner.store.lookup import Candidate, Query
from tuner.store.record import Record
from tuner.store.verdicts import Interval

SAME = 0.02  # relative difference of two times that needs no explanation
MOST_TOLD = 1000.0  # times its record that an interval reaches at least, where the record is all noise
SECONDS = 600.0  # after which a kernel is stopped


@dataclass(frozen=True)
class Rerun:
    """The result of `tune run`: times in ms and rates, or the `reason` of the failure.

    `verified_by` is the reference's kind; if it is `none`, nothing was compared. `error` is the largest error. `wrong`
    counts wrong elements, if the tolerance allows some. `interval` holds the true median time, as in a record.
    """

    kernel: str
    device: str
    types: dict[str, str]
    candidate: Candidate
    verified: bool
    error: float | None = None
    wrong: int = 0
    reason: str | None = None
    verified_by: str | None = None
    time_ms: float | None = None
    spread: float | None = None
    interval: list[float] = field(default_factory=list)
    gflops: float | None = None
    peak: str | None = None
    vs_peak: float | None = None
    gbytes: float | None = None
    memory: str | None = None
    vs_memory: float | None = None
    library: str | None = None
    vs_library: float | None = None
    best_library: str | None = None
    vs_best_library: float | None = None

    @property
    def recorded(self) -> Record | None:
        """The record of this configuration for this problem, device and version of the kernel; None if there is
        none."""
        candidate, record = self.candidate, self.candidate.record
        is_same = record is not None and candidate.is_exact and not candidate.stale
        return record if record is not None and is_same and record.config == candidate.config else None

    @property
    def vs_record(self) -> Interval | None:
        """The time over the record's, and the interval of it, which takes in those of both; None without a record.

        The two were measured at different times, so clocks, drivers and other programs may differ.
        """
        if (record := self.recorded) is None or self.time_ms is None:
            return None
        known = verdicts.of_median(record.time_ms, record.spread)  # older records have no interval
        low, high = record.interval or (known.low, known.high)
        own_low, own_high = self.interval
        low = max(low, record.time_ms / MOST_TOLD)  # a spread may be larger than the time
        return Interval(own_low / high, self.time_ms / record.time_ms, own_high / low)

    @property
    def difference(self) -> str:
        """How the time differs from the record's, if by more than SAME and more than either spreads; else empty."""
        record, time_ms = self.recorded, self.time_ms
        if record is None or time_ms is None or abs(time_ms / record.time_ms - 1) <= SAME:
            return ""
        if verdicts.of_medians(time_ms, self.spread, record.time_ms, record.spread):
            return ""
        factor = time_ms / record.time_ms
        return (
            f"took {time_ms:.4g} ms (spread {self.spread or 0:.1%}), {factor:.2f} times as long as in its record, "
            f"{record.time_ms:.4g} ms (spread {record.spread:.1%}): clocks, the driver, the inputs or other programs "
            "differ; if it stays so, tune it again with --fresh"
        )


def run(
    kernel: str,
    size: str | None,
    device: str | None,
    options: Mapping[str, float],
    types: Mapping[str, str],
    results: Path | None,
    noted: Callable[[str], None],
) -> Rerun:
    """Look up a configuration, and have a worker launch, verify and time it.

    If the kernel crashes or hangs, only the worker ends, and the Rerun has the reason. `noted` is called with messages
    for the user. Raises RequestError if the request is wrong, DeviceError if the inputs cannot be computed, and
    EnvironmentTrouble if the machine stays in trouble.
    """
    space = catalog.load(kernel)
    announce(space, noted)
    chosen = Chosen.parse(space.operation, size, options, types)
    task = Task(space, chosen.sizes, chosen.options, timeout=SECONDS, types=chosen.types)
    name = devices.for_space(space, device)
    with scratch.file() as products, contextlib.closing(Supervisor(task, name, products)) as worker:
        with_retries(worker.start, noted)
        candidate = launcher.find(space, worker.scope, worker.device, results)
        with_retries(worker.get_ready, noted)
        for sentence in worker.missed_cases:
            noted(sentence)
        outcome, finals = _measured(worker, candidate, noted)
        return _result(worker, candidate, outcome, finals, results)


def _measured(worker: Supervisor, candidate: Candidate, noted: Callable[[str], None]) -> tuple[Outcome, Finals]:
    """The candidate as in a search, and if it is right, as in the finals."""
    try:
        outcome = with_retries(lambda: worker.measure(candidate.config), noted)
        if outcome.failure is None:
            return outcome, with_retries(lambda: worker.finals([candidate.config]), noted)
    except (TrialError, WorkerDied) as error:
        outcome = Outcome(failure=error.reason, log=str(error))
    return outcome, Finals()


def _result(worker: Supervisor, candidate: Candidate, outcome: Outcome, finals: Finals, results: Path | None) -> Rerun:
    """What is told of a run. Look-ups learn of a wrong result."""
    space, scope, device = worker.task.space, worker.scope, worker.device
    failure = finals.candidates[0].failure if finals.candidates else f"{outcome.failure}: {outcome.log}"
    if failure is not None:
        if (wrong := rejection(failure)) is not None:
            rejected.keep(Query.of(space, scope, device), [(candidate.config, wrong)])
        return Rerun(space.name, device.name, dict(scope.types), candidate, verified=False, reason=failure)
    (own,), library, best = finals.candidates, finals.library, finals.best_library
    by = space.operation.reference.kind
    return Rerun(
        kernel=space.name,
        device=device.name,
        types=dict(scope.types),
        candidate=candidate,
        verified=by != "none",
        verified_by=by,
        error=outcome.error if by != "none" else None,
        wrong=outcome.wrong,
        time_ms=own.time_ms,
        spread=own.spread,
        interval=[*verdicts.interval(own.times)[::2]],
        **vars(rates.of(space, scope, own.time_ms, StoredCeilings(results).of(device))),
        library=library.library if library else None,
        vs_library=library.time_ms / own.time_ms if library else None,
        best_library=best.library if best else None,
        vs_best_library=best.time_ms / own.time_ms if best else None,
    )
