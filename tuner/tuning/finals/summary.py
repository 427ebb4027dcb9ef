"""Summarise a finished search: the record of its best, doubts about it, and the front of several objectives."""

from __future__ import annotations

import datetime
import json
import math
import statistics
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from tuner.classes import dataclass
from tuner.devices import DeviceInfo
from tuner.devices.ceilings import Ceilings
from tuner.measure.method import Method
from tuner.measure.process.supervisor import Supervisor
from tuner.measure.results import MEASURE
from tuner.measure.sustained import LEAST_SUSTAINED_MS
from tuner.measure.timing.clock import NOISE
from tuner.space.config import Config
from tuner.space.deployments import CACHES
from tuner.space.instance import Instance
from tuner.space.sources import rendering, same_code
from tuner.space.values.python_derivation import PythonDerivation
from tuner.store import rates
from tuner.store.record import FIXED, Record
from tuner.store.record_rules import LONGEST_TEXT
from tuner.tuning.finals import bits, comparison, conclusions, processes
from tuner.tuning.finals.entrants import default_trial, non_dominated
from tuner.tuning.ledger.trial import Trial
from tuner.version import VERSION

if TYPE_CHECKING:
    from tuner.space.model import Space
    from tuner.tuning.finals.selection import Selection
    from tuner.tuning.ledger.ledger import Ledger


SLOW_SECONDS = 0.1  # after each timed run: then a budget of seconds tries few configurations
CONFIDENCE = 0.99  # with which compared runs reveal a fault
MOST_TIED = 5  # in a record
MOST_FINALISTS, MOST_TEXT = 20, 1 << 14  # in a record: their number, and the characters of their configurations
MARGIN = 1.05  # factor by which a mix of reads and writes, or noise, may exceed a ceiling
Failures = Mapping[str, tuple[int, Trial]]  # by reason: the number of failures, and the first one


@dataclass(frozen=True)
class Point:
    """A configuration and the value of each objective by name; None if unknown."""

    config: Config
    values: dict[str, float | None]


@dataclass(frozen=True)
class Summary:
    """The figures of the search that a record stores.

    `configurations` counts the valid configurations, `evaluated` the trials.
    """

    configurations: int
    evaluated: int
    failed: Failures
    strategy: str


def failures(trials: Iterable[Trial]) -> Failures:
    """The failures among `trials`, sorted by reason."""
    by_reason: dict[str, tuple[int, Trial]] = {}
    for trial in trials:
        if (reason := trial.outcome.failure) is not None:
            number, first = by_reason.get(reason, (0, trial))
            by_reason[reason] = (number + 1, first)
    return dict(sorted(by_reason.items()))


def record(
    worker: Supervisor,
    selection: Selection,
    summary: Summary,
    ledger: Ledger,
    signature: str,
    ceilings: Ceilings | None,
    same_bits_as: str = "",
) -> Record:
    """The record of the best finalist. `ceilings` are the device's, if they were measured. `same_bits_as` is what the
    search was restricted to."""
    finals, best = selection.finals, selection.finalists[0]
    trial, final = best.trial, best.final
    space, scope, device, method = worker.task.space, worker.scope, worker.device, worker.task.method
    default = default_trial(space, scope, ledger)
    at_length = {"kernel": final, "library": finals.library, "best_library": finals.best_library}
    return Record(
        **_problem(worker),
        **_verification(worker, selection),
        config=trial.config,
        time_ms=final.time_ms,
        spread=final.spread,
        rounds=len(final.times),
        **vars(rates.of(space, scope, final.time_ms, ceilings)),
        **comparison.of(selection, default),
        sustained={name: vars(f.sustained) for name, f in at_length.items() if f and f.sustained},
        signature=signature,
        configurations=summary.configurations,
        evaluated=summary.evaluated,
        failed={reason: number for reason, (number, _) in summary.failed.items()},
        strategy=summary.strategy,
        date=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        version=VERSION,
        next=bits.numbered(selection),
        **bits.of(selection, ledger, default),
        same_bits_as=same_bits_as,
        interval=[*processes.interval(final)[::2]],
        tied=_tied(selection) if method.objectives[0] == "time" else [],
        finalists=_finalists(selection),
        decided_by=selection.decided_by,
        energy_mj=final.energy_mj,
        energy_spread=final.energy_spread,
        launch_ms=None if device.on_processor else finals.launch_ms,
        default_ties=default is not None and _ties(default, selection, worker),
        clock_mhz=finals.clock_mhz,
        throttled=finals.throttled,
        registers=trial.outcome.figures.registers,
        spills=trial.outcome.figures.spills,
        local_memory=trial.outcome.figures.local_memory,
        occupancy=trial.outcome.occupancy,
        conclusions=_conclusions(selection, device, method),
    )


def _problem(worker: Supervisor) -> dict[str, Any]:
    """The fields of a record that say what was tuned, where, and how it was measured; without the signature."""
    scope, device, method = worker.scope, worker.device, worker.task.method
    return {
        "device": device.name,
        "kind": device.kind,
        "architecture": device.architecture,
        "toolchain": device.toolchain,
        "conditions": dict(device.conditions.values),
        "sizes": dict(scope.sizes),
        "options": dict(scope.options),
        "types": dict(scope.types),
        "code": rendering.code(worker.task.space),
        "objective": method.objectives[0],
        "caches": CACHES[method.deployment],
        "protocol": method.protocol,
    }


def _verification(worker: Supervisor, selection: Selection) -> dict[str, Any]:
    """The fields of a record that say how its outputs were compared."""
    op, outcome, finals = worker.task.space.operation, selection.finalists[0].trial.outcome, selection.finals
    by = op.reference.kind
    fields = {"wrong": outcome.wrong, "input_sets": finals.input_sets, "skipped_mutants": finals.skipped_mutants}
    if by == "none":
        return {**fields, "error": None, "bound": None, "verified": by}
    return {
        **fields,
        "error": outcome.error,
        "bound": outcome.bound,
        "compared_runs": selection.compared,
        "fault_rate": detected_rate(selection.compared),
        "accepted_mutants": finals.accepted_mutants,
        "verified": FIXED if op.has_drawn_files else by,
    }


def detected_rate(runs: int) -> float:
    """The least rate of faults that so many compared runs reveal with a probability of 99 %, 0 to 1.

    A rate is the fraction of runs that are wrong, each independently of the others.
    """
    return float(1 - (1 - CONFIDENCE) ** (1 / runs))


def _tied(selection: Selection) -> list[dict[str, Any]]:
    """The ties as a record stores them, the fastest first: the winner and the fastest others, at most MOST_TIED."""
    best = selection.finalists[0]
    others = [tie for tie in selection.ties if tie.finalist is not best][: MOST_TIED - 1]
    kept = [tie for tie in selection.ties if tie.finalist is best or tie in others]
    return [{"config": tie.finalist.trial.config, "low": tie.ratio.low, "high": tie.ratio.high} for tie in kept]


def _finalists(selection: Selection) -> list[dict[str, Any]]:
    """The finalists as a record stores them, best first, within MOST_FINALISTS and MOST_TEXT.

    They are for people to read, so their figures are short.
    """
    tied = conclusions.ties(selection)
    most = min(MOST_FINALISTS, MOST_TEXT // len(json.dumps(selection.finalists[0].trial.config)))
    return [
        {
            "config": finalist.trial.config,
            "time_ms": float(f"{finalist.final.time_ms:.6g}"),
            "spread": round(finalist.final.spread, 4),
            "tied": finalist in tied,
        }
        for finalist in selection.finalists[:most]
    ]


def _ties(default: Trial, selection: Selection, worker: Supervisor) -> bool:
    """Whether the default differs from the best, but its time is indistinguishable or its code equal."""
    best = selection.finalists[0].trial.config
    if best == default.config:
        return False
    one, other = (Instance(worker.task.space, config, worker.scope) for config in (best, default.config))
    is_same = same_code.is_same_code(one, other)
    return is_same or any(tied.trial == default for tied in conclusions.ties(selection))


def _conclusions(selection: Selection, device: DeviceInfo, method: Method) -> list[str]:
    """The conclusions about the first objective, with lines cut to the length that a record allows."""
    is_time = method.objectives[0] == "time"
    texts = conclusions.of(selection, device) if is_time else conclusions.of_energy(selection)
    said = (text.split("\n") for text in texts)
    return ["\n".join(line[: LONGEST_TEXT - 1] for line in lines) for lines in said]


def doubts(record: Record, device: DeviceInfo) -> Iterator[str]:
    """Reasons to doubt a record's precision and times, for the user."""
    if record.accepted_mutants:
        yield (
            f"the tolerance would also accept {', '.join(record.accepted_mutants)}: so this precision of the best is "
            "not verified; write a smaller `tolerance:`, by the longest chain of additions, or in a script a `verify=`"
        )
    if record.spread > NOISE:
        yield (
            f"the times of the best spread by {record.spread:.0%}, so its time is uncertain; run the same command "
            "again when nothing else runs: a spread that remains is the kernel's"
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


def slow_derivation(space: Space, trials: Iterable[Trial]) -> str:
    """The message that a Python function of `derive:`, which runs after each timed run, is slow; empty if it is not."""
    names = [each.text for each in space.operation.derive.values() if isinstance(each, PythonDerivation)]
    timed = [trial.outcome for trial in trials if trial.outcome.times and MEASURE in trial.outcome.seconds]
    if not names or not timed:
        return ""
    between = statistics.median(o.seconds[MEASURE] / len(o.times) - statistics.median(o.times) / 1e3 for o in timed)
    if between < SLOW_SECONDS:
        return ""
    return (
        f"about {between:.2g} s pass after each timed run, while {' and '.join(names)} of `derive:` "
        f"{'run' if len(names) > 1 else 'runs'}: a budget ends between runs, and the finals add to it; compute with "
        "whole arrays in NumPy, or write an expression"
    )


def not_sustained(record: Record) -> str:
    """The message that a record has no sustained time, and why."""
    return (
        f"--sustained: left out: the best takes {record.time_ms:.4g} ms; below {LEAST_SUSTAINED_MS:g} ms, back-to-back "
        "launches measure the host, not the kernel"
    )


def front(selection: Selection, method: Method) -> list[Point]:
    """The non-dominated finalists, best first."""
    configs = {finalist.values(method.objectives): finalist.trial.config for finalist in reversed(selection.finalists)}
    return [
        Point(configs[values], {name: _number(value) for name, value in zip(method.metrics, values, strict=True)})
        for values in non_dominated(list(configs))
    ]


def _number(value: float) -> float | None:
    """The value, as an int if it is whole; None for infinity, which means unknown."""
    if math.isinf(value):
        return None
    return int(value) if value.is_integer() else value
