"""`tune import`: recordings of others as records of ours, which claim no more than their files say."""

from __future__ import annotations

import datetime
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tuner import __version__, catalog, operation, paths, recording, source
from tuner.errors import RequestError
from tuner.exchange import jsonfile, kernel_tuner_files, t1
from tuner.finals import spread
from tuner.lookup import normalised
from tuner.recording import Entry, Recording
from tuner.space import Config, Limits, Scope, Space, config_text, size_text
from tuner.store import Record, Store

RUNNERS_UP = 8
STRATEGY, UNKNOWN = "imported", "unknown"


@dataclass(frozen=True)
class Hints:
    """What a file may not say: which kernel it is of, at which size, on which device (its name) of which kind."""

    kernel: str | None = None
    size: str | None = None
    device: str | None = None
    kind: str | None = None
    output: Path | None = None  # where a space goes
    results: Path | None = None


@dataclass(frozen=True)
class ImportedRecord:
    """A record that a file gave; `stored` says whether the store has it now, which may know a better one."""

    file: Path
    kernel: str
    record: Record
    stored: bool

    def to_json(self) -> dict[str, Any]:
        """For --json."""
        record = self.record
        best = {"config": record.config, "time_ms": record.time_ms, "verified": record.is_verified}
        about = {"file": str(self.file), "kernel": self.kernel, "device": record.device, "size": record.sizes}
        return {**about, "configurations": record.configurations, "best": best, "stored": self.stored}

    def __str__(self) -> str:
        record, kept = self.record, "stored, unverified" if self.stored else "not stored: a better record is there"
        where = f"{self.kernel} at {size_text(record.sizes)} on {record.device}"
        return f"{self.file}: {where}: {record.time_ms:.4g} ms, {config_text(record.config)} ({kept})"


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


def import_all(files: Sequence[Path], hints: Hints) -> list[ImportedRecord | ImportedSpace]:
    """Import each file; all are read before anything is written. Raises RequestError for one that cannot be read, or
    does not say what it is of, nor do `hints`."""
    spaces: list[tuple[Path, Mapping[str, Any]]] = []
    found: list[tuple[Path, str, Record]] = []
    for file in files:
        read = _read(file)
        if isinstance(read, list):
            made = ((_space(file, one, hints), one) for one in read)
            found += [(file, space.name, _record(file, one, space, hints)) for space, one in made]
        else:
            spaces.append((file, read))
    if hints.output is not None and len(spaces) != 1:
        raise RequestError(f"--output is for one T1 file; there are {len(spaces)}")
    done: list[ImportedRecord | ImportedSpace] = []
    for file, data in spaces:
        target = hints.output or Path(f"{file.name.partition('.')[0]}.yaml")
        done.append(ImportedSpace(file, target, t1.write(file, data, target)))
    for file, kernel, record in found:
        done.append(ImportedRecord(file, kernel, record, Store(kernel, hints.results).add(record)))
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
    return [recording.read(file)]


def _space(file: Path, found: Recording, hints: Hints) -> Space:
    """The kernel that `hints` name, or the one whose name or entry point, and whose parameters, the file has."""
    where = paths.shown(file)
    named = hints.kernel or next((k for k in (found.about.get("kernel"), found.kernel) if k in catalog.names()), None)
    if named is not None:
        space = catalog.load(named)
    else:
        ours = [catalog.load(name) for name in catalog.names()] if found.kernel else []
        same = [s for s in ours if s.kernel == found.kernel and s.parameters.keys() == found.parameters.keys()]
        if len(same) != 1:
            name = paths.shown(found.kernel[:60]) or "no name"
            raise RequestError(f"{where}: of a kernel with {name!r}, which is none of ours; name one by --kernel")
        space = same[0]
    if space.parameters.keys() != found.parameters.keys():
        theirs, own = (", ".join(map(str, names)) for names in (found.parameters, space.parameters))
        raise RequestError(
            f"{where}: its parameters are {paths.shown(theirs[:200])}; those of {space.name} are {own}; name another "
            "kernel by --kernel"
        )
    return space


def _record(file: Path, found: Recording, space: Space, hints: Hints) -> Record:
    where = paths.shown(file)
    device = hints.device or found.device
    if not device or not device.isprintable() or len(device) > 200:
        raise RequestError(f"{where}: does not name the device it was measured on; write --device NAME")
    kind = hints.kind or ("host" if space.languages[0] == "c" else space.languages[0])
    sizes = _sizes(where, found, space, hints)
    valid = [(config, entry) for config, entry in _configs(found, space) if space.declares(config)]
    timed = sorted(((c, e, e.time_ms) for c, e in valid if e.time_ms is not None), key=lambda one: one[2])
    if not timed:
        raise RequestError(
            f"{where}: none of its {len(found.entries)} configurations succeeded with values that {space.name} declares"
        )
    (config, best, time_ms), *others = timed
    scope = Scope(sizes, space.operation.options, space.languages[0], Limits())
    return Record(
        device=device,
        kind=kind,
        architecture=_architecture(space, kind, device, hints.results),
        sizes=sizes,
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
        version=__version__,
        next=[{"config": config, "time_ms": time_ms} for config, _, time_ms in others[:RUNNERS_UP]],
    )


def _configs(found: Recording, space: Space) -> list[tuple[Config, Entry]]:
    """Each configuration in the space's order of parameters."""
    pairs = ((dict(zip(found.parameters, key, strict=True)), entry) for key, entry in found.entries.items())
    return [({name: config[name] for name in space.parameters}, entry) for config, entry in pairs]


def _sizes(where: str, found: Recording, space: Space, hints: Hints) -> dict[str, int]:
    """Sizes by name: as told, as the file says, or those that Kernel Tuner's problem_size, the extent, gives."""
    op = space.operation
    if hints.size is not None:
        return operation.parse_size(hints.size, op)
    given = found.about.get("sizes", found.size)
    if isinstance(given, int | list) and not isinstance(given, bool):
        values = given if isinstance(given, list) else [given]
        given = {e.text: n for e, n in zip(op.extent, values, strict=False) if e.text in op.sizes}
    named = {str(name): value for name, value in given.items()} if isinstance(given, dict) else {}
    missing = [name for name, default in op.sizes.items() if default is None and name not in named]
    if missing:
        known = f"its size is {paths.shown(str(found.size)[:60])}, which leaves" if found.size else "does not say"
        raise RequestError(f"{where}: {known} {', '.join(missing)} of {space.name}; write --size")
    try:
        return operation.parse_size(named, op)
    except RequestError as error:
        raise RequestError(f"{where}: {error}") from None


def _architecture(space: Space, kind: str, device: str, results: Path | None) -> str:
    """What the store knows of the device; empty where that is nothing."""
    name = normalised(device)
    known = [
        r.architecture for r in Store(space.name, results).records if r.kind == kind and normalised(r.device) == name
    ]
    return next(iter(known), "")
