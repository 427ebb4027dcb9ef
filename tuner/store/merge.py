"""`tune merge`: the records of several machines in one store, the better one of each kind."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from tuner import devices, paths
from tuner.errors import RequestError
from tuner.space import catalog, source
from tuner.space.model import Scope, Space, config_text
from tuner.store.record import Record
from tuner.store.store import Store, read


@dataclass(frozen=True)
class Merged:
    """Files and records that were read, how many records of each kernel were written, and what could not be read or
    used."""

    files: int
    records: int
    written: dict[str, int]
    problems: list[str]

    def __str__(self) -> str:
        total = sum(self.written.values())
        records, files = (
            f"{n} {what}{'' if n == 1 else 's'}" for n, what in ((self.records, "record"), (self.files, "file"))
        )
        return f"{records} in {files}; {total} {'is' if total == 1 else 'are'} new or better"


def merge(given: Iterable[Path], results: Path | None = None) -> Merged:
    """Put the records of these files, and of all results below these folders, into the store; none that is valid
    nowhere, and a valid one in the place of such a one.

    Everything is read before anything is written, and no source is changed. Raises RequestError for what is not there,
    cannot be read, is not ours or is of a newer version, and where the store cannot be written.
    """
    records: dict[str, list[Record]] = {}
    problems: list[str] = []
    tests: dict[str, Callable[[Record], bool]] = {}
    count = 0
    files: dict[Path, tuple[Path, bool]] = {}
    for path in given:
        for file, is_named in _files(path):
            files[file.resolve()] = file, is_named
    for file, is_named in files.values():
        found, unreadable = read(file)
        problems += unreadable
        if not found:
            continue
        kernel = _kernel(file)
        if not is_named and file.stem != kernel.rpartition("/")[2]:
            told = (
                f"its header names {kernel}, whose results have another name; skipped; name the file itself to merge it"
            )
            problems.append(f"{paths.shown(file)}:1: {told}")
            continue
        count += len(found)
        test = tests.setdefault(kernel, usable(kernel))
        useless = [record for record in found if not test(record)]
        if useless:
            example = f"such as {config_text(useless[0].config)[:200]}"
            problems.append(f"{paths.shown(file)}: {len(useless)} left out that {kernel} allows nowhere, {example}")
        records.setdefault(kernel, []).extend(record for record in found if test(record))
    written = {
        kernel: len(Store(kernel, results).merge(found, tests[kernel])) for kernel, found in sorted(records.items())
    }
    return Merged(len(files), count, written, problems)


def usable(kernel: str) -> Callable[[Record], bool]:
    """Whether a record may be of use on some device, as far as that is known: of a kernel that does not ship, or of an
    earlier version of one, all may."""
    if kernel not in catalog.names():
        return lambda record: True
    space = catalog.load(kernel)
    signature = source.signature(space)
    return lambda record: record.signature != signature or possible(space, record)


def possible(space: Space, record: Record) -> bool:
    """Whether the configuration of a record may be valid on some device."""
    backend = devices.BACKENDS.get(record.kind)
    if backend is None or backend.language not in space.languages:
        return False
    if record.sizes.keys() != space.operation.sizes.keys():
        return False
    options = {**space.operation.options, **record.options}
    scope = Scope(record.sizes, options, backend.language, backend.widest(record.architecture))
    return space.valid(record.config, scope)


def _files(path: Path) -> list[tuple[Path, bool]]:
    """The files to read, resolved, and whether it is they that were named."""
    try:
        if path.is_dir():
            found = sorted(_below(path))
            if not found:
                raise RequestError(f"{paths.shown(path)}: no results, *.jsonl, in it or below")
            return [(file, False) for file in found]
        path.stat()
    except FileNotFoundError:
        raise RequestError(f"{paths.shown(path)}: there is no such file or folder") from None
    except OSError as error:
        where = paths.shown(error.filename or path)
        raise RequestError(f"{where}: the results cannot be read: {error.strerror}") from None
    return [(path, True)]


def _below(folder: Path) -> list[Path]:
    """Raises OSError for a folder that cannot be read, which `Path.rglob` would pass over."""

    def stop(error: OSError) -> None:
        raise error

    walked = os.walk(folder, onerror=stop)
    return [Path(root, name) for root, _, names in walked for name in names if name.endswith(".jsonl")]


def _kernel(file: Path) -> str:
    """The kernel that a results file says it is of; it becomes the name of a file."""
    with file.open(encoding="utf-8", errors="replace") as lines:
        name = json.loads(lines.readline()).get("kernel")
    if not isinstance(name, str) or not re.fullmatch(r"\w[\w.+-]*(/\w[\w.+-]*)*", name) or len(name) > 200:
        raise RequestError(f"{paths.shown(file)}:1: its header names no kernel: {str(name)[:60]!r}")
    return name
