"""A record of the store: the best configuration for one problem on one device, and how a file's line becomes one.

Nobody vouches for the data in a file, so `from_line` refuses every record with a field that breaks a rule.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import MISSING, asdict, dataclass, field, fields
from typing import TYPE_CHECKING, Any

from tuner.lockless import cached_property
from tuner.space.config import Config
from tuner.space.values.forms import NOTICES
from tuner.store.record_rules import FIELDS

if TYPE_CHECKING:
    from tuner.space.sources.rendering import Version

RUNNERS_UP = 8  # per record of a search, at most
LONGEST = 1 << 16  # characters per line


@dataclass(frozen=True)
class Record:
    """The best configuration for one problem on one device. Times are in ms, energies in mJ, `gflops` in GFLOP/s,
    `gbytes` in GB/s. `vs_peak` and `vs_memory` are their shares of the device's ceilings `peak` and `memory`, where
    these had been measured (`store.rates`).

    The finals took `rounds` rounds. `spread` is the interquartile range over the median. `vs_library` is the library's
    time over ours, and `default_ms` the time of the space's default, both measured in the same rounds, unless a default
    was too slow for that: then its time is of the search. `default_ties` where nothing tells which of the two is
    faster. `best_library` is the fastest of the library's algorithms, in these rounds too. `clock_mhz` and `throttled`
    describe the board meanwhile. `sustained` is what was measured back to back for seconds, of RUNNERS by name, each
    with `time_ms`, `clock_mhz` and `power_w` (W). Tuning minimised `objective`, with `caches` warm or cold before each
    run. `error` and `bound` are the verification's, and `verified` is the kind of the reference, `none` if nothing was
    compared; all are None in an imported record. `signature` names what was measured, with its data and reference;
    `code` the code alone. Earlier records have neither `verified` nor `code`. `registers`, `spills` (bytes) and
    `occupancy` (an upper bound, 0 to 1) are the build's. `protocol` is the number of the way in which it was timed
    (`measure.method`). It was right on `input_sets` sets of inputs, but for `wrong` elements that the tolerance allows.
    `skipped_mutants` are wrong outputs that the check need not reject: they equal the right one, or are meant. `types`
    are those that were chosen, of a kernel that has a choice. `default_spread` is the spread of `default_ms`, where the
    finals measured it, and `launch_ms` what a kernel that does nothing took, unless that is far below all of these
    (earlier records tell neither). `conclusions` are what `tune` said of them (`tuning.conclusions`).
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
    default_ties: bool = False
    energy_mj: float | None = None
    clock_mhz: float | None = None
    throttled: list[str] = field(default_factory=list)
    registers: int | None = None
    spills: int | None = None
    occupancy: float | None = None
    gbytes: float | None = None
    protocol: int = 1
    input_sets: int = 1
    wrong: int = 0
    skipped_mutants: list[str] = field(default_factory=list)
    types: dict[str, str] = field(default_factory=dict)
    verified: str | None = None
    code: str | None = None
    peak: str | None = None
    vs_peak: float | None = None
    memory: str | None = None
    vs_memory: float | None = None
    best_library: str | None = None
    best_library_ms: float | None = None
    vs_best_library: float | None = None
    sustained: dict[str, dict[str, float | None]] = field(default_factory=dict)
    default_spread: float | None = None
    launch_ms: float | None = None
    conclusions: list[str] = field(default_factory=list)
    unknown: dict[str, Any] = field(default_factory=dict, compare=False)  # fields of a newer version

    @property
    def is_verified(self) -> bool:
        """Whether its output was compared with a reference."""
        return self.error is not None and self.bound is not None and self.verified != "none"

    @property
    def is_imported(self) -> bool:
        """Whether somebody else measured it."""
        return not self.is_verified and self.verified is None

    @property
    def doubt(self) -> str:
        """The word for a record that is not verified; empty for one that is."""
        return "" if self.is_verified else "imported" if self.is_imported else "unverified"

    @property
    def origin(self) -> str:
        """The doubt, or what its outputs were compared with if that is code; empty for expressions and Python."""
        return self.doubt or NOTICES.get(self.verified or "", "")

    def is_of(self, version: Version) -> bool:
        """Whether this version's code is what was measured, whatever it is compared with."""
        return self.code == version.code if self.code else self.signature == version.signature

    @property
    def value(self) -> float:
        """What tuning minimised: ms, mJ, or their product."""
        energy = self.energy_mj or 0.0
        return {"energy": energy, "edp": energy * self.time_ms}.get(self.objective, self.time_ms)

    @property
    def is_plain(self) -> bool:
        """Whether it was tuned for time, with warm caches."""
        return (self.objective, self.caches) == ("time", "warm")

    @property
    def timed(self) -> list[tuple[Config, float]]:
        """Its best configuration and the runners-up, best first, each with its time in ms."""
        return [(self.config, self.time_ms), *((each["config"], each["time_ms"]) for each in self.next)]

    @property
    def configs(self) -> list[Config]:
        """The same configurations alone."""
        return [config for config, _ in self.timed]

    @property
    def key(self) -> str:
        """Records with the same key answer the same question; a store keeps one of them."""
        return json.dumps([self.problem, self.signature])

    @cached_property
    def problem(self) -> str:
        """What was asked for, whatever the kernel and its reference were then."""
        options = sorted((name, float(value)) for name, value in self.options.items())
        problem = [self.kind, self.device, sorted(self.sizes.items()), options, sorted(self.types.items())]
        return json.dumps([*problem, self.objective, self.caches])

    def to_json(self) -> dict[str, Any]:
        """All its fields by name, those of a newer version included."""
        data = asdict(self)
        unknown = data.pop("unknown")
        return {**data, **unknown}

    def to_line(self) -> str:
        """The record as one line of a store."""
        return json.dumps(self.to_json())

    @staticmethod
    def from_line(line: str) -> Record:
        """The record in `line`. Raises ValueError, saying why, if it holds none."""
        if len(line) > LONGEST:
            raise ValueError(f"{len(line)} characters; a record has at most {LONGEST}")
        try:
            return _from_json(json.loads(line))
        except RecursionError:
            raise ValueError("nested too deeply") from None


def better_first(records: Iterable[Record]) -> list[Record]:
    """`records` in their order, except that those with the same key stand together, best first, in the first one's
    place. A file that was edited by hand may hold several."""
    groups: dict[str, list[Record]] = {}
    for record in records:
        groups.setdefault(record.key, []).append(record)
    return [record for group in groups.values() for record in sorted(group, key=preference)]


def preference(record: Record) -> tuple[bool, int, float]:
    """A sort key, least for the record that merging prefers: verified before others, a later protocol before an earlier
    one, then by `value`."""
    return *rank(record), record.value


def rank(record: Record) -> tuple[bool, int]:
    """A sort key, least for the record that counts most, whatever the values."""
    return not record.is_verified, -record.protocol


def _from_json(data: Any) -> Record:
    if not isinstance(data, dict):
        raise ValueError("not a record")
    missing = sorted(_REQUIRED - data.keys())
    if missing:
        raise ValueError(f"no {', '.join(missing)}")
    unknown = {name: value for name, value in data.items() if name not in _NAMES}
    record = Record(**{name: data[name] for name in _NAMES if name in data}, unknown=unknown)
    for name, rule in FIELDS.items():
        value = getattr(record, name)
        if not rule.accepts(value):
            raise ValueError(f"{name} is {repr(value)[:40]}; allowed: {rule.allowed}")
    if record.objective in ("energy", "edp") and record.energy_mj is None:
        raise ValueError(f"energy_mj is None; {record.objective!r} was minimised")
    return record


_NAMES = [f.name for f in fields(Record) if f.name != "unknown"]
_REQUIRED = {f.name for f in fields(Record) if f.default is MISSING and f.default_factory is MISSING}
