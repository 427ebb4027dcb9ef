"""`tune run`: launch a looked-up configuration on random data, verify it, and time it against the vendor library."""

import functools
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, field
from pathlib import Path
from typing import Any

from tuner import devices
from tuner.catalog import catalog
from tuner.classes import dataclass
from tuner.devices import Device
from tuner.devices.ceilings import Ceilings
from tuner.errors import DeviceError, TrialError, WorkerDied
from tuner.launch import launcher
from tuner.launch.kernel import Kernel
from tuner.measure import turns
from tuner.measure.anchors import Anchors
from tuner.measure.floor import Floor
from tuner.measure.process import replies
from tuner.measure.process.attempts import with_retries
from tuner.measure.process.channel import Process
from tuner.measure.process.task import announce, explained, uncomputed
from tuner.measure.results import Final, rejection
from tuner.measure.timing.clock import Stopwatch, interleave
from tuner.measure.workbench import Workbench
from tuner.space import launch_form, snapshot
from tuner.space.chosen import Chosen
from tuner.space.instance import Instance
from tuner.space.model import Space
from tuner.store import rates, rejected, verdicts
from tuner.store.ceilings_file import StoredCeilings
from tuner.store.lookup import Candidate, Query
from tuner.store.record import Record
from tuner.store.verdicts import Interval

SAME = 0.02  # relative difference of two times that needs no explanation
MOST_TOLD = 1000.0  # times its record that an interval reaches at least, where the record is all noise
SECONDS = 600.0  # timeout of each request to the child process; the reference of a huge size takes minutes


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
    """Look up a configuration, launch, verify and time it in a child process.

    If the kernel crashes or hangs, only the child ends, and the Rerun has the reason. `noted` is called with messages
    for the user. Raises RequestError if the request is wrong, DeviceError if the inputs cannot be computed, and
    EnvironmentTrouble if the machine stays in trouble.
    """
    space = catalog.load(kernel)
    announce(space, noted)
    request: dict[str, Any] = {"space": launch_form.to_json(space), "files": snapshot.to_json(), "size": size}
    request |= {"device": device, "options": dict(options), "types": dict(types)}
    request |= {"results": str(results) if results else None}
    return with_retries(functools.partial(_run, request, space, noted), noted, time.sleep)


def _run(request: dict[str, Any], space: Space, noted: Callable[[str], None]) -> Rerun:
    child = Process("tuner.tuning.rerun")
    try:
        answer = child.ask(request, SECONDS)
        candidate = _from_json(answer["candidate"])
        try:
            for sentence in child.ask({}, SECONDS)["missed_cases"]:
                noted(sentence)
        except WorkerDied as died:
            raise DeviceError(f"{answer['device']}: {uncomputed(space, died)}") from None
        try:
            return Rerun(**{**child.ask({}, SECONDS), "candidate": candidate})
        except WorkerDied as died:
            reason = f"{died.reason}: {explained(space, died)}"
            return Rerun(answer["kernel"], answer["device"], answer["types"], candidate, verified=False, reason=reason)
    finally:
        child.close()


def _from_json(candidate: dict[str, Any]) -> Candidate:
    record = Record(**candidate["record"]) if candidate["record"] else None
    return Candidate(**{**candidate, "record": record, "notes": tuple(candidate["notes"])})


def main() -> None:
    """Run the child process, which replies to three requests.

    It sends the look-up's candidate first, then the missed cases, once inputs and answers are computed, then the Rerun.
    """
    channel = replies.Channel()
    requests = iter(channel)
    with channel.reporting():
        request = next(requests)
        snapshot.adopt(request.pop("files"))
        instance, device, candidate = _look_up(**request)
        channel.isolate(device)  # references and functions of the space file run apart from the kernel
        space, scope = instance.space, instance.problem
        about = {"kernel": space.name, "device": device.name, "types": dict(scope.types)}
        channel.reply({**about, "candidate": asdict(candidate)})
        next(requests)
        bench = Workbench(device, space, scope)
        channel.reply({"missed_cases": bench.missed_cases})
        next(requests)
        ceilings = StoredCeilings(_folder(request["results"])).of(device)
        with turns.taken(device.place):
            measured = _measure(bench, instance, device, candidate, ceilings)
        if measured.reason is not None and (wrong := rejection(measured.reason)) is not None:
            rejected.keep(Query.of(space, scope, device), [(candidate.config, wrong)])
        channel.reply(asdict(measured))


def _look_up(
    space: dict[str, Any],
    size: str | None,
    device: str | None,
    options: Mapping[str, float],
    types: Mapping[str, str],
    results: str | None,
) -> tuple[Instance, Device, Candidate]:
    loaded = launch_form.from_json(space)
    chosen = Chosen.parse(loaded.operation, size, options, types)
    opened = devices.open_apart(devices.for_space(loaded, device))
    scope = chosen.scope(opened.language, opened.limits)
    candidate = launcher.find(loaded, scope, opened, _folder(results))
    return Instance(loaded, candidate.config, scope), opened, candidate


def _folder(results: str | None) -> Path | None:
    return Path(results) if results else None


def _measure(
    bench: Workbench, instance: Instance, device: Device, candidate: Candidate, ceilings: Ceilings | None
) -> Rerun:
    space, scope = instance.space, instance.problem
    by, types = space.operation.reference.kind, dict(scope.types)
    try:
        call = bench.bind(Kernel(instance, device, candidate).program)
        verdict = bench.verify(call)
        stopwatch = Stopwatch(device, bench)
        anchors = Anchors(device, bench, stopwatch)
        libraries = [anchors.default, *anchors.fastest] if anchors.default else []
        calls: list[Callable[[], None]] = [call, *libraries]
        rounds = interleave(device, stopwatch, calls)
        if 0 in rounds.errors:
            raise rounds.errors[0]
        bench.verify(call)  # again: the guards show whether a timed run wrote out of bounds
        Floor(device, space.operation, bench.nominal, bench).check(Final(rounds.times[0]).time_ms)
    except TrialError as error:
        return Rerun(space.name, device.name, types, candidate, verified=False, reason=f"{error.reason}: {error}")
    own, *others = [Final(times) for times in rounds.times]
    library = libraries[0] if libraries and others[0].times else None
    best = min((final.time_ms for final in others[1:] if final.times), default=None)
    return Rerun(
        kernel=space.name,
        device=device.name,
        types=types,
        candidate=candidate,
        verified=by != "none",
        verified_by=by,
        error=verdict.error if by != "none" else None,
        wrong=verdict.wrong,
        time_ms=own.time_ms,
        spread=own.spread,
        interval=[*verdicts.interval(own.times)[::2]],
        **vars(rates.of(space, scope, own.time_ms, ceilings)),
        library=library.name if library else None,
        vs_library=others[0].time_ms / own.time_ms if library else None,
        best_library=libraries[1].name if best else None,
        vs_best_library=best / own.time_ms if best else None,
    )
