"""Every trial there is of a kernel at a size: from a ledger of this machine, a recording, or a record."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial

from tuner import devices, paths
from tuner.errors import RequestError
from tuner.exchange import recording
from tuner.exchange import target as targets
from tuner.exchange.recording import Entry, Recording
from tuner.exchange.target import Problem
from tuner.space import source
from tuner.space.model import size_text
from tuner.store.store import Record, Store
from tuner.tuning import journal, ledger, storage


@dataclass(frozen=True)
class Trials:
    """What was measured, where it was found (`ledger`, `recording` or `record`), and what is known of the toolchain and
    the device besides its name; empty where nothing is."""

    recording: Recording
    origin: str
    toolchain: str = ""
    kind: str = ""
    architecture: str = ""


def gather(problem: Problem, device: str | None, url: str | None = None) -> Trials:
    """The most that is known: the largest ledger of this version of the kernel, else a recording, else a record; where
    `url` names a ledger, what it holds.

    `device` is a device of this machine, or part of a name. Raises RequestError where there is nothing.
    """
    kind = ""
    if device is not None and devices.is_name(device):
        here = targets.at_hand(devices.for_space(problem.space, device))
        device, kind = here.name, here.kind
    origins = (_ledgers(problem, url),) if url else (_ledgers(problem), _recordings(problem), _records(problem))
    for origin in origins:
        known = [one for one in origin if device is None or device.casefold() in one.recording.device.casefold()]
        found = [made for made in map(partial(_identified, problem), known) if not kind or made.kind in ("", kind)]
        if found:
            return max(reversed(found), key=lambda one: len(one.recording.entries))  # of equals the latest
    where = f" on {paths.shown(device)}" if device is not None else ""
    asked = f"{problem.space.name} at {size_text(problem.sizes)}{where}"
    if url:
        raise RequestError(f"--storage {storage.shown(url)}: nothing of {asked} in it; name another, or leave it out")
    raise RequestError(f"{asked}: nothing has been measured; tune it first, or name another device")


def _identified(problem: Problem, found: Trials) -> Trials:
    """With kind and architecture, as far as the toolchain and the store tell them."""
    spoken = devices.kinds_of(problem.space)
    told = [kind for kind in spoken if found.toolchain.startswith(devices.BACKENDS[kind].toolchain or "\0")]
    kind = found.kind or next(iter(told), spoken[0] if len(spoken) == 1 else "")
    same = [d for d in targets.stored(problem) if d.name == found.recording.device and kind in ("", d.kind)]
    kinds = {d.kind for d in same} or {kind}
    if len(kinds) > 1:  # a GPU may have one name in CUDA and in OpenCL
        return found
    architecture = found.architecture or next((d.architecture for d in same), "")
    return replace(found, kind=kinds.pop(), architecture=architecture)


def _ledgers(problem: Problem, url: str | None = None) -> Iterator[Trials]:
    space, signature = problem.space, source.signature(problem.space)
    if url:
        _check_exists(url)
    files = (
        [] if url else sorted((paths.state() / "studies" / space.name).glob("*.log"), key=lambda p: p.stat().st_mtime)
    )
    for where in [url] if url else files:
        try:
            opened = storage.at(where) if isinstance(where, str) else journal.read(where)
            for study in ledger.stored(opened, space, problem.sizes):
                if study.signature == signature and study.trials:
                    measured = recording.of_trials(space, problem.sizes, study.device, study.trials)
                    yield Trials(measured, "ledger", study.toolchain)
        except (LookupError, TypeError, ValueError, AssertionError, AttributeError):
            continue  # damaged; the next tuning mends it
        except storage.errors() as error:
            shown = storage.shown(str(where))
            raise RequestError(f"{shown}: the ledger cannot be read: {storage.reason(error)}") from None


def _check_exists(url: str) -> None:
    """Raise RequestError for a database without studies: Optuna would make one."""
    if url.partition(":")[0].partition("+")[0] not in storage.DATABASES:
        return
    import sqlalchemy

    where = f"--storage {storage.shown(url)}"
    try:
        file = sqlalchemy.make_url(url).database if url.startswith("sqlite") else None
        if file and not os.path.exists(file):
            raise RequestError(f"{where}: there is no such file; name one that tuning has written, or leave it out")
        engine = sqlalchemy.create_engine(url)
        try:
            there = sqlalchemy.inspect(engine).has_table("studies")
        finally:
            engine.dispose()
    except (ImportError, sqlalchemy.exc.ArgumentError):
        return  # opening it says what is wrong
    except sqlalchemy.exc.SQLAlchemyError as error:
        raise RequestError(f"{where}: the ledger cannot be read: {storage.reason(error)}") from None
    if not there:
        raise RequestError(f"{where}: holds no trials; name a database that tuning has written, or leave it out")


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
            made = _of_record(problem, record)
            yield Trials(made, "record", record.toolchain, record.kind, record.architecture)


def _of_record(problem: Problem, record: Record) -> Recording:
    names = problem.space.parameters
    times = [(record.config, record.time_ms), *((one["config"], one["time_ms"]) for one in record.next)]
    entries: dict[recording.Key, Entry] = {}
    for config, time_ms in times:
        if config.keys() == names.keys():
            entries.setdefault(tuple(config[name] for name in names), Entry(time_ms))
    return Recording(problem.space.name, record.device, names, entries, dict(record.sizes))
