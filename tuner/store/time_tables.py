"""Time tables: measured times of configurations at many sizes. The time model is trained on them and on the records.

`results/FAMILY/STAGE.times.json` has one table per machine and problem of a kernel: the sizes, the times of each
configuration, and the vendor library's times. `tune cover` writes it. A record, in contrast, describes a single size in
detail.
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
from tuner.devices.conditions import DEFAULT, Conditions
from tuner.errors import RequestError
from tuner.prediction.grids import Sizes
from tuner.quoting import shown
from tuner.space.config import Config, ConfigKey, config_key
from tuner.store import locks
from tuner.store.lookup import Query

FORMAT, VERSION = "tuner times", 1
SUFFIX = ".times.json"
MOST = 1 << 26  # characters of a file
DIGITS = 5  # significant digits of a time
CHIP = "cuda"  # the kind of device whose architecture and number of multiprocessors identify a chip


@dataclass(frozen=True)
class TimeTable:
    """The times in ms of a kernel's configurations and of the library, by sizes in the order of `names`.

    `code` identifies the kernel's code when it was measured (`Version`). `units` is the device's number of
    multiprocessors, `launch_ms` the launch overhead of the machine in ms; both are 0 if unknown.
    """

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
    conditions: Conditions = DEFAULT

    @property
    def key(self) -> str:
        """Identifies the device, conditions, code, options, types and launch overhead; a file has one table per key."""
        options, types = sorted(self.options.items()), sorted(self.types.items())
        about = [self.kind, self.device, self.code, self.names, options, types, float(self.launch_ms)]
        return json.dumps([*about, sorted(self.conditions.values.items())])

    @property
    def sizes(self) -> list[Sizes]:
        """All sizes with a time, sorted."""
        return sorted({*self.library, *(sizes for times in self.times.values() for sizes in times)})

    def serves(self, query: Query) -> bool:
        """Whether it is of the query's device and conditions, of its kernel's current version, and of its options and
        types."""
        options, names = query.scope.options, tuple(query.space.operation.sizes)
        asked = query.kind, query.device, query.conditions, query.version.code
        is_current = (self.kind, self.device, self.conditions, self.code) == asked
        is_problem = self.names == names and self.types == query.scope.types
        return is_current and is_problem and all(self.options.get(o) == options[o] for o in query.space.fixed_options)

    def add(self, config: Config, sizes: Sizes, time_ms: float) -> None:
        """Add a time in ms, replacing an earlier one of the same configuration and sizes."""
        key = config_key(config)
        self.configs.setdefault(key, dict(config))
        self.times.setdefault(key, {})[sizes] = time_ms

    def take(self, other: TimeTable) -> None:
        """Add the times of another table with the same key that this one lacks."""
        for key, config in other.configs.items():
            self.configs.setdefault(key, config)
            self.times[key] = {**other.times[key], **self.times.get(key, {})}
        self.library.update({**other.library, **self.library})

    def to_json(self) -> dict[str, Any]:
        """The table in a file's form: the sizes once, and a row of times for each configuration."""
        sizes = self.sizes
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
            **({"conditions": dict(self.conditions.values)} if self.conditions else {}),
            "sizes": [list(each) for each in sizes],
            "library_ms": _row(self.library, sizes),
            "configs": [
                {"config": config, "times_ms": _row(self.times[key], sizes)} for key, config in self.configs.items()
            ],
        }

    @staticmethod
    def from_json(data: Any) -> TimeTable:
        """The table of a file's form. Raises ValueError if it is invalid."""
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
                conditions=Conditions(dict(data.get("conditions", {}))),
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
    """The known times of a row, by sizes. Raises ValueError if a time is invalid or the lengths differ."""
    known = {each: time for each, time in zip(sizes, times, strict=True) if time is not None}
    values = known.values()
    if not {*map(type, values)} <= {int, float} or not math.isfinite(sum(values)) or min(values, default=1) <= 0:
        raise ValueError("a time is a positive number, or null")
    return known


def path(kernel: str, root: Path) -> Path:
    """The file of a kernel's time tables in a folder of results."""
    return beside(root / f"{kernel.lstrip('/')}.jsonl")


def beside(records: Path) -> Path:
    """The file of the time tables of the kernel whose records are in this file."""
    return records.with_suffix(SUFFIX)


def read(records: Iterable[Path]) -> tuple[list[TimeTable], list[str]]:
    """The tables beside these files of records (`Store.files`), in their order, and messages about unreadable files."""
    results = [read_file(beside(file)) for file in records]
    tables = [table for tables, _ in results for table in tables]
    return tables, [problem for _, problems in results for problem in problems]


def read_file(file: Path) -> tuple[list[TimeTable], list[str]]:
    """The tables of a file, none if it does not exist, and a message if it cannot be read."""
    try:
        return _tables(file), []
    except RequestError as error:
        return [], [str(error)]


def kernel_of(file: Path) -> object:
    """The kernel named by a file from which tables were read."""
    return json.loads(paths.read_text(file, MOST)).get("kernel")


def sibling_of(queries: Sequence[Query], tables: Sequence[Sequence[TimeTable]], units: int) -> str | None:
    """The name of the sibling device with the most times; None if there is none, or the device itself has as many.

    `queries` are of kernels on the device, `tables` the time tables of each kernel, `units` the device's number of
    multiprocessors. NVIDIA GPUs of one architecture with the same number of multiprocessors are siblings: the same
    chip, perhaps with different memory, such as an H100 and an H200. Their times differ, but rarely which configuration
    is fastest. For CPUs and OpenCL devices, the architecture does not identify the chip.
    """
    counts: dict[str, int] = {}
    for query, measured in zip(queries, tables, strict=True):
        for table in measured:
            is_own = table.device == query.device
            is_sibling = query.kind == CHIP and (table.architecture, table.units) == (query.architecture, units)
            if (is_own or is_sibling) and table.serves(replace(query, device=table.device)):
                counts[table.device] = counts.get(table.device, 0) + sum(map(len, table.times.values()))
    own = counts.pop(queries[0].device, 0) if queries else 0
    most = max(sorted(counts), key=lambda name: counts[name], default=None)
    return most if most is not None and counts[most] > own else None


def write(kernel: str, tables: Sequence[TimeTable], folder: Path | None = None) -> None:
    """Add `tables` to a kernel's file in `folder`, by default the user's own results.

    New times replace old ones, and their tables come first. Raises RequestError if the file cannot be read, which
    leaves it unchanged, or cannot be written.
    """
    if not tables:
        return
    file = path(kernel, folder or paths.user_results())
    try:
        paths.make(file.parent, shared=True)
        with locks.held(file):
            merged = {table.key: table for table in _tables(file)}
            for table in reversed(tables):
                if table.key in merged:
                    table.take(merged.pop(table.key))
                merged = {table.key: table, **merged}
            paths.replace(file, _text(kernel, merged.values()).encode())
    except OSError as error:
        where = shown(file)
        raise RequestError(
            f"{where}: cannot be written: {error.strerror}; name another folder with --results"
        ) from None


def _tables(file: Path) -> list[TimeTable]:
    """The tables of a file; none if it does not exist. Raises RequestError if it is unreadable or of another format."""
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
    """The text of a file, with one line per configuration."""
    parts = []
    for table in tables:
        data = table.to_json()
        rows = ",\n".join(json.dumps(row, separators=(",", ":")) for row in data.pop("configs"))
        parts.append(f'{json.dumps(data, separators=(",", ":"))[:-1]},"configs":[\n{rows}\n]}}')
    head = json.dumps({"format": FORMAT, "version": VERSION, "kernel": kernel})[:-1]
    body = ",\n".join(parts)
    return f'{head}, "tables": [\n{body}\n]}}\n'
