"""Every trial there is of a kernel at a size: from a ledger of this machine, a recording, or a record."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tuner import devices, paths, recording, source, storage, study
from tuner.errors import RequestError
from tuner.exchange import target as targets
from tuner.exchange.target import Problem
from tuner.recording import Entry, Recording
from tuner.space import size_text
from tuner.store import Record, Store


@dataclass(frozen=True)
class Trials:
    """What was measured, where it was found (`ledger`, `recording` or `record`), and with which toolchain, if known."""

    recording: Recording
    origin: str
    toolchain: str = ""


def gather(problem: Problem, device: str | None, url: str | None = None) -> Trials:
    """The most that is known: the largest ledger of this version of the kernel, else a recording, else a record.

    `device` is a device of this machine, or part of a name. Raises RequestError where there is nothing.
    """
    if device is not None and device.partition(":")[0] in devices.KINDS:
        device = targets.opened(devices.for_space(problem.space, device)).device
    for origins in (_ledgers(problem, url), _recordings(problem), _records(problem)):
        found = [one for one in origins if device is None or device.casefold() in one.recording.device.casefold()]
        if found:
            return max(reversed(found), key=lambda one: len(one.recording.entries))  # of equals the latest
    where = f" on {paths.shown(device)}" if device is not None else ""
    raise RequestError(
        f"{problem.space.name} at {size_text(problem.sizes)}{where}: nothing has been measured; tune it first, or name "
        "another device"
    )


def _ledgers(problem: Problem, url: str | None) -> Iterator[Trials]:
    space, signature = problem.space, source.signature(problem.space)
    files = (
        [] if url else sorted((paths.state() / "studies" / space.name).glob("*.log"), key=lambda p: p.stat().st_mtime)
    )
    for where in [url] if url else files:
        try:
            opened = storage.at(where) if isinstance(where, str) else storage.in_file(where)
            for about, trials in study.stored(opened, f"{space.name} {size_text(problem.sizes)} "):
                conditions = str(about.get("conditions", ""))
                if conditions.startswith(signature) and trials:
                    made = recording.of_trials(space, problem.sizes, str(about.get("device", "")), trials)
                    yield Trials(made, "ledger", conditions.removeprefix(signature).partition(" Method(")[0].strip())
        except (LookupError, TypeError, ValueError, AssertionError, AttributeError):
            continue  # damaged; the next tuning mends it
        except storage.errors() as error:
            shown = storage.shown(str(where))
            raise RequestError(f"{shown}: the ledger cannot be read: {storage.reason(error)}") from None


def _recordings(problem: Problem) -> Iterator[Trials]:
    stem = problem.space.name.rpartition("/")[2]
    roots = dict.fromkeys((problem.results or paths.user_results(), paths.shipped("results")))
    for path in (path for root in roots for path in sorted((root / "recordings").glob(f"{stem}-*.json*"))):
        found = recording.read(path)
        if (found.kernel, found.size) == (problem.space.name, dict(problem.sizes)):
            yield Trials(found, "recording")


def _records(problem: Problem) -> Iterator[Trials]:
    signature = source.signature(problem.space)
    for record in Store(problem.space.name, problem.results).records:
        if record.sizes == dict(problem.sizes) and record.signature == signature:
            yield Trials(_of_record(problem, record), "record", record.toolchain)


def _of_record(problem: Problem, record: Record) -> Recording:
    names = problem.space.parameters
    times = [(record.config, record.time_ms), *((one["config"], one["time_ms"]) for one in record.next)]
    entries: dict[recording.Key, Entry] = {}
    for config, time_ms in times:
        if config.keys() == names.keys():
            entries.setdefault(tuple(config[name] for name in names), Entry(time_ms))
    return Recording(problem.space.name, record.device, names, entries, dict(record.sizes))
