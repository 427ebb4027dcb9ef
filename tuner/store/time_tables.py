"""Times of configurations at many sizes, from which the look-up between sizes learns besides records.

`results/FAMILY/STAGE.times.json` has a table for each machine and problem of a kernel: sizes, and the times of each
configuration at these, with those of the vendor's library beside them. `tune cover` writes what it has measured. A
record is of one size, and says more of it.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tuner import paths
from tuner.errors import RequestError
from tuner.prediction.grids import Sizes
from tuner.quoting import shown
from tuner.space.config import Config, ConfigKey, config_key
from tuner.store import locks
from tuner.store.lookup import Query

FORMAT, VERSION = "tuner times", 1
SUFFIX = ".times.json"  # of files
MOST = 1 << 26  # characters of a file
DIGITS = 5  # of a time
CHIP = "cuda"  # the kind of device whose architecture and multiprocessors name a chip


@dataclass(frozen=True)
class TimeTable:
    """The times in ms of a kernel's configurations, by sizes in the order of `names`, and the library's. `code` is that
    of the kernel when it was measured (`source.Version`). `units` are the multiprocessors of the device; `launch_ms` is
    what a launch took on the machine that measured. Both are 0 where nothing tells."""

    kind: str
    device: str
    code: str
    names: tuple[str, ...]
    options: Mapping[str, float]
    types: Mapping[str, str]
    configs: dict[ConfigKey, Config] = field(default_factory=dict)
    times: dict[ConfigKey, dict[Sizes, float]] = field(default_factory=dict)
    library: dict[Sizes, float] = field(default_factory=dict)
    architecture: str = ""
    units: int = 0
    launch_ms: float = 0.0

    @property
    def key(self) -> str:
        """Tables with the same key are of the same problem, where a launch takes as long; a file has one of them."""
        options, types = sorted(self.options.items()), sorted(self.types.items())
        return json.dumps([self.kind, self.device, self.code, self.names, options, types, float(self.launch_ms)])

    @property
    def at(self) -> list[Sizes]:
        """The sizes of which there are times."""
        return sorted({*self.library, *(sizes for times in self.times.values() for sizes in times)})

    def serves(self, query: Query) -> bool:
        """Whether it is of the query's kernel as it is now, problem and device."""
        options, names = query.scope.options, tuple(query.space.operation.sizes)
        is_here = (self.kind, self.device, self.code) == (query.kind, query.device, query.version.code)
        is_problem = self.names == names and self.types == query.scope.types
        return is_here and is_problem and all(self.options.get(o) == options[o] for o in query.space.fixed_options)

    def add(self, config: Config, sizes: Sizes, time_ms: float) -> None:
        """Take in a time, in the place of an earlier one."""
        key = config_key(config)
        self.configs.setdefault(key, dict(config))
        self.times.setdefault(key, {})[sizes] = time_ms

    def take(self, other: TimeTable) -> None:
        """Take in the times of another table of the same key, where this one has none."""
        for key, config in other.configs.items():
            self.configs.setdefault(key, config)
            self.times[key] = {**other.times[key], **self.times.get(key, {})}
        self.library.update({**other.library, **self.library})

    def to_json(self) -> dict[str, Any]:
        """The table as a file has it: sizes once, and a row of times for each configuration."""
        sizes = self.at
        return {
            "kind": self.kind,
            "device": self.device,
            "architecture": self.architecture,
            "units": self.units,
            "launch_ms": self.launch_ms,
            "code": self.code,
            "names": list(self.names),
            "options": dict(self.options),
            "types": dict(self.types),
            "sizes": [list(each) for each in sizes],
            "library_ms": _row(self.library, sizes),
            "configs": [
                {"config": config, "times_ms": _row(self.times[key], sizes)} for key, config in self.configs.items()
            ],
        }

    @staticmethod
    def from_json(data: Any) -> TimeTable:
        """Raises ValueError for what is no table."""
        try:
            sizes = [tuple(each) for each in data["sizes"]]
            names = tuple(data["names"])
            kind, device, code = texts = [data[name] for name in ("kind", "device", "code")]
            architecture, units = data.get("architecture", ""), data.get("units", 0)
            launch_ms = data.get("launch_ms", 0.0)
            numbers = [*itertools.chain.from_iterable(sizes)]
            are_texts = all(isinstance(text, str) for text in (*texts, architecture, *names))
            are_sizes = (
                {*map(len, sizes)} <= {len(names)} and {*map(type, numbers)} <= {int} and min(numbers, default=1) > 0
            )
            options, types = dict(data["options"]), dict(data["types"])
            table = TimeTable(
                kind, device, code, names, options, types,
                architecture=architecture, units=units, launch_ms=launch_ms,
            )  # fmt: skip
            for row in data["configs"]:
                key = config_key(row["config"])
                table.configs[key], table.times[key] = row["config"], _timed(sizes, row["times_ms"])
            table.library.update(_timed(sizes, data["library_ms"]))
        except (LookupError, TypeError, AttributeError) as error:
            raise ValueError(f"{type(error).__name__}: {error}") from None
        if not (are_texts and are_sizes) or type(units) is not int or units < 0:
            raise ValueError(
                "kind, device, architecture and code are texts, units and sizes whole numbers, as many sizes as names"
            )
        if type(launch_ms) not in (int, float) or not 0 <= launch_ms < math.inf:
            raise ValueError("launch_ms is a number from 0 on")
        return table


def _row(times: Mapping[Sizes, float], sizes: Sequence[Sizes]) -> list[float | None]:
    return [float(f"{times[each]:.{DIGITS}g}") if each in times else None for each in sizes]


def _timed(sizes: Sequence[Sizes], times: Sequence[float | None]) -> dict[Sizes, float]:
    """The times that there are. Raises ValueError where one is no time, or none belongs to a size."""
    found = {each: time for each, time in zip(sizes, times, strict=True) if time is not None}
    values = found.values()
    if not {*map(type, values)} <= {int, float} or not math.isfinite(sum(values)) or min(values, default=1) <= 0:
        raise ValueError("a time is a positive number, or null")
    return found


def path(kernel: str, root: Path) -> Path:
    """The file of a kernel in a folder of results."""
    return beside(root / f"{kernel.lstrip('/')}.jsonl")


def beside(records: Path) -> Path:
    """The file of the kernel whose records are in this file."""
    return records.with_suffix(SUFFIX)


def read(records: Iterable[Path]) -> tuple[list[TimeTable], list[str]]:
    """The tables beside these files of records (`Store.files`), in their order; and messages about what cannot be
    read."""
    read_of = [read_file(beside(file)) for file in records]
    return [table for tables, _ in read_of for table in tables], [told for _, problems in read_of for told in problems]


def read_file(file: Path) -> tuple[list[TimeTable], list[str]]:
    """The tables of a file, none if it is not there; and messages about what cannot be read."""
    try:
        return _tables(file), []
    except RequestError as error:
        return [], [str(error)]


def kernel_of(file: Path) -> object:
    """The kernel that a file, from which tables were read, says to be of."""
    return json.loads(paths.read_text(file, MOST)).get("kernel")


def sibling_of(queries: Sequence[Query], tables: Sequence[Sequence[TimeTable]], units: int) -> str | None:
    """The sibling of a device with most times in `tables`; None where there is none, or the device itself has as many.
    `queries` are those of kernels on the device, which has so many multiprocessors.

    NVIDIA GPUs of one architecture with as many multiprocessors are siblings: the same chip, perhaps with another
    memory, such as an H100 and an H200. Times differ, but what is fastest seldom does. Of processors, and of OpenCL's
    devices, the architecture does not name the chip.
    """
    counts: dict[str, int] = {}
    for query, measured in zip(queries, tables, strict=True):
        for table in measured:
            is_own = table.device == query.device
            is_alike = query.kind == CHIP and (table.architecture, table.units) == (query.architecture, units)
            if (is_own or is_alike) and table.serves(replace(query, device=table.device)):
                counts[table.device] = counts.get(table.device, 0) + sum(map(len, table.times.values()))
    own = counts.pop(queries[0].device, 0) if queries else 0
    most = max(sorted(counts), key=lambda name: counts[name], default=None)
    return most if most is not None and counts[most] > own else None


def write(kernel: str, tables: Sequence[TimeTable], folder: Path | None = None) -> None:
    """Add `tables` to those of a kernel in `folder`, or else the user's own: new times take the place of old ones, and
    come before those of other machines. A file that cannot be read is left as it is. Raises RequestError where it
    cannot be written."""
    if not tables:
        return
    file = path(kernel, folder or paths.user_results())
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with locks.held(file):
            kept = {table.key: table for table in _tables(file)}
            for table in reversed(tables):
                if table.key in kept:
                    table.take(kept.pop(table.key))
                kept = {table.key: table, **kept}
            paths.replace(file, _text(kernel, kept.values()).encode())
    except OSError as error:
        where = shown(file)
        raise RequestError(
            f"{where}: cannot be written: {error.strerror}; name another folder with --results"
        ) from None


def _tables(file: Path) -> list[TimeTable]:
    """The tables in a file; none if it is not there. Raises RequestError if it is not ours, or cannot be read."""
    where = shown(file)
    try:
        document = json.loads(paths.read_text(file, MOST))
        if not isinstance(document, dict) or (document.get("format"), document.get("version")) != (FORMAT, VERSION):
            raise RequestError(f"{where}: is not of format {FORMAT!r}, version {VERSION}; move it away")
        return [TimeTable.from_json(each) for each in document["tables"]]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise RequestError(f"{where}: cannot be read: {error.strerror}; name another folder with --results") from None
    except (ValueError, LookupError, TypeError, RecursionError, OverflowError) as error:
        raise RequestError(f"{where}: holds no times: {error}; move it away, and run `tune cover` again") from None


def _text(kernel: str, tables: Iterable[TimeTable]) -> str:
    """A document with a line for each configuration."""
    parts = []
    for table in tables:
        data = table.to_json()
        rows = ",\n".join(json.dumps(row, separators=(",", ":")) for row in data.pop("configs"))
        parts.append(f'{json.dumps(data, separators=(",", ":"))[:-1]},"configs":[\n{rows}\n]}}')
    head = json.dumps({"format": FORMAT, "version": VERSION, "kernel": kernel})[:-1]
    body = ",\n".join(parts)
    return f'{head}, "tables": [\n{body}\n]}}\n'
