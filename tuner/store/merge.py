"""`tune merge`: merge the records, time tables and ceilings of several machines into one store.

Of two records with the same key, the better one is stored (`record.preference`).
"""

import json
import os
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from tuner import devices
from tuner.catalog import catalog
from tuner.classes import dataclass
from tuner.devices.ceilings import Ceilings
from tuner.errors import RequestError, TunerError
from tuner.quoting import shown
from tuner.space.model import Space
from tuner.space.scope import Scope
from tuner.space.sources.rendering import Version
from tuner.space.texts import config_text
from tuner.store import ceilings_file, time_tables
from tuner.store.ceilings_file import StoredCeilings
from tuner.store.record import Record
from tuner.store.record_file import read
from tuner.store.store import Store
from tuner.store.time_tables import TimeTable


@dataclass(frozen=True)
class MergeSummary:
    """What `merge` did.

    `files` and `records` count what was read, `written` the records written for each kernel. `problems` are messages
    about what was skipped.
    """

    files: int
    records: int
    written: dict[str, int]
    problems: list[str]
    unverified: int = 0  # records written that are unverified
    ceilings: int = 0  # devices whose ceilings were written

    def __str__(self) -> str:
        total = sum(self.written.values())
        doubt = f"; {self.unverified} of them unverified" if self.unverified else ""
        counts = f"{_count(self.records, 'record')} in {_count(self.files, 'file')}"
        ceilings = f"; ceilings of {_count(self.ceilings, 'device')} are new" if self.ceilings else ""
        return f"{counts}; {total} {'is' if total == 1 else 'are'} new or better{doubt}{ceilings}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def merge(sources: Iterable[Path], results: Path | None = None) -> MergeSummary:
    """Merge the records of `sources`, which are files or folders, their time tables and ceilings into the store.

    `results` is the store's folder; by default, the user's own. A record that is valid on no device is skipped, and one
    in the store is replaced by a valid one. All sources are read before anything is written, and no source is changed.

    Raises RequestError if a source is missing, cannot be read, is no file of records or is of a newer version, and if
    the store cannot be written.
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
                f"{shown(file)}:1: its header names {kernel}, whose file has another name; skipped; name the file "
                "itself to merge it"
            )
            continue
        count += len(file_records)
        if is_named:
            for each in time_tables.files_beside(file):
                _take_tables(each, kernel, tables, problems)
        test = tests.setdefault(kernel, usable(kernel))
        invalid = [record for record in file_records if not test(record)]
        if invalid:
            example = f"such as {config_text(invalid[0].config)[:200]}"
            problems.append(f"{shown(file)}: {len(invalid)} skipped that {kernel} allows on no device, {example}")
        records.setdefault(kernel, []).extend(record for record in file_records if test(record))
    for folder in filter(Path.is_dir, sources):
        for suffix in time_tables.SUFFIXES:
            for file in _below(folder, suffix):
                _take_tables(file, None, tables, problems)
    ceilings = [one for path in sources for one in _ceilings(path, problems)]
    merged = {kernel: Store(kernel, results).merge(group, tests[kernel]) for kernel, group in sorted(records.items())}
    for kernel, group in tables.items():
        time_tables.write(kernel, group, results)
    unverified = sum(record.doubt == "unverified" for group in merged.values() for record in group)
    written = {kernel: len(group) for kernel, group in merged.items()}
    return MergeSummary(len(files), count, written, problems, unverified, StoredCeilings(results).merge(ceilings))


def _take_tables(file: Path, kernel: str | None, tables: dict[str, list[TimeTable]], problems: list[str]) -> None:
    """Add the tables of a file to `tables`, and messages about unreadable ones to `problems`.

    `kernel` is by default the one that the file names.
    """
    read_tables, unread = time_tables.read_file(file)
    problems += unread
    if read_tables:
        tables.setdefault(kernel or _safe(time_tables.kernel_of(file), file), []).extend(read_tables)


def _ceilings(folder: Path, problems: list[str]) -> list[Ceilings]:
    """The ceilings of a folder. Adds messages about invalid ones to `problems`."""
    ceilings, unread = ceilings_file.read(folder / ceilings_file.FILE) if folder.is_dir() else ([], [])
    problems += unread
    return ceilings


def usable(kernel: str) -> Callable[[Record], bool]:
    """A test of whether a record of this kernel may be valid on some device.

    It accepts every record if the kernel's space file is missing or faulty, and every record of an earlier version of
    the kernel, because these cannot be checked.
    """
    try:
        space = catalog.load(kernel) if catalog.known(kernel) else None
    except TunerError:
        space = None
    if space is None:
        return lambda record: True
    version = Version.of(space)
    return lambda record: not record.is_of(version) or possible(space, record)


def possible(space: Space, record: Record) -> bool:
    """Whether the configuration is valid on the device with the largest limits of the record's architecture."""
    scope = widest(space, record.kind, record.architecture, record.sizes, record.options, record.types)
    return scope is not None and space.valid(record.config, scope)


def widest(
    space: Space,
    kind: str,
    architecture: str,
    sizes: Mapping[str, int],
    options: Mapping[str, float],
    types: Mapping[str, str],
) -> Scope | None:
    """A problem on the device with the largest limits of this architecture; None if the kernel has no such problem."""
    op, backend = space.operation, devices.BACKENDS.get(kind)
    if backend is None or backend.language not in space.languages:
        return None
    if sizes.keys() != op.sizes.keys() or types.keys() != op.types.keys():
        return None
    if not all(dtype in op.types[name] for name, dtype in types.items()):
        return None
    return op.scope(sizes, {**op.options, **options}, backend.language, backend.widest(architecture), types)


def _files(path: Path) -> list[tuple[Path, bool]]:
    """The files to read, each with whether `path` names it directly."""
    try:
        if path.is_dir():
            files = sorted(_below(path, ".jsonl"))
            if not files and not any(_below(path, suffix) for suffix in time_tables.SUFFIXES):
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
    """The files below a folder whose names end with `suffix`.

    Raises OSError if a folder cannot be read; `Path.rglob` would skip it.
    """

    def stop(error: OSError) -> None:
        raise error

    tree = os.walk(folder, onerror=stop)
    return [Path(root, name) for root, _, names in tree for name in names if name.endswith(suffix)]


def _kernel(file: Path) -> str:
    """The kernel that the header of a file of records names, if it is safe as a path."""
    with file.open(encoding="utf-8", errors="replace") as lines:
        return _safe(json.loads(lines.readline()).get("kernel"), file)


def _safe(name: object, file: Path) -> str:
    """The name, if it is a kernel's and safe as a path. Raises RequestError if not."""
    if not isinstance(name, str) or not re.fullmatch(r"\w[\w.+-]*(/\w[\w.+-]*)*", name) or len(name) > 200:
        raise RequestError(f"{shown(file)}:1: its header names no kernel: {str(name)[:60]!r}")
    return name
