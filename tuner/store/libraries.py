"""The vendor library's time for a problem, as the finals of earlier runs measured it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from tuner import paths
from tuner.catalog import catalog
from tuner.errors import TunerError
from tuner.space.model import Space
from tuner.store.record import Record
from tuner.store.store import Store


class LibraryTime(NamedTuple):
    """The library's name and version, and its time in ms."""

    name: str
    time_ms: float


def known(
    space: Space,
    device: str,
    sizes: Mapping[str, int],
    options: Mapping[str, float],
    types: Mapping[str, str],
    results: Path | None = None,
) -> LibraryTime | None:
    """The latest measurement of the library for this problem on the device of this name; None if there is none.

    It is taken from the records of this kernel, or else of another kernel of its family with the same operation.
    """
    if space.operation.library is None:
        return None
    problem = dict(sizes), dict(options), dict(types)
    for records in _records(space, device, results):
        measured = [
            record
            for record in records
            if record.device == device and (record.sizes, record.options, record.types) == problem and record.is_plain
        ]
        times = [(r.date, LibraryTime(r.library, r.library_ms)) for r in measured if r.library and r.library_ms]
        if times:
            return max(times)[1]
    return None


def _records(space: Space, device: str, results: Path | None) -> Iterator[list[Record]]:
    """The records of this kernel, then those of each other kernel of its family that has some of this device and the
    same operation."""
    yield Store.of(space, results).records
    family = space.name.rpartition("/")[0]
    folders = [root / family for root in (results or paths.user_results(), paths.shipped("results"))] if family else []
    files = (file for folder in folders for file in folder.glob("*.jsonl"))
    for name in sorted({f"{family}/{file.stem}" for file in files if _may_name(file, device)} - {space.name}):
        try:
            other = catalog.load(name).operation
        except TunerError:
            continue
        if replace(other, extent=space.operation.extent) == space.operation:  # the extent does not matter to a library
            yield Store(name, results, passes_over=True).records


def _may_name(file: Path, device: str) -> bool:
    """Whether a file of records may have some of this device. Reading its bytes takes a hundredth of the time that
    reading its records takes, and most files are of other devices."""
    try:
        return json.dumps(device) != f'"{device}"' or device.encode() in file.read_bytes()
    except OSError:
        return True
