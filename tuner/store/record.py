"""One record of a store: the best configuration for one problem on one device, and how it is read from a file.

A record is data from a file that nobody vouches for: what is not as it should be gets no further than `from_line`.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, asdict, dataclass, field, fields, replace
from typing import Any, NamedTuple

from tuner.space.model import Config

RUNNERS_UP = 8  # that a record keeps
LONGEST = 1 << 16  # characters of a line
SHORTEST_MS = 1e-6  # less than a nanosecond is no time of a launch


@dataclass(frozen=True)
class Record:
    """The best configuration for one problem on one device. Times in ms, rates in GFLOP/s.

    `spread` is the interquartile range over the median of `rounds` rounds; `vs_library` the library's time over ours,
    measured in the same rounds, as was the space's default, in `default_ms`; `error` and `bound` are of the
    verification, None where there was none: the record was imported. `objective` was made least, with `caches` warm or
    cold before each run; `clock_mhz` and `throttled` are of the board during the finals; `registers`, `spills` (bytes)
    and `occupancy` (a bound, from 0 to 1) are of the build.
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
    error: float | None
    bound: float | None
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
    gbytes: float | None = None
    unknown: dict[str, Any] = field(default_factory=dict, compare=False)  # what a newer version has written besides

    @property
    def is_verified(self) -> bool:
        """Whether its output was compared with the reference when it was measured."""
        return self.error is not None and self.bound is not None

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
    def configs(self) -> list[Config]:
        """Its best configuration and the runners-up, best first."""
        return [self.config, *(one["config"] for one in self.next)]

    @functools.cached_property
    def key(self) -> str:
        """Records with one key are about the same thing; a store keeps one of them."""
        options = sorted((name, float(value)) for name, value in self.options.items())
        problem = [self.kind, self.device, sorted(self.sizes.items()), options]
        return json.dumps([*problem, self.signature, self.objective, self.caches])

    def to_json(self) -> dict[str, Any]:
        """All its fields by name, what is unknown included."""
        data = asdict(self)
        return {**data, **data.pop("unknown")}

    def to_line(self) -> str:
        """The record as one line of a store."""
        return json.dumps(self.to_json())

    @staticmethod
    def from_line(line: str) -> Record:
        """The record in `line`. Raises ValueError, saying why, where it holds none."""
        if len(line) > LONGEST:
            raise ValueError(f"{len(line)} characters; a record has at most {LONGEST}")
        try:
            return _checked(json.loads(line))
        except RecursionError:
            raise ValueError("nested too deeply") from None


def better_first(records: Iterable[Record]) -> list[Record]:
    """`records` in their order, but of those about one thing, as a file that was put together by hand may hold, the
    better before the others, where the first of them stood."""
    groups: dict[str, list[Record]] = {}
    for record in records:
        groups.setdefault(record.key, []).append(record)
    return [record for group in groups.values() for record in sorted(group, key=rank)]


def rank(record: Record) -> tuple[bool, float]:
    """Less for what merging prefers."""
    return not record.is_verified, record.value


def _checked(data: Any) -> Record:
    if not isinstance(data, dict):
        raise ValueError("not a record")
    missing = sorted(_NEEDED - data.keys())
    if missing:
        raise ValueError(f"no {', '.join(missing)}")
    unknown = {name: value for name, value in data.items() if name not in _NAMES}
    record = Record(**{name: data[name] for name in _NAMES if name in data}, unknown=unknown)
    for name, rule in _FIELDS.items():
        value = getattr(record, name)
        if not rule.good(value):
            raise ValueError(f"{name} is {repr(value)[:40]}; allowed: {rule.allowed}")
    if record.objective in ("energy", "edp") and record.energy_mj is None:
        raise ValueError(f"energy_mj is None; {record.objective!r} was made least")
    return replace(record, next=[{"config": one["config"], "time_ms": one["time_ms"]} for one in record.next])


_NAMES = [f.name for f in fields(Record) if f.name != "unknown"]
_NEEDED = {f.name for f in fields(Record) if f.default is MISSING and f.default_factory is MISSING}


def _line(value: Any) -> bool:
    return isinstance(value, str) and value.isprintable() and len(value) < 1000


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e300


def _time(value: Any) -> bool:
    return _number(value) and value >= SHORTEST_MS


def _count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63


def _value(value: Any) -> bool:
    return _line(value) if isinstance(value, str) else isinstance(value, int | float) and abs(value) <= 2**64


def _mapping(good: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, dict) and all(_line(k) and good(v) for k, v in value.items())


def _or_none(good: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: value is None or good(value)


_config = _mapping(_value)


def _runners_up(value: Any) -> bool:
    return isinstance(value, list) and all(
        isinstance(v, dict) and _config(v.get("config")) and _time(v.get("time_ms")) for v in value
    )


class _Rule(NamedTuple):
    """Whether a value may stand in a field, and what may."""

    good: Callable[[Any], bool]
    allowed: str


_TEXT = _Rule(_line, "a line of text")
_COUNT = _Rule(_count, "a whole number from 0 on")
_NUMBER = _Rule(_number, "a number from 0 on")
_TIME = _Rule(_time, f"a number from {SHORTEST_MS:g} on")


def _optional(rule: _Rule) -> _Rule:
    return _Rule(_or_none(rule.good), f"{rule.allowed}, or null")


_FIELDS: Mapping[str, _Rule] = {
    **dict.fromkeys(("device", "kind", "architecture", "signature", "toolchain", "strategy", "date", "version"), _TEXT),
    **dict.fromkeys(("objective", "caches"), _TEXT),
    "spread": _NUMBER,
    **dict.fromkeys(("rounds", "configurations", "evaluated"), _COUNT),
    **dict.fromkeys(("error", "bound", "gflops", "library_ms", "vs_library"), _optional(_NUMBER)),
    "library": _optional(_TEXT),
    "time_ms": _TIME,
    "sizes": _Rule(_mapping(lambda value: _count(value) and value > 0), "whole numbers from 1 on, by name"),
    "options": _Rule(_mapping(lambda value: isinstance(value, int | float) and abs(value) < 1e300), "numbers by name"),
    "failed": _Rule(_mapping(_count), "whole numbers by reason"),
    "config": _Rule(_config, "numbers and text by name"),
    "next": _Rule(_runners_up, "a list of objects with config and time_ms"),
    "throttled": _Rule(lambda value: isinstance(value, list) and all(_line(v) for v in value), "a list of text"),
    **dict.fromkeys(("energy_mj", "clock_mhz", "occupancy", "gbytes"), _optional(_NUMBER)),
    "default_ms": _optional(_TIME),
    **dict.fromkeys(("registers", "spills"), _optional(_COUNT)),
}
