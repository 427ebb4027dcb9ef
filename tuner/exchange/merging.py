"""`tune merge`: the records of several machines in one store, the better one of each kind."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tuner import paths, store
from tuner.errors import RequestError
from tuner.store import Record, Store


@dataclass(frozen=True)
class Merged:
    """Files and records that were read, how many records of each kernel were written, and what could not be read."""

    files: int
    records: int
    written: dict[str, int]
    problems: list[str]


def merge(given: Iterable[Path], results: Path | None = None) -> Merged:
    """Put the records of these files, and of all results below these folders, into the store.

    Everything is read before anything is written, and no source is changed. Raises RequestError for what is not there,
    is not ours or is of a newer version, and where the store cannot be written.
    """
    records: dict[str, list[Record]] = {}
    problems: list[str] = []
    files = list(dict.fromkeys(file.resolve() for path in given for file in _files(path)))
    for file in files:
        found, unreadable = store.read(file)
        if found:
            records.setdefault(_kernel(file), []).extend(found)
        problems += unreadable
    written = {kernel: len(Store(kernel, results).merge(found)) for kernel, found in sorted(records.items())}
    return Merged(len(files), sum(map(len, records.values())), written, problems)


def _files(path: Path) -> list[Path]:
    if path.is_dir():
        found = sorted(path.rglob("*.jsonl"))
        if not found:
            raise RequestError(f"{paths.shown(path)}: no results, *.jsonl, in it or below")
        return found
    if not path.exists():
        raise RequestError(f"{paths.shown(path)}: there is no such file or folder")
    return [path]


def _kernel(file: Path) -> str:
    """The kernel that a results file says it is of; it becomes the name of a file."""
    with file.open(encoding="utf-8", errors="replace") as lines:
        name = json.loads(lines.readline()).get("kernel")
    if not isinstance(name, str) or not re.fullmatch(r"\w[\w.+-]*(/\w[\w.+-]*)*", name) or len(name) > 200:
        raise RequestError(f"{paths.shown(file)}:1: its header names no kernel: {str(name)[:60]!r}")
    return name
