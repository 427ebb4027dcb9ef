"""Export of a folder from which `tuner.dispatch` serves a family at any size, without a compiler.

The folder holds the records and time tables of one device, from which a launch chooses configurations, and binaries:
one for each distinct code that a configuration has at the measured sizes.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from tuner import devices, paths
from tuner.devices.builds.build import Build
from tuner.devices.builds.bundles import binary_json
from tuner.devices.builds.compiler import Compiler
from tuner.devices.built import build
from tuner.devices.conditions import Conditions
from tuner.errors import RequestError, TrialError
from tuner.exchange.exports.request import Export, ExportRequest
from tuner.exchange.exports.target import TargetDevice, stored_devices
from tuner.families.bundles import DISPATCH, DISPATCH_FILE, RECORDS
from tuner.families.code import Code, SizedCode
from tuner.families.family import check_no_images
from tuner.families.known import Knowledge, Known
from tuner.prediction.grids import Sizes, scope_at
from tuner.space.instance import Instance
from tuner.space.model import Space
from tuner.space.scope import Scope
from tuner.space.sources import rendering as sources
from tuner.space.sources.source import Source
from tuner.space.texts import config_text
from tuner.store import time_tables
from tuner.store.lookup import Query
from tuner.store.record import Record
from tuner.store.store import Store
from tuner.store.time_tables import TimeTable
from tuner.version import VERSION

NAME = 20  # characters of a source's digest in a file name
CLOSE = 1.1  # a configuration is exported if, at some size, it takes at most this times the family's best
THREADS = 16  # concurrent compilations


def export(request: ExportRequest) -> Export:
    """Write the folder. Raises RequestError if there are no records or time tables, several devices have some, or
    nothing compiles."""
    check_no_images(request.name, request.spaces[0].operation)
    device, compiler = _target(request)
    language, problem, knowledge = devices.BACKENDS[device.kind].language, request.problem, Knowledge(library=False)
    records: dict[str, list[Record]] = {}
    tables: dict[str, list[TimeTable]] = {}
    op = request.spaces[0].operation
    sizes = dict.fromkeys(op.sizes, 1)  # placeholders: the instances set the sizes
    scope = op.scope(sizes, problem.options, language, device.limits, problem.types)
    for space in request.spaces:
        query = device.query(space, scope)
        store = Store.of(space, problem.results)
        records[space.name] = [record for record in store.records if _is_exported(record, query)]
        knowledge.add_records(records[space.name], query)
        tables[space.name] = [table for table in time_tables.read(store.files)[0] if table.serves(query)]
        knowledge.add_tables(tables[space.name], query)
    if not any(records.values()) and not any(table.times for found in tables.values() for table in found):
        raise RequestError(
            f"{request.name}: no times on {device.name}; run `tune cover {request.name} --sizes ...` there first"
        )
    instances = list(_instances(request.spaces, knowledge.all(), scope))
    builds, notes = _built(compiler, instances)
    if not builds:
        raise RequestError(f"{request.name}: nothing compiles for {device.architecture}: {notes[0]}")
    exported = {instance.space.name for instance in instances}
    spaces = [space for space in request.spaces if space.name in exported]
    folder = request.path("-dispatch")
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
    """The device whose records and time tables are exported, and its compiler.

    If `--device` is an ID such as cuda:0, this is that device of this machine. Otherwise, it is the only device with
    records in the store, or, if no device has records, the only one with time tables; its name must match `--device` if
    that is given. Raises RequestError if there is no such device, or several.
    """
    name = request.device
    if name is not None and devices.is_name(name):
        return _opened(name)
    known, error = _stored(request, tables=False)
    if not known:
        known, error = _stored(request, tables=True)
    if not known:
        raise error
    if len(known) > 1:
        names = ", ".join(f"{device.name} ({device.kind})" for device in known.values())
        raise RequestError(f"{request.name}: the store has records of {names}; choose one with --device")
    (device,) = known.values()
    for number in range(devices.count(device.kind)):  # an open device knows its exact limits
        local = _opened(f"{device.kind}:{number}")
        if local[0].name == device.name:
            return local
    if devices.BACKENDS[device.kind].binaries is None:
        raise RequestError(
            f"{request.name}: {device.name} ({device.kind}) is not on this machine, and {device.kind} builds run only "
            "on the device that compiled them; export on its machine"
        )
    return device, devices.compiler_for(device.kind, device.architecture)


def _stored(request: ExportRequest, tables: bool) -> tuple[dict[tuple[str, str], TargetDevice], RequestError]:
    """The requested devices with records in the store (time tables if `tables`), and the error if there is none."""
    known: dict[tuple[str, str], TargetDevice] = {}
    error = RequestError(f"{request.name}: the store has no records of it; tune it first")
    for space in request.spaces:
        try:
            matches = stored_devices(replace(request.problem, space=space), request.device, tables)
            known |= {(device.kind, device.name): device for device in matches}
        except RequestError as not_found:
            error = not_found
    return known, error


def _opened(name: str) -> tuple[TargetDevice, Compiler]:
    device = devices.shared(name)
    about = device.name, device.kind, device.architecture, device.limits, device.conditions
    return TargetDevice(*about), device.compiler


def _is_exported(record: Record, query: Query) -> bool:
    """Whether a record is of the kernel's current version, the device, its conditions and the types, and its times are
    comparable."""
    is_match = (record.kind, record.device, record.types) == (query.kind, query.device, query.scope.types)
    is_match &= Conditions(record.conditions) == query.conditions
    return is_match and record.is_plain and record.is_verified and record.is_of(query.version)


def _instances(spaces: Sequence[Space], measured: Sequence[Known], scope: Scope) -> Iterator[Instance]:
    """The instances to compile: those of each configuration that is CLOSE to the best at some size.

    Such a configuration is compiled for every size that has a record, and for every size at which it was measured. If
    its code contains a size, it is compiled only for the sizes at which it is the best of a record. Equal code is
    compiled once.
    """
    recorded = {sizes for each in measured for sizes in each.records}
    best: dict[Sizes, float] = {}
    for sizes, time_ms in (item for each in measured for item in each.times.items()):
        best[sizes] = min(time_ms, best.get(sizes, math.inf))
    codes, seen = {space.name: SizedCode(space) for space in spaces}, set[tuple[str, ...]]()
    for space, each in ((each.space, each) for each in measured):
        if space is None or all(time_ms > CLOSE * best[sizes] for sizes, time_ms in each.times.items()):
            continue
        code, compiled = codes[space.name], set[Code]()
        won = [sizes for sizes, (_, rank) in each.records.items() if rank == 0]
        is_for_one = code.is_for_one_size(each.config, scope_at(scope, next(iter(each.times))))
        for sizes in won if is_for_one else {*recorded, *each.times}:
            sized = scope_at(scope, sizes)
            own = code.values_at(each.config, sized)
            if own in compiled or not space.valid(each.config, sized):
                continue
            compiled.add(own)
            instance = Instance(space, each.config, sized)
            digests = tuple(step.source.digest for step in sources.render(instance))
            if digests not in seen:
                seen.add(digests)
                yield instance


def _built(compiler: Compiler, instances: Sequence[Instance]) -> tuple[dict[Source, Build], list[str]]:
    """The builds of the instances that compile, and a note about each that does not."""

    def built(instance: Instance) -> Mapping[Source, Build] | str:
        try:
            return build(compiler, instance).builds
        except TrialError as error:
            reason, config = str(error).partition("\n")[0], config_text(instance.config)
            return f"{instance.space.name}: left out: {reason}: {config}"

    builds: dict[Source, Build] = {}
    notes: list[str] = []
    with ThreadPoolExecutor(THREADS) as pool:
        for result in pool.map(built, instances):
            if isinstance(result, str):
                notes.append(result)
            else:
                builds |= result
    return builds, notes


def _file(source: Source, device: TargetDevice) -> str:
    return f"{source.digest[:NAME]}{devices.BACKENDS[device.kind].binaries or '.bin'}"
