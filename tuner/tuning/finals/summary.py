"""What a finished search comes to: the record of the best, doubts about it, and the front of several objectives."""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tuner.devices import DeviceInfo
from tuner.devices.ceilings import Ceilings
from tuner.measure.method import PROTOCOL, Method
from tuner.measure.process.supervisor import Supervisor
from tuner.measure.sustained import LEAST_SUSTAINED_MS
from tuner.measure.timing.clock import NOISE
from tuner.space.config import Config
from tuner.space.instance import Instance
from tuner.space.sources import preprocessor, rendering
from tuner.store import rates
from tuner.store.record_rules import LONGEST_TEXT
from tuner.store.store import Record
from tuner.tuning.finals import conclusions
from tuner.tuning.finals.selection import Selection, default_trial, non_dominated
from tuner.tuning.ledger.trial import Trial
from tuner.version import VERSION

if TYPE_CHECKING:
    from tuner.tuning.ledger.ledger import Ledger


MARGIN = 1.05  # by which a mix of reads and writes, and noise, may exceed a ceiling
Failures = Mapping[str, tuple[int, Trial]]  # by reason: how many, and the first of them


@dataclass(frozen=True)
class Point:
    """A configuration and the value of each objective by name; None where it is unknown."""

    config: Config
    values: dict[str, float | None]


@dataclass(frozen=True)
class Summary:
    """The search in a record: the number of valid configurations and of trials, failures by reason, strategy."""

    configurations: int
    evaluated: int
    failed: Failures
    strategy: str


def failures(trials: Iterable[Trial]) -> Failures:
    """The failures among `trials`, in the order of their reasons."""
    found: dict[str, tuple[int, Trial]] = {}
    for trial in trials:
        if (reason := trial.outcome.failure) is not None:
            number, first = found.get(reason, (0, trial))
            found[reason] = (number + 1, first)
    return dict(sorted(found.items()))


def record(
    worker: Supervisor,
    selection: Selection,
    summary: Summary,
    ledger: Ledger,
    signature: str,
    ceilings: Ceilings | None,
) -> Record:
    """The record of the best finalist, on a device of these ceilings."""
    finals, finalists = selection.finals, selection.finalists
    trial, final = finalists[0].trial, finalists[0].final
    default = default_trial(worker.task.space, worker.scope, ledger)
    default_final = next((finalist.final for finalist in finalists if finalist.trial == default), None)
    scope, op, device, method = worker.scope, worker.task.space.operation, worker.device, worker.task.method
    library, best_library, by = finals.library, finals.best_library, op.reference.kind
    at_length = {"kernel": final, "library": library, "best_library": best_library}
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
        **vars(rates.of(worker.task.space, scope, final.time_ms, ceilings)),
        library=library.library if library else None,
        library_ms=library.time_ms if library else None,
        vs_library=library.time_ms / final.time_ms if library else None,
        best_library=best_library.library if best_library else None,
        best_library_ms=best_library.time_ms if best_library else None,
        vs_best_library=best_library.time_ms / final.time_ms if best_library else None,
        sustained={name: vars(f.sustained) for name, f in at_length.items() if f and f.sustained},
        error=trial.outcome.error if by != "none" else None,
        bound=trial.outcome.bound if by != "none" else None,
        wrong=trial.outcome.wrong,
        signature=signature,
        toolchain=device.toolchain,
        configurations=summary.configurations,
        evaluated=summary.evaluated,
        failed={reason: number for reason, (number, _) in summary.failed.items()},
        strategy=summary.strategy,
        date=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        version=VERSION,
        next=selection.next_best,
        objective=method.objectives[0],
        caches="cold" if method.cold else "warm",
        energy_mj=final.energy_mj,
        default_ms=default_final.time_ms if default_final else default.time_ms if default else None,
        default_spread=default_final.spread if default_final else None,
        launch_ms=None if device.on_processor else finals.launch_ms,
        default_ties=default is not None and _ties(default, selection, worker),
        clock_mhz=finals.clock_mhz,
        throttled=finals.throttled,
        registers=trial.outcome.figures.registers,
        spills=trial.outcome.figures.spills,
        occupancy=trial.outcome.occupancy,
        protocol=PROTOCOL,
        input_sets=finals.input_sets,
        skipped_mutants=finals.skipped_mutants,
        verified=by,
        code=rendering.code(worker.task.space),
        conclusions=_conclusions(selection, device) if method.objectives[0] == "time" else [],
    )


def _ties(default: Trial, selection: Selection, worker: Supervisor) -> bool:
    """Whether nothing tells which of best and default is faster, or both are the same code."""
    best = selection.finalists[0].trial.config
    if best == default.config:
        return False
    one, other = (Instance(worker.task.space, config, worker.scope) for config in (best, default.config))
    is_same = preprocessor.is_same_code(one, other)
    return is_same or any(tied.trial == default for tied in conclusions.ties(selection))


def _conclusions(selection: Selection, device: DeviceInfo) -> list[str]:
    """What the finals tell, in lines that a record may have."""
    said = (text.split("\n") for text in conclusions.of(selection, device))
    return ["\n".join(line[: LONGEST_TEXT - 1] for line in lines) for lines in said]


def doubts(record: Record, device: DeviceInfo) -> Iterator[str]:
    """What should make a user doubt the times of a record."""
    if record.spread > NOISE:
        yield (
            f"the times of the best spread by {record.spread:.0%}, too far to be known: either other programs kept "
            f"{device.name} busy, or the kernel itself takes longer in some runs; run the same command again when "
            "nothing else runs: what spreads as far then is the kernel's"
        )
    if record.vs_memory and record.vs_memory > MARGIN:
        yield (
            f"{record.gbytes:.0f} GB/s is {record.vs_memory:.0%} of what {device.name} was measured to {record.memory}"
            "; check the operation's `bytes`, or run `tune devices --measure` again when the machine is idle"
        )
    fastest = device.peak.fastest_gflops if device.peak else None
    if record.gflops and fastest and record.gflops > fastest:
        yield (
            f"{record.gflops:.0f} GFLOP/s is more than {device.name} can do, {fastest:.0f} in its fastest format; "
            "check the operation's `flops`, and what the kernel leaves out"
        )


def not_sustained(record: Record) -> str:
    """Why a record has no sustained time."""
    return (
        f"--sustained: left out: the best takes {record.time_ms:.4g} ms; below {LEAST_SUSTAINED_MS:g} ms, the time of "
        "launches that follow one another is the host's"
    )


def front(selection: Selection, method: Method) -> list[Point]:
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
