"""`tune import`: recordings of others as records of ours, which claim no more than their files say."""

from __future__ import annotations

import datetime
import itertools
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from tuner import devices, paths
from tuner.errors import RequestError, SpaceError
from tuner.exchange import jsonfile, kernel_tuner_files, provenance, recording, t1, t4
from tuner.exchange.provenance import Provenance, Statements
from tuner.exchange.recording import Entry, Recording
from tuner.measure.timing import spread
from tuner.space import operation, source
from tuner.space.model import Config, Scope, Space, config_text, size_text
from tuner.store.lookup import normalised
from tuner.store.merge import possible
from tuner.store.record import RUNNERS_UP, Record
from tuner.store.store import Store
from tuner.version import VERSION

STRATEGY, UNKNOWN = "imported", "unknown"


@dataclass(frozen=True)
class ImportedRecord:
    """A record that a file gave; `stored` says whether the store has it now, which may know a better one."""

    file: Path
    kernel: str
    record: Record
    stored: bool
    ignored: int = 0

    def to_json(self) -> dict[str, Any]:
        """For --json."""
        record = self.record
        best = {"config": record.config, "time_ms": record.time_ms, "verified": record.is_verified}
        about = {"file": str(self.file), "kernel": self.kernel, "device": record.device, "size": record.sizes}
        counts = {"configurations": record.configurations, "ignored": self.ignored}
        return {**about, **counts, "best": best, "stored": self.stored}

    def __str__(self) -> str:
        record, kept = self.record, "stored, unverified" if self.stored else "not stored: a better record is there"
        where = f"{self.kernel} at {size_text(record.sizes)} on {record.device}"
        ignored = f"; ignored, as torn or without all parameters: {self.ignored}" if self.ignored else ""
        return f"{self.file}: {where}: {record.time_ms:.4g} ms, {config_text(record.config)} ({kept}{ignored})"


@dataclass(frozen=True)
class ImportedSpace:
    """A space file that a T1 file gave, and what is left to do in it by hand."""

    file: Path
    space: Path
    todo: list[str]

    def to_json(self) -> dict[str, Any]:
        """For --json."""
        return {"file": str(self.file), "space": str(self.space), "todo": self.todo}

    def __str__(self) -> str:
        return "\n".join([f"{self.file}: {self.space}; left to do:", *(f"  {one}" for one in self.todo)])


def import_all(files: Sequence[Path], stated: Statements) -> list[ImportedRecord | ImportedSpace]:
    """Import each file; all are read before anything is written. Raises RequestError for one that cannot be read, or
    whose provenance neither it nor `stated` tells, or that contradicts `stated`."""
    spaces: list[tuple[Path, Mapping[str, Any]]] = []
    found: list[tuple[Path, Space, Record, int]] = []
    for file in files:
        read = _read(file)
        if isinstance(read, list):
            found += [(file, *_record(file, one, stated), one.ignored) for one in read]
        else:
            spaces.append((file, read))
    if stated.output is not None and len(spaces) != 1:
        raise RequestError(f"--output is for one T1 file; there are {len(spaces)}")
    done: list[ImportedRecord | ImportedSpace] = []
    for file, data in spaces:
        target = stated.output or Path(f"{file.name.partition('.')[0]}.yaml")
        done.append(ImportedSpace(file, target, t1.write(file, data, target)))
    for file, space, record, ignored in found:
        stored = Store(space.name, stated.results).add(record, partial(possible, space))
        done.append(ImportedRecord(file, space.name, record, stored, ignored))
    return done


def _read(file: Path) -> Mapping[str, Any] | list[Recording]:
    """The T1 data in a file, or its recordings. Raises RequestError for anything else."""
    try:
        data = json.loads(jsonfile.text(file))
    except (ValueError, RecursionError):
        data = None  # a cache that was cut short may still be read
    if isinstance(data, dict) and t1.is_space(data):
        return data
    if isinstance(data, dict) and "data" in data and "tunable_parameters" in data:
        return kernel_tuner_files.read_results(file, data)
    found = recording.read(file)
    is_t4 = isinstance(data, dict) and "cache" not in data and "results" in data
    return [t4.with_metadata(file, found) if is_t4 else found]


def _record(file: Path, found: Recording, stated: Statements) -> tuple[Space, Record]:
    """The kernel that a recording is of, and its best. Raises RequestError where it has none that is valid."""
    where = paths.shown(file)
    about = provenance.of(where, found, stated)
    space = about.space
    architecture = _architecture(about, found, stated.results)
    limits = devices.BACKENDS[about.kind].widest(architecture)
    scope = Scope(about.sizes, space.operation.options, devices.BACKENDS[about.kind].language, limits)
    timed = sorted(((c, e, e.time_ms) for c, e in _configs(found, space) if e.time_ms is not None), key=lambda e: e[2])
    valid = list(itertools.islice((one for one in timed if space.valid(one[0], scope)), 1 + RUNNERS_UP))
    if not valid:
        why = _why(timed[0][0], scope, space)
        raise RequestError(f"{where}: no valid configuration with a time; the fastest of {len(timed)}: {why}")
    (config, best, time_ms), *others = valid
    return space, Record(
        device=about.device,
        kind=about.kind,
        architecture=architecture,
        sizes=about.sizes,
        options=dict(space.operation.options),
        config=config,
        time_ms=time_ms,
        spread=spread(best.times),
        rounds=max(1, len(best.times)),
        gflops=operation.gflops(space.operation, scope, time_ms),
        library=None,
        library_ms=None,
        vs_library=None,
        error=None,
        bound=None,
        signature=source.signature(space),
        toolchain=UNKNOWN,
        configurations=len(found.entries),
        evaluated=len(found.entries),
        failed=dict(Counter(paths.shown(e.failure[:100]) for e in found.entries.values() if e.failure is not None)),
        strategy=STRATEGY,
        date=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        version=VERSION,
        next=[{"config": config, "time_ms": time_ms} for config, _, time_ms in others],
    )


def _why(config: Config, scope: Scope, space: Space) -> str:
    """What is wrong with a configuration that is not valid."""
    try:
        space.checked(config, scope)
    except SpaceError as error:
        return paths.shown(str(error)[:400])
    raise AssertionError


def _configs(found: Recording, space: Space) -> list[tuple[Config, Entry]]:
    """Each configuration in the space's order of parameters."""
    pairs = ((dict(zip(found.parameters, key, strict=True)), entry) for key, entry in found.entries.items())
    return [({name: config[name] for name in space.parameters}, entry) for config, entry in pairs]


def _architecture(about: Provenance, found: Recording, results: Path | None) -> str:
    """What the file says, else what the store knows of the device; empty where that is nothing."""
    said = found.about.get("architecture")
    if isinstance(said, str) and said.isprintable() and 0 < len(said) <= provenance.LONGEST:
        return said
    name = normalised(about.device)
    known = Store(about.space.name, results).records
    same = (r.architecture for r in known if r.kind == about.kind and normalised(r.device) == name)
    return next(same, "")
