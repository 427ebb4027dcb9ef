"""Import of other tuners' files: recordings become unverified records in the store, T1 files become space files."""

import datetime
import itertools
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from tuner import devices
from tuner.errors import RequestError, SpaceError
from tuner.exchange import jsonfile
from tuner.exchange import recording as recordings
from tuner.exchange.interop import kernel_tuner_files, provenance, t1, t4
from tuner.exchange.interop.provenance import Provenance, Statements
from tuner.exchange.recording import Entry, Recording
from tuner.measure.timing.clock import spread
from tuner.quoting import shown
from tuner.space import operation
from tuner.space.config import Config
from tuner.space.instance import checked
from tuner.space.model import Space
from tuner.space.sources import rendering
from tuner.space.texts import config_text, size_text
from tuner.store.lookup import chip
from tuner.store.merge import possible
from tuner.store.record import RUNNERS_UP, Record
from tuner.store.store import Store
from tuner.version import VERSION

STRATEGY, UNKNOWN = "imported", "unknown"


@dataclass(frozen=True)
class ImportedRecord:
    """A record from a file.

    stored: false if the store has a better record.
    ignored: number of entries that could not be read.
    constants: the recording's parameters of a single value that the kernel does not have.
    """

    file: Path
    kernel: str
    record: Record
    stored: bool
    ignored: int = 0
    constants: Config = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """The record as data for --json."""
        record = self.record
        problem = {"file": str(self.file), "kernel": self.kernel, "device": record.device, "size": record.sizes}
        counts = {"configurations": record.configurations, "ignored": self.ignored, "constants": self.constants}
        best = {"config": record.config, "time_ms": record.time_ms, "verified": record.is_verified}
        return {**problem, **counts, "best": best, "stored": self.stored}

    def __str__(self) -> str:
        record, fate = self.record, "stored, unverified" if self.stored else "not stored: the store has a better record"
        problem = f"{self.kernel} at {size_text(record.sizes)} on {record.device}"
        ignored = f"; ignored, as incomplete: {self.ignored}" if self.ignored else ""
        if self.constants:
            ignored += f"; dropped, as the kernel has no such parameter: {shown(config_text(self.constants))}"
        return f"{self.file}: {problem}: {record.time_ms:.4g} ms, {config_text(record.config)} ({fate}{ignored})"


@dataclass(frozen=True)
class ImportedSpace:
    """A space file made from a T1 file, and the tasks that remain for the user."""

    file: Path
    space: Path
    todo: list[str]

    def to_json(self) -> dict[str, Any]:
        """The space file as data for --json."""
        return {"file": str(self.file), "space": str(self.space), "todo": self.todo}

    def __str__(self) -> str:
        return "\n".join([f"{self.file}: {self.space}; left to do:", *(f"  {task}" for task in self.todo)])


def import_all(files: Sequence[Path], statements: Statements) -> list[ImportedRecord | ImportedSpace]:
    """Import `files`. All are read before anything is written.

    Raises RequestError for a file that cannot be read, whose provenance is incomplete, or that contradicts
    `statements`.
    """
    spaces: list[tuple[Path, Mapping[str, Any]]] = []
    records: list[tuple[Path, Recording, Space, Record]] = []
    for file in files:
        content = _read(file)
        if isinstance(content, list):
            records += [(file, recording, *_record(file, recording, statements)) for recording in content]
        else:
            spaces.append((file, content))
    if statements.output is not None and len(spaces) != 1:
        raise RequestError(f"--output: names the space file of one T1 file; {len(spaces)} were given")
    results: list[ImportedRecord | ImportedSpace] = []
    for file, data in spaces:
        target = statements.output or Path(f"{file.name.partition('.')[0]}.yaml")
        results.append(ImportedSpace(file, target, t1.write(file, data, target)))
    for file, recording, space, record in records:
        stored = Store.of(space, statements.results).add(record, partial(possible, space))
        constants = {name: values[0] for name, values in recording.parameters.items() if name not in space.parameters}
        results.append(ImportedRecord(file, space.name, record, stored, recording.ignored, constants))
    return results


def _read(file: Path) -> Mapping[str, Any] | list[Recording]:
    """The data of a T1 file, or the recordings in any other file. Raises RequestError if it has neither."""
    try:
        data = json.loads(jsonfile.text(file))
    except (ValueError, RecursionError):
        data = None  # may still be a truncated cache
    if isinstance(data, dict) and t1.is_space(data):
        return data
    if isinstance(data, dict) and "data" in data and "tunable_parameters" in data:
        return kernel_tuner_files.read_results(file, data)
    is_t4 = isinstance(data, dict) and "cache" not in data and "results" in data
    del data  # halves the peak memory: `read` parses the file again
    recording = recordings.read(file)
    return [t4.with_metadata(file, recording) if is_t4 else recording]


def _record(file: Path, recording: Recording, statements: Statements) -> tuple[Space, Record]:
    """The kernel of a recording, and a record of its best valid configuration. Raises RequestError if no configuration
    with a time is valid."""
    where = shown(file)
    origin = provenance.of(where, recording, statements)
    space, backend = origin.space, devices.BACKENDS[origin.kind]
    architecture = _architecture(origin, recording, statements.results)
    limits = backend.widest(architecture)
    scope = space.operation.scope(origin.sizes, origin.options, backend.language, limits, origin.types)
    ranking = _ranking(recording, space)
    valid = list(itertools.islice((trial for trial in ranking if space.valid(trial[0], scope)), 1 + RUNNERS_UP))
    if not valid:
        try:
            checked(space, ranking[0][0], scope)
        except SpaceError as error:
            fastest = f"the fastest of {len(ranking)}: {shown(str(error)[:400])}"
            raise RequestError(f"{where}: no configuration with a time is valid; {fastest}") from None
    (config, best, time_ms), *others = valid
    return space, Record(
        device=origin.device,
        kind=origin.kind,
        architecture=architecture,
        sizes=origin.sizes,
        types=origin.types,
        options=origin.options,
        config=config,
        time_ms=time_ms,
        spread=spread(best.times),
        rounds=max(1, len(best.times)),
        gflops=operation.gflops(space.operation, scope, time_ms),
        gbytes=operation.gbytes(space.operation, scope, time_ms),
        library=None,
        library_ms=None,
        vs_library=None,
        error=None,
        bound=None,
        signature=rendering.signature(space),
        code=rendering.code(space),
        toolchain=UNKNOWN,
        configurations=len(recording.entries),
        evaluated=len(recording.entries),
        failed=dict(Counter(shown(e.failure[:100]) for e in recording.entries.values() if e.failure is not None)),
        strategy=STRATEGY,
        date=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        version=VERSION,
        next=[{"config": config, "time_ms": time_ms} for config, _, time_ms in others],
    )


def _ranking(recording: Recording, space: Space) -> list[tuple[Config, Entry, float]]:
    """The configurations that have a time, the fastest first, with their entries and times in ms. They have the space's
    parameters in its order; one that the recording lacks takes its only value."""
    trials = [
        ({name: config.get(name, values[0]) for name, values in space.parameters.items()}, entry, entry.time_ms)
        for config, entry in recording.configs()
        if entry.time_ms is not None
    ]
    return sorted(trials, key=lambda trial: trial[2])


def _architecture(origin: Provenance, recording: Recording, results: Path | None) -> str:
    """The architecture that the file names, else the one of the device's records in the store; empty if unknown."""
    architecture = recording.about.get("architecture")
    if isinstance(architecture, str) and architecture.isprintable() and 0 < len(architecture) <= provenance.LONGEST:
        return architecture
    name = chip(origin.device)
    records = Store.of(origin.space, results).records
    return next((r.architecture for r in records if r.kind == origin.kind and chip(r.device) == name), "")
