"""A folder from which `tuner.dispatch` serves a family at any size without a compiler.

It holds the records and tables of a device, by which configurations are chosen, and their binaries for every kind of
size that was measured.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from tuner import devices, paths
from tuner.devices.bundles import binary_json
from tuner.devices.compiler import Build, Compiler
from tuner.devices.program import build
from tuner.errors import RequestError, TrialError
from tuner.exchange.exports.formats import Export, ExportRequest
from tuner.exchange.exports.target import TargetDevice, stored_devices
from tuner.families.bundles import DISPATCH, DISPATCH_FILE, RECORDS
from tuner.families.code import Code, SizedCode
from tuner.families.known import Knowledge, Known
from tuner.prediction.grids import Sizes, scope_at
from tuner.space.config import Config
from tuner.space.instance import Instance
from tuner.space.model import Space
from tuner.space.scope import Scope
from tuner.space.sources import rendering as sources
from tuner.space.sources.rendering import Version
from tuner.space.sources.source import Source
from tuner.space.texts import config_text
from tuner.store import time_tables
from tuner.store.lookup import Query
from tuner.store.record import Record
from tuner.store.store import Store
from tuner.store.time_tables import TimeTable
from tuner.version import VERSION

NAME = 20  # characters of a digest that name a file
CLOSE = 1.1  # times the best of the family at some size: what is never as near is left out
THREADS = 16  # that compile
Job = tuple[Space, Config, Scope]


def export(request: ExportRequest) -> Export:
    """Write the folder. Raises RequestError where there is no record or table, where several devices have some, and
    where nothing compiles."""
    device, compiler = _target(request)
    language, problem, knowledge = devices.BACKENDS[device.kind].language, request.problem, Knowledge(library=False)
    records: dict[str, list[Record]] = {}
    tables: dict[str, list[TimeTable]] = {}
    sizes = dict.fromkeys(request.spaces[0].operation.sizes, 1)  # not which
    scope = Scope(sizes, problem.options, language, device.limits, problem.types)
    for space in request.spaces:
        query = Query(space, scope, device.name, device.kind, device.architecture, Version.of(space))
        store = Store.of(space, problem.results)
        records[space.name] = [record for record in store.records if _is_exported(record, query)]
        knowledge.add_records(records[space.name], query)
        tables[space.name] = [table for table in time_tables.read(store.files)[0] if table.serves(query)]
        for table in tables[space.name]:
            knowledge.add_table(table, query)
    if not any(records.values()) and not any(tables.values()):
        raise RequestError(
            f"{request.name}: no times of {device.name}; run `tune cover {request.name} --sizes ...` there first"
        )
    jobs = list(_jobs(request.spaces, knowledge.all(), scope))
    builds, notes = _built(compiler, jobs)
    if not builds:
        raise RequestError(f"{request.name}: nothing compiles for {device.architecture}: {notes[0]}")
    held = {space.name for space, _, _ in jobs}
    spaces = [space for space in request.spaces if space.name in held]
    folder = request.path("")
    files = [folder / _file(source, device) for source in builds]
    for file, made in zip(files, builds.values(), strict=True):
        paths.replace(file, made.binary)
    for space in spaces:
        store = Store(space.name, folder / RECORDS)
        store.put(records[space.name])
        files.append(store.paths[0])
        if tables[space.name]:
            time_tables.write(space.name, tables[space.name], folder / RECORDS)
            files.append(time_tables.path(space.name, folder / RECORDS))
    files.append(folder / DISPATCH_FILE)
    data = {
        "format": DISPATCH[0],
        "version": DISPATCH[1],
        "tuner": VERSION,
        "family": request.name,
        "kernels": {space.name: sources.code(space) for space in spaces},
        "device": device.name,
        "kind": device.kind,
        "architecture": device.architecture,
        "binaries": [binary_json(_file(source, device), source.digest, made) for source, made in builds.items()],
    }
    paths.replace(files[-1], (json.dumps(data, indent=1) + "\n").encode())
    words = {"device": device.name, "kind": device.kind, "architecture": device.architecture}
    summary = {"devices": [words], "kernels": [space.name for space in spaces], "builds": len(builds)}
    return Export(files, summary, tuple(notes))


def _target(request: ExportRequest) -> tuple[TargetDevice, Compiler]:
    """The device whose records and tables are exported, and what compiles for it: one of this machine by its name, or
    one in the store, which records name, or else tables alone. Raises RequestError."""
    name = request.device
    if name is not None and devices.is_name(name):
        return _opened(name)
    found, refusal = _stored(request, tables=False)
    if not found:
        found, refusal = _stored(request, tables=True)
    if not found:
        raise refusal
    if len(found) > 1:
        names = ", ".join(f"{device.name} ({device.kind})" for device in found.values())
        raise RequestError(f"{request.name}: the store has records of {names}; choose one with --device")
    (device,) = found.values()
    for number in range(devices.count(device.kind)):  # if it is here, its limits are known
        here = _opened(f"{device.kind}:{number}")
        if here[0].name == device.name:
            return here
    if devices.BACKENDS[device.kind].binaries is None:
        raise RequestError(
            f"{request.name}: {device.name} ({device.kind}) is not here, and builds of {device.kind} are for the "
            "device that compiles them; export it there"
        )
    return device, devices.compiler_for(device.kind, device.architecture)


def _stored(request: ExportRequest, tables: bool) -> tuple[dict[tuple[str, str], TargetDevice], RequestError]:
    """The devices of that name in the store, by records or by tables; and why there is none."""
    found: dict[tuple[str, str], TargetDevice] = {}
    refusal = RequestError(f"{request.name}: the store has no record of it; tune it first")
    for space in request.spaces:
        try:
            there = stored_devices(replace(request.problem, space=space), request.device, tables)
            found |= {(device.kind, device.name): device for device in there}
        except RequestError as error:
            refusal = error
    return found, refusal


def _opened(name: str) -> tuple[TargetDevice, Compiler]:
    device = devices.shared(name)
    return TargetDevice(device.name, device.kind, device.architecture, device.limits), device.compiler


def _is_exported(record: Record, query: Query) -> bool:
    """Whether a record is of the kernel as it is now, the device and the types, and its times may be compared."""
    asked = query.kind, query.device, query.scope.types
    is_here = (record.kind, record.device, record.types) == asked
    return is_here and record.is_plain and record.is_verified and record.is_of(query.version)


def _jobs(spaces: Sequence[Space], measured: Sequence[Known], scope: Scope) -> Iterator[Job]:
    """What is to be compiled: each configuration that is near the best somewhere, as it is at every size that has a
    record, and at those where it was measured; what is for one size alone, where it is the best of a record. Equal code
    comes once."""
    recorded = {sizes for each in measured for sizes in each.records}
    best: dict[Sizes, float] = {}
    for sizes, time_ms in (item for each in measured for item in each.times.items()):
        best[sizes] = min(time_ms, best.get(sizes, math.inf))
    codes, seen = {space.name: SizedCode(space) for space in spaces}, set[tuple[str, ...]]()
    for space, each in ((each.space, each) for each in measured):
        if space is None or all(time_ms > CLOSE * best[sizes] for sizes, time_ms in each.times.items()):
            continue
        code, known = codes[space.name], set[Code]()
        won = [sizes for sizes, (_, rank) in each.records.items() if rank == 0]
        is_for_one = code.is_for_one_size(each.config, scope_at(scope, next(iter(each.times))))
        for sizes in won if is_for_one else {*recorded, *each.times}:
            here = scope_at(scope, sizes)
            own = code.at(each.config, here)
            if own in known or not space.valid(each.config, here):
                continue
            known.add(own)
            digests = tuple(step.source.digest for step in sources.render(Instance(space, each.config, here)))
            if digests not in seen:
                seen.add(digests)
                yield space, each.config, here


def _built(compiler: Compiler, jobs: Sequence[Job]) -> tuple[dict[Source, Build], list[str]]:
    """The builds of all that compiles, and notes about what does not."""

    def built(job: Job) -> Mapping[Source, Build] | str:
        space, config, scope = job
        try:
            return build(compiler, Instance(space, config, scope)).builds
        except TrialError as error:
            return f"{space.name}: left out: {str(error).partition(chr(10))[0]}: {config_text(config)}"

    builds: dict[Source, Build] = {}
    notes: list[str] = []
    with ThreadPoolExecutor(THREADS) as pool:
        for found in pool.map(built, jobs):
            if isinstance(found, str):
                notes.append(found)
            else:
                builds |= found
    return builds, notes


def _file(source: Source, device: TargetDevice) -> str:
    return f"{source.digest[:NAME]}{devices.BACKENDS[device.kind].binaries or '.bin'}"
