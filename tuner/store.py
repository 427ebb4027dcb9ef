"""The best configurations, one JSON record a line in results/<family>/<stage>.jsonl: written by tuning, read by all.

A file starts with a header line. It is rewritten aside and renamed, under a lock; lines that cannot be read are
reported, kept as they are and otherwise ignored.
"""

from __future__ import annotations

import itertools
import json
import math
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import MISSING, asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Literal

from tuner import paths
from tuner.errors import RequestError
from tuner.space import Config, Scope, Space

FORMAT = "tuner results"
VERSION = 1
SIMILAR, WARM = 3, 12  # records whose configurations begin a search; how many configurations
Match = Literal["exact", "nearest_size", "architecture", "other_device", "default"]
MATCHES: tuple[Match, ...] = ("exact", "nearest_size", "architecture", "other_device", "default")


@dataclass(frozen=True)
class Record:
    """The best configuration for one problem on one device. Times in ms, rates in GFLOP/s.

    `spread` is the interquartile range over the median of `rounds` rounds; `vs_library` the library's time over ours,
    measured in the same rounds, as was the space's default, in `default_ms`; `error` and `bound` are of the
    verification. `objective` was made least, with `caches`
    warm or cold before each run; `clock_mhz` and `throttled` are of the board during the finals; `registers`, `spills`
    (bytes) and `occupancy` (a bound, from 0 to 1) are of the build.
    """

    device: str
    kind: str
    architecture: str
    sizes: dict[str, int]
    options: dict[str, float]
    config: Config
    time_ms: float
    spread: float
    rounds: int
    gflops: float | None
    library: str | None
    library_ms: float | None
    vs_library: float | None
    error: float
    bound: float
    signature: str
    toolchain: str
    configurations: int
    evaluated: int
    failed: dict[str, int]
    strategy: str
    date: str
    version: str
    next: list[dict[str, Any]] = field(default_factory=list)
    objective: str = "time"
    caches: str = "warm"
    default_ms: float | None = None
    energy_mj: float | None = None
    clock_mhz: float | None = None
    throttled: list[str] = field(default_factory=list)
    registers: int | None = None
    spills: int | None = None
    occupancy: float | None = None

    @property
    def value(self) -> float:
        """What tuning made least: ms, mJ, or their product."""
        energy = self.energy_mj or 0.0
        return {"energy": energy, "edp": energy * self.time_ms}.get(self.objective, self.time_ms)

    @property
    def is_plain(self) -> bool:
        """Whether it was tuned for time, with caches as they are."""
        return (self.objective, self.caches) == ("time", "warm")

    @property
    def key(self) -> tuple[Any, ...]:
        """Records with one key are about the same thing; a store keeps one of them."""
        problem = (tuple(sorted(self.sizes.items())), tuple(sorted(self.options.items())))
        return (self.kind, self.device, *problem, self.signature, self.objective, self.caches)

    def to_line(self) -> str:
        return json.dumps(asdict(self), sort_keys=False)

    @staticmethod
    def from_line(line: str) -> Record:
        """The record in `line`. Raises ValueError, saying why, where it holds none."""
        data = json.loads(line)
        if not isinstance(data, dict):
            raise ValueError("not a record")
        names = {f.name for f in fields(Record)}
        needed = {f.name for f in fields(Record) if f.default is MISSING and f.default_factory is MISSING}
        missing = sorted(needed - data.keys())
        if missing:
            raise ValueError(f"no {', '.join(missing)}")
        record = Record(**{name: data[name] for name in names if name in data})
        for name, good in _FIELDS.items():
            if not good(getattr(record, name)):
                raise ValueError(f"{name} is {str(getattr(record, name))[:40]!r}")
        return record


def _line(value: Any) -> bool:
    return isinstance(value, str) and value.isprintable() and len(value) < 1000


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e300


def _count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63


def _config(value: Any) -> bool:
    plain = isinstance(value, dict) and all(isinstance(v, bool | int | float | str) for v in value.values())
    return plain and all(_line(v) for v in [*value, *value.values()] if isinstance(v, str))


def _mapping(good: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, dict) and all(_line(k) and good(v) for k, v in value.items())


def _or_none(good: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: value is None or good(value)


def _runners_up(value: Any) -> bool:
    return isinstance(value, list) and all(
        isinstance(v, dict) and _config(v.get("config")) and _number(v.get("time_ms")) for v in value
    )


# A record is data from a file: what is not as it should be gets no further than `Record.from_line`.
_FIELDS: Mapping[str, Callable[[Any], bool]] = {
    **dict.fromkeys(("device", "kind", "architecture", "signature", "toolchain", "strategy", "date", "version"), _line),
    **dict.fromkeys(("objective", "caches"), _line),
    **dict.fromkeys(("spread", "error", "bound"), _number),
    **dict.fromkeys(("rounds", "configurations", "evaluated"), _count),
    **dict.fromkeys(("gflops", "library_ms", "vs_library"), _or_none(_number)),
    "library": _or_none(_line),
    "time_ms": lambda value: _number(value) and value > 0,
    "sizes": _mapping(lambda value: _count(value) and value > 0),
    "options": _mapping(lambda value: isinstance(value, int | float) and abs(value) < 1e300),
    "failed": _mapping(_count),
    "config": _config,
    "next": _runners_up,
    "throttled": lambda value: isinstance(value, list) and all(_line(v) for v in value),
    **dict.fromkeys(("default_ms", "energy_mj", "clock_mhz", "occupancy"), _or_none(_number)),
    **dict.fromkeys(("registers", "spills"), _or_none(_count)),
}


@dataclass(frozen=True)
class Found:
    """A look-up's answer: the configuration, how well it fits, and the record it is from (None for the default).
    `notes` are warnings for the user."""

    config: Config
    match: Match
    record: Record | None = None
    stale: bool = False
    notes: tuple[str, ...] = ()


class Store:
    """Records of one kernel from several folders, the first laid over the others; the first is written to."""

    def __init__(self, kernel: str, folder: Path | None = None) -> None:
        """`folder` instead of the user's own; the shipped results always lie below."""
        roots = dict.fromkeys(root.resolve() for root in (folder or paths.user_results(), paths.shipped("results")))
        self.paths = [root / f"{kernel}.jsonl" for root in roots]
        self.kernel = kernel
        self.problems: list[str] = []
        self.records: list[Record] = []
        for path in self.paths:
            above = {record.key for record in self.records}
            self.records += [record for record in self._read(path) if record.key not in above]

    def _read(self, path: Path) -> Iterator[Record]:
        for number, line in enumerate(_lines(path), 1):
            if number == 1:
                _check_header(path, line)
                continue
            try:
                yield Record.from_line(line)
            except (ValueError, TypeError, ArithmeticError, RecursionError) as error:
                if line.strip():
                    self.problems.append(f"{path}:{number}: skipped, not a record: {error}")

    def check_writable(self) -> None:
        """Raise RequestError where `add` could not write; to be asked before hours of tuning."""
        folder = self.paths[0].parent
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=folder):
                pass
        except OSError as error:
            raise self._unwritable(error) from None

    def _unwritable(self, error: OSError) -> RequestError:
        return RequestError(f"{self.paths[0]}: cannot be written: {error.strerror}; name another folder with --results")

    def add(self, record: Record, competes: Callable[[Record], bool] = lambda old: True) -> bool:
        """Write `record`, unless the same toolchain has found a faster configuration that still `competes`; returns
        whether.

        Every other line of the file stays, readable or not. Raises RequestError where the file cannot be written.
        """
        from filelock import FileLock

        path = self.paths[0]
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with FileLock(path.with_suffix(".lock"), mode=0o644):
                kept, old = _without(_lines(path)[1:], record)
                if old is not None and competes(old) and _still_better(old, record):
                    return False
                header = json.dumps({"format": FORMAT, "version": VERSION, "kernel": self.kernel})
                text = "\n".join([header, *kept, record.to_line()]) + "\n"
                paths.replace(path, text.encode("utf-8", errors="surrogateescape"))
        except OSError as error:
            raise self._unwritable(error) from None
        self.records = [record, *(r for r in self.records if r.key != record.key)]
        return True

    def look_up(self, space: Space, scope: Scope, device: str, kind: str, architecture: str, signature: str) -> Found:
        """The best known configuration that is valid at this size on this device.

        In this order: the device at this size; the device at the nearest size, by the distance of the logarithms;
        the architecture; any other device; the space's default, or the first valid combination. Records of an
        earlier version of the source come after all others, and before them those that were tuned for energy or
        with cold caches. Raises NoConfiguration where nothing is valid.
        """
        ranked = self._ranked(space, scope, device, kind, architecture, signature)
        if not ranked:
            return Found(space.first_valid(scope), "default", notes=tuple(self.problems))
        match, record = ranked[0]
        notes, stale = [*self.problems], record.signature != signature
        if stale:
            notes.append(f"{space.name}: the record is of an earlier version of the kernel; tune it again")
        return Found(record.config, match, record, stale, tuple(notes))

    def similar(
        self, space: Space, scope: Scope, device: str, kind: str, architecture: str, signature: str
    ) -> list[Config]:
        """Configurations to begin a search with: the best of the SIMILAR records that a look-up would prefer, then
        their second best, and so on, at most WARM; valid at this size on this device."""
        nearest = [record for _, record in self._ranked(space, scope, device, kind, architecture, signature)][:SIMILAR]
        lists = [[record.config, *(one["config"] for one in record.next)] for record in nearest]
        found: list[Config] = []
        for configs in itertools.zip_longest(*lists):
            for config in configs:
                if config is not None and config not in found and space.valid(config, scope):
                    found.append(config)
        return found[:WARM]

    def _ranked(
        self, space: Space, scope: Scope, device: str, kind: str, architecture: str, signature: str
    ) -> list[tuple[Match, Record]]:
        """The records that are valid here, those that fit best first."""
        ranked = []
        for position, record in enumerate(self.records):
            if record.sizes.keys() != scope.sizes.keys() or not space.valid(record.config, scope):
                continue
            distance = _distance(record.sizes, scope.sizes)
            match = _match(record, device, kind, architecture, distance)
            worth = (
                record.signature != signature,
                not record.is_plain,
                MATCHES.index(match),
                record.kind != kind,
                distance,
                record.options != scope.options,
                position,
            )
            ranked.append((worth, match, record))
        return [(match, record) for _, match, record in sorted(ranked, key=lambda entry: entry[0])]


def _lines(path: Path) -> list[str]:
    try:
        # What is not UTF-8 must come back as the bytes it was.
        return path.read_bytes().decode("utf-8", errors="surrogateescape").removesuffix("\n").split("\n")
    except FileNotFoundError:
        return []
    except OSError as error:
        raise RequestError(f"{path}: the results cannot be read: {error.strerror}") from None


def _check_header(path: Path, line: str) -> None:
    """Raise RequestError for a file that is not ours, or of a version that is not known yet."""
    try:
        header = json.loads(line)
        known = header["format"] == FORMAT
        version = header["version"]
    except (ValueError, TypeError, KeyError, RecursionError):
        known, version = False, None
    if not known or not isinstance(version, int):
        raise RequestError(f"{path}:1: not a results file: its first line is not the header; move the file away")
    if version > VERSION:
        raise RequestError(f"{path}:1: written by a newer tuner (format {version}, known is {VERSION}); update tuner")


def _without(lines: Iterable[str], record: Record) -> tuple[list[str], Record | None]:
    """The lines that are not about the same thing as `record`, and the record that is."""
    kept: list[str] = []
    old: Record | None = None
    for line in lines:
        try:
            found = Record.from_line(line)
        except (ValueError, TypeError, ArithmeticError, RecursionError):
            kept.append(line)
            continue
        if found.key == record.key:
            old = found
        else:
            kept.append(line)
    return kept, old


def _still_better(old: Record, new: Record) -> bool:
    """Whether `old` is of another configuration that the same toolchain made faster than `new`."""
    return old.toolchain == new.toolchain and old.config != new.config and old.value < new.value


def _match(record: Record, device: str, kind: str, architecture: str, distance: float) -> Match:
    if record.kind == kind and record.device == device:
        return "exact" if distance == 0 else "nearest_size"
    same = record.kind == kind and record.architecture == architecture
    return "architecture" if same else "other_device"


def _distance(a: Mapping[str, int], b: Mapping[str, int]) -> float:
    """Euclidean distance of the logarithms of the sizes."""
    return math.sqrt(sum(math.log(a[name] / b[name]) ** 2 for name in a))
