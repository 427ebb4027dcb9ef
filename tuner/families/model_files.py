"""Files of trained time models: those that ship with the results, and those that were trained on this machine.

A model ships as `results/FAMILY/DEVICE.model`, which `docs/hooks/models.py` writes; one that was trained on this
machine is in the cache. A file names what the model was trained on: the code of its kernels, the time tables by the
digests of their contents, and the records. So what is known besides can be added to it.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tuner import paths
from tuner.classes import cached_property, dataclass
from tuner.errors import RequestError
from tuner.prediction import array_file
from tuner.prediction.array_file import ArrayFile
from tuner.prediction.trained import FORMAT, VERSION, Trained
from tuner.store.lookup import Query
from tuner.store.record import Record

SUFFIX = ".model"
MOST_BYTES = 1 << 26
MOST_FILES = 32  # in the cache; beyond this number, the least recently used files are deleted
NAMED = 8  # hexadecimal digits that stand for a record


@dataclass(frozen=True)
class ModelFile:
    """A trained model whose state is read when it is needed.

    `kernels` are the kernels of its entries by number: name, code, and the options on which the code depends.
    `lent` maps entries to the sibling whose times predict them alone. `launch_ms` is the launch overhead of its times.
    """

    file: ArrayFile
    kernels: tuple[tuple[str, str, Mapping[str, float]], ...]
    tables: frozenset[str]
    records: frozenset[str]
    lent: Mapping[int, str]
    launch_ms: float | None

    @staticmethod
    def of(data: bytes, problem: Mapping[str, Any]) -> ModelFile | None:
        """The model in a file if it is of this problem (see `problem_of`), else None. Raises ValueError if the file is
        damaged, or of another version."""
        file = array_file.read(data, FORMAT, VERSION)
        header = file.header
        try:
            if header["problem"] != json.loads(json.dumps(problem)):
                return None
            kernels = tuple((str(name), str(code), dict(options)) for name, code, options in header["kernels"])
            lent = {int(entry): str(device) for entry, device in header["lent"].items()}
            of_tables, of_records = frozenset(header["tables"]), frozenset(header["records"])
            return ModelFile(file, kernels, of_tables, of_records, lent, header["launch_ms"])
        except (LookupError, TypeError, AttributeError) as error:
            raise ValueError(f"{type(error).__name__}: {error}") from None

    @cached_property
    def trained(self) -> Trained:
        """The state. Raises ValueError if it is damaged."""
        return Trained.of_file(self.file)


def problem_of(query: Query, units: int) -> dict[str, Any]:
    """What a model must be of: the device, its conditions, the types, and the order of sizes."""
    return {
        "kind": query.kind,
        "device": query.device,
        "units": units,
        "conditions": dict(query.conditions.values),
        "types": dict(query.scope.types),
        "names": [*query.scope.sizes],
    }


def kernel_of(query: Query) -> tuple[str, str, dict[str, float]]:
    """The kernel of a query, as `ModelFile.kernels` has it."""
    space, options = query.space, query.scope.options
    return space.name, query.version.code, {name: float(options[name]) for name in sorted(space.fixed_options)}


def digest_of(record: Record) -> str:
    """What stands for a record in a file."""
    return paths.digest(record.key, record.date, repr(record.time_ms))[:NAMED]


def shipped_path(
    queries: Sequence[Query], root: Path | None = None, suffix: str = SUFFIX, of_chip: bool = False
) -> Path | None:
    """The file of the model that ships for these kernels, which are of one folder; None if they are not.

    `root` replaces the folder of shipped results. `of_chip`: whether the file is of the device's chip.
    """
    folders = {query.space.name.rpartition("/")[0] for query in queries}
    if len(folders) != 1 or "" in folders or queries[0].space.name.startswith("/"):
        return None
    query = queries[0]
    types = "".join(f"-{each}" for each in dict.fromkeys(query.scope.types.values()))
    name = f"{query.architecture}_{query.units}" if of_chip else re.sub(r"[^\w.]+", "_", query.device)
    return (root or paths.shipped("results")) / folders.pop() / f"{name}{types}{suffix}"


def cached_path(queries: Sequence[Query], units: int) -> Path:
    """The file of the model that was trained on this machine for these kernels. Its folder may not exist."""
    about = [problem_of(queries[0], units), sorted(kernel_of(query) for query in queries)]
    return paths.cache_folder() / "models" / f"{paths.digest(json.dumps(about, sort_keys=True))}{SUFFIX}"


def written_at(queries: Sequence[Query], units: int) -> int | None:
    """When the model of this machine was written, in nanoseconds; None if there is none."""
    try:
        return os.stat(cached_path(queries, units)).st_mtime_ns
    except OSError:
        return None


def candidates(queries: Sequence[Query], units: int) -> Iterator[ModelFile]:
    """The models of these kernels on the queries' device: the one that ships, then the one of this machine."""
    if not queries:
        return
    problem, shipped, cached = problem_of(queries[0], units), shipped_path(queries), cached_path(queries, units)
    for path, is_cached in ((shipped, False), (cached, True)):
        with contextlib.suppress(OSError, RequestError, ValueError):  # it is trained again
            if path is None or not path.is_file() or path.stat().st_size > MOST_BYTES:
                continue
            data = paths.read_checked(path) if is_cached else path.read_bytes()
            if data is not None and (found := ModelFile.of(data, problem)) is not None:
                yield found


def write_cached(path: Path, data: bytes) -> None:
    """Write a model that was trained on this machine, and delete old ones. Does nothing if that is impossible."""
    with contextlib.suppress(OSError, RequestError):
        folder = paths.private(paths.cache() / "models")
        paths.write_checked(folder / path.name, data)
        files = sorted(folder.iterdir(), key=lambda file: file.stat().st_mtime)
        for file in files[:-MOST_FILES]:
            file.unlink(missing_ok=True)


def about(
    queries: Sequence[Query],
    units: int,
    tables: Collection[str],
    records: Collection[str],
    lent: Mapping[int, str],
    launch_ms: float | None,
) -> dict[str, Any]:
    """What a file says of its model besides the state."""
    return {
        "problem": problem_of(queries[0], units),
        "kernels": [kernel_of(query) for query in queries],
        "tables": sorted(tables),
        "records": sorted(records),
        "lent": {str(entry): device for entry, device in lent.items()},
        "launch_ms": launch_ms,
    }
