"""A folder from which `tuner.dispatch` serves a family at any size without a compiler.

It holds the records of a device, by which configurations are chosen, and their binaries for every kind of size that was
measured.
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
from tuner.exchange.formats import Export, ExportRequest
from tuner.exchange.target import TargetDevice, stored_devices
from tuner.families.bundles import DISPATCH, DISPATCH_FILE, RECORDS
from tuner.families.code import SizedCode
from tuner.space import source as sources
from tuner.space.model import Config, Space
from tuner.space.scope import Scope
from tuner.space.source import Source, Version
from tuner.space.texts import config_text, size_text
from tuner.store import time_tables
from tuner.store.record import Record
from tuner.store.store import Store
from tuner.version import VERSION

NAME = 20  # characters of a digest that name a file
CLOSE = 1.1  # times the best of the family at some size: what is never as near is left out
THREADS = 16  # that compile
Known = Mapping[str, Sequence[Record]]  # the records that are exported, by kernel


def export(request: ExportRequest) -> Export:
    """Write the folder. Raises RequestError where there is no record, where several devices have some, and where
    nothing compiles."""
    device, compiler = _target(request)
    known = {space.name: _records(space, device, request) for space in request.spaces}
    if not any(known.values()):
        raise RequestError(
            f"{request.name}: no record of {device.name}; run `tune cover {request.name} --sizes ...` there first"
        )
    jobs = list(_jobs(request, device, known))
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
        store.put(known[space.name])
        files.append(store.paths[0])
        tables, _ = time_tables.read(space.name, request.problem.results)
        if here := [each for each in tables if (each.kind, each.device) == (device.kind, device.name)]:
            time_tables.write(space.name, here[::-1], folder / RECORDS)
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
    """The device whose records are exported, and what compiles for it: one of this machine by its name, or one in the
    store. Raises RequestError."""
    name = request.device
    if name is not None and devices.is_name(name):
        return _opened(name)
    found: dict[tuple[str, str], TargetDevice] = {}
    refusal = RequestError(f"{request.name}: the store has no record of it; tune it first")
    for space in request.spaces:
        try:
            found |= {(d.kind, d.name): d for d in stored_devices(replace(request.problem, space=space), name)}
        except RequestError as error:
            refusal = error
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


def _opened(name: str) -> tuple[TargetDevice, Compiler]:
    device = devices.shared(name)
    return TargetDevice(device.name, device.kind, device.architecture, device.limits), device.compiler


def _records(space: Space, device: TargetDevice, request: ExportRequest) -> list[Record]:
    """The records of a kernel, as it is now, whose times may be compared."""
    version, problem = Version.of(space), request.problem
    asked = device.kind, device.name, dict(problem.types)
    return [
        record
        for record in Store.of(space, problem.results).records
        if (record.kind, record.device, record.types) == asked
        and record.is_plain and record.is_verified and record.is_of(version)
    ]  # fmt: skip


def _jobs(request: ExportRequest, device: TargetDevice, known: Known) -> Iterator[tuple[Space, Config, Scope]]:
    """What is to be compiled: each configuration that is near the best somewhere, as it is at every size that was
    measured; what is for one size alone, at those where it was the best. Equal code comes once."""
    sizes = {size_text(record.sizes): record.sizes for records in known.values() for record in records}
    best: dict[str, float] = {}
    for record in (record for records in known.values() for record in records):
        best[size_text(record.sizes)] = min(record.time_ms, best.get(size_text(record.sizes), math.inf))
    language, problem, seen = devices.BACKENDS[device.kind].language, request.problem, set[tuple[str, ...]]()
    for space in request.spaces:
        code = SizedCode(space)
        for config, record in _near(space, known[space.name], best):
            at = Scope(record.sizes, problem.options, language, device.limits, problem.types)
            for_one = code.is_for_one_size(config, at)
            for size in [record.sizes] if for_one else sizes.values():
                scope = replace(at, sizes=size)
                if (for_one and config != record.config) or not space.valid(config, scope):
                    continue
                digests = tuple(step.source.digest for step in sources.render(space, config, scope))
                if digests not in seen:
                    seen.add(digests)
                    yield space, config, scope


def _near(space: Space, records: Sequence[Record], best: Mapping[str, float]) -> Iterator[tuple[Config, Record]]:
    """The configurations of records that are near the best there, each with its record."""
    for record in records:
        for config, time_ms in record.timed:
            if time_ms <= CLOSE * best[size_text(record.sizes)] and space.declares(config):
                yield config, record


def _built(compiler: Compiler, jobs: Sequence[tuple[Space, Config, Scope]]) -> tuple[dict[Source, Build], list[str]]:
    """The builds of all that compiles, and notes about what does not."""

    def built(job: tuple[Space, Config, Scope]) -> Mapping[Source, Build] | str:
        space, config, scope = job
        try:
            return build(compiler, space, config, scope).builds
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
