"""`tune merge`: the records of several machines in one store. Of two with the same key, the better stays: see
`record.preference`."""

import json
import os
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from tuner import devices
from tuner.catalog import catalog
from tuner.devices.ceilings import Ceilings
from tuner.errors import RequestError, TunerError
from tuner.quoting import shown
from tuner.space.model import Space
from tuner.space.scope import Scope
from tuner.space.sources.rendering import Version
from tuner.space.texts import config_text
from tuner.store import ceilings_file, time_tables
from tuner.store.ceilings_file import KeptCeilings
from tuner.store.record import Record
from tuner.store.record_file import read
from tuner.store.store import Store
from tuner.store.time_tables import TimeTable


@dataclass(frozen=True)
class MergeSummary:
    """How many files and records were read, how many records were written for each kernel, and ceilings of devices; and
    messages about what was not used."""

    files: int
    records: int
    written: dict[str, int]
    problems: list[str]
    unverified: int = 0  # of the records written
    ceilings: int = 0  # written

    def __str__(self) -> str:
        total = sum(self.written.values())
        doubt = f"; {self.unverified} of them unverified" if self.unverified else ""
        counts = f"{_count(self.records, 'record')} in {_count(self.files, 'file')}"
        ceilings = f"; ceilings of {_count(self.ceilings, 'device')} are new" if self.ceilings else ""
        return f"{counts}; {total} {'is' if total == 1 else 'are'} new or better{doubt}{ceilings}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def merge(sources: Iterable[Path], results: Path | None = None) -> MergeSummary:
    """Put the records of `sources`, files or folders, into the store, with the tables of times beside them, and the
    ceilings of their devices.

    A record that is valid on no device is left out, and loses its place in the store to a valid one. Everything is read
    before anything is written, and no source is changed. Raises RequestError for a source that is missing, cannot be
    read, is not ours or is of a newer version, and if the store cannot be written.
    """
    records: dict[str, list[Record]] = {}
    problems: list[str] = []
    tables: dict[str, list[TimeTable]] = {}
    tests: dict[str, Callable[[Record], bool]] = {}
    count = 0
    sources = list(sources)
    files = {file.resolve(): (file, is_named) for path in sources for file, is_named in _files(path)}
    for file, is_named in files.values():
        file_records, file_problems = read(file)
        problems += file_problems
        if not file_records:
            continue
        kernel = _kernel(file)
        if not is_named and file.stem != kernel.rpartition("/")[2]:
            problems.append(
                f"{shown(file)}:1: its header names {kernel}, whose results have another name; skipped; name the "
                "file itself to merge it"
            )
            continue
        count += len(file_records)
        if is_named:
            _take_tables(time_tables.beside(file), kernel, tables, problems)
        test = tests.setdefault(kernel, usable(kernel))
        useless = [record for record in file_records if not test(record)]
        if useless:
            example = f"such as {config_text(useless[0].config)[:200]}"
            problems.append(f"{shown(file)}: {len(useless)} left out that {kernel} allows nowhere, {example}")
        records.setdefault(kernel, []).extend(record for record in file_records if test(record))
    for folder in filter(Path.is_dir, sources):
        for file in _below(folder, time_tables.SUFFIX):
            _take_tables(file, None, tables, problems)
    ceilings = [one for path in sources for one in _ceilings(path, problems)]
    merged = {kernel: Store(kernel, results).merge(group, tests[kernel]) for kernel, group in sorted(records.items())}
    for kernel, group in tables.items():
        time_tables.write(kernel, group, results)
    unverified = sum(record.doubt == "unverified" for group in merged.values() for record in group)
    written = {kernel: len(group) for kernel, group in merged.items()}
    return MergeSummary(len(files), count, written, problems, unverified, KeptCeilings(results).merge(ceilings))


def _take_tables(file: Path, kernel: str | None, tables: dict[str, list[TimeTable]], problems: list[str]) -> None:
    """Add the tables of a file to those of a kernel, by default the one that the file names, with messages about what
    cannot be read."""
    found, unread = time_tables.read_file(file)
    problems += unread
    if found:
        tables.setdefault(kernel or _safe(time_tables.kernel_of(file), file), []).extend(found)


def _ceilings(folder: Path, problems: list[str]) -> list[Ceilings]:
    """The ceilings of a folder, with messages about what holds none."""
    found, unread = ceilings_file.read(folder / ceilings_file.FILE) if folder.is_dir() else ([], [])
    problems += unread
    return found


def usable(kernel: str) -> Callable[[Record], bool]:
    """A test whether a record may serve on some device. It accepts every record of a kernel whose file is not here, or
    is faulty, and of an earlier version of one: nothing is known of these."""
    try:
        space = catalog.load(kernel) if catalog.known(kernel) else None
    except TunerError:
        space = None
    if space is None:
        return lambda record: True
    version = Version.of(space)
    return lambda record: not record.is_of(version) or possible(space, record)


def possible(space: Space, record: Record) -> bool:
    """Whether the configuration of a record may be valid on some device."""
    backend = devices.BACKENDS.get(record.kind)
    if backend is None or backend.language not in space.languages:
        return False
    op, types = space.operation, record.types
    if record.sizes.keys() != op.sizes.keys() or types.keys() != op.types.keys():
        return False
    if not all(dtype in op.types[name] for name, dtype in types.items()):
        return False
    options = {**op.options, **record.options}
    scope = Scope(record.sizes, options, backend.language, backend.widest(record.architecture), types)
    return space.valid(record.config, scope)


def _files(path: Path) -> list[tuple[Path, bool]]:
    """The files to read, each with whether it was named itself."""
    try:
        if path.is_dir():
            files = sorted(_below(path, ".jsonl"))
            if not files and not _below(path, time_tables.SUFFIX):
                raise RequestError(f"{shown(path)}: no results, *.jsonl, in it or below")
            return [(file, False) for file in files]
        path.stat()
    except FileNotFoundError:
        raise RequestError(
            f"{shown(path)}: there is no such file or folder; name a folder of results, or a file *.jsonl of one"
        ) from None
    except OSError as error:
        where = shown(error.filename or path)
        raise RequestError(f"{where}: the results cannot be read: {error.strerror}") from None
    return [(path, True)]


def _below(folder: Path, suffix: str) -> list[Path]:
    """The files in a folder whose names end so. Raises OSError for a folder that cannot be read, which `Path.rglob`
    would skip."""

    def stop(error: OSError) -> None:
        raise error

    tree = os.walk(folder, onerror=stop)
    return [Path(root, name) for root, _, names in tree for name in names if name.endswith(suffix)]


def _kernel(file: Path) -> str:
    """The kernel that the header of a results file names. It must be safe as a path, since it becomes one."""
    with file.open(encoding="utf-8", errors="replace") as lines:
        return _safe(json.loads(lines.readline()).get("kernel"), file)


def _safe(name: object, file: Path) -> str:
    """The name of a kernel, of which a path may be made."""
    if not isinstance(name, str) or not re.fullmatch(r"\w[\w.+-]*(/\w[\w.+-]*)*", name) or len(name) > 200:
        raise RequestError(f"{shown(file)}:1: its header names no kernel: {str(name)[:60]!r}")
    return name
