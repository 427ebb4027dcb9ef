"""A record of the store: the best configuration for one problem on one device, and its JSON form.

Files are untrusted input, so `Record.from_line` rejects every record with a field that breaks a rule of `record_rules`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import MISSING, asdict, field, fields
from typing import TYPE_CHECKING, Any

from tuner.classes import cached_property, dataclass
from tuner.space.config import Config
from tuner.space.deployments import CACHES, ISOLATED, Deployment
from tuner.space.values.forms import NOTICES
from tuner.store.record_rules import FIELDS

if TYPE_CHECKING:
    from tuner.space.sources.rendering import Version

FIXED = "fixed inputs"  # `verified` of records whose only set of inputs a program has drawn
UNVERIFIED: dict[str, Any] = dict.fromkeys(
    ("library", "library_ms", "vs_library", "error", "bound")
)  # fields of an imported record
RUNNERS_UP = 8  # most per record that a search writes
LONGEST = 1 << 16  # characters of a line


@dataclass(frozen=True)
class Record:
    """The best configuration for one problem on one device.

    The problem is `sizes`, `options` and `types` (the chosen dtypes by name), on `device`, of a `kind` such as cuda and
    an `architecture` such as sm_90a. Tuning minimised `objective` with warm or cold `caches`, a word that also says how
    the kernel was launched (`space.deployments`).

    Times are in ms, energies in mJ, `gflops` in GFLOP/s, `gbytes` in GB/s. `vs_peak` and `vs_memory` are shares of the
    device's ceilings named by `peak` and `memory`, if these had been measured (`store.rates`).

    The finals measured in `rounds` interleaved rounds. `spread` and `energy_spread` are interquartile ranges over
    medians. `next` are the runners-up. `default_ms` and `default_spread` are of the space's default; `default_ties` is
    True if it is indistinguishable from the best; `least_gain` is its shortest time over the best's. A default that is
    too slow for the finals has its time from the search. `library` is the vendor library's default algorithm,
    `best_library` its fastest, both from the same rounds; `vs_library` and `vs_best_library` are their times over this
    record's. `launch_ms` is the launch overhead, None if it is negligible or on a CPU. `clock_mhz` and `throttled`
    describe the device during the finals. `sustained` has measurements over seconds of back-to-back runs. A key is a
    runner (`record_rules.RUNNERS`), and its value has `time_ms`, `clock_mhz` and `power_w` (W). `conclusions` are the
    sentences that `tune` printed (`tuning.conclusions`).

    `error` and `bound` are the verification's. `verified` is the kind of reference, or the text `none` if there was no
    reference. In an imported record, these three fields are None. The outputs were right on `input_sets` sets of
    inputs, except for `wrong` elements that the tolerance allows. `compared_runs` runs of the best were compared one
    after the other, which reveals a fault in a fraction `fault_rate` of all runs with a probability of 99 %; None if
    unknown. `skipped_mutants` are wrong outputs that the check need not reject, because they equal the right one or the
    operation accepts them, or that were not tried. `accepted_mutants` are outputs of lower precision that the tolerance
    accepts; None if unknown.

    Configurations with equal bits form a class (`space.values.bit_classes`):

    - `bits`: the digests of the best's outputs.
    - `classes`: the number of classes among the right configurations of the search.
    - `class_size`: the number of configurations in the best's class.
    - `varying`: the number of configurations whose bits differ from run to run.
    - `default_class`, and `class` of a runner-up: the number of its class. The best's class has the number 0. None if
      the bits are unknown or vary.
    - `same_bits_as`: what `--same-bits-as` asked for; empty if nothing.

    Ties are described in `tuning.finals.ties`:

    - `interval`: holds the true median time of the best with a probability of 99 %, or less if `rounds` is below eight.
      If several processes timed it, it holds the median time in a further process with a probability of 95 %.
    - `tied`: the best, and the fastest of the other tied configurations, each with the interval of the ratio of its
      time to that of the fastest configuration.
    - `decided_by`: what decided between them; empty where no rule applies.

    `finalists` are the configurations of the finals, best first, each with its `time_ms` and `spread` there, and
    whether it is `tied` with the best.

    `signature` identifies the code, the data and the reference, `code` only the code. `registers`, `spills`,
    `local_memory` (both in bytes per thread) and `occupancy` (an upper bound, 0 to 1) are of the build. `protocol` is
    the version of the measurement protocol (`measure.method`). `conditions` are those of `devices.conditions`. Older
    records lack `verified`, `code`, `default_spread`, `least_gain`, `launch_ms` and `local_memory`.
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
    energy_spread: float | None = None
    clock_mhz: float | None = None
    throttled: list[str] = field(default_factory=list)
    registers: int | None = None
    spills: int | None = None
    local_memory: int | None = None
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
    least_gain: float | None = None
    launch_ms: float | None = None
    conclusions: list[str] = field(default_factory=list)
    compared_runs: int | None = None
    fault_rate: float | None = None
    conditions: dict[str, int | float | str] = field(default_factory=dict)
    accepted_mutants: list[str] | None = None
    bits: dict[str, str] = field(default_factory=dict)
    classes: int | None = None
    class_size: int | None = None
    varying: int | None = None
    default_class: int | None = None
    same_bits_as: str = ""
    interval: list[float] = field(default_factory=list)
    tied: list[dict[str, Any]] = field(default_factory=list)
    decided_by: str = ""
    finalists: list[dict[str, Any]] = field(default_factory=list)
    unknown: dict[str, Any] = field(default_factory=dict, compare=False)  # fields of a newer version

    @property
    def is_verified(self) -> bool:
        """Whether its output was compared with a reference."""
        return self.error is not None and self.bound is not None and self.verified != "none"

    @property
    def is_imported(self) -> bool:
        """Whether it was measured elsewhere and imported without verification."""
        return not self.is_verified and self.verified is None

    @property
    def doubt(self) -> str:
        """The word "imported" or "unverified"; empty if the record is verified."""
        return "" if self.is_verified else "imported" if self.is_imported else "unverified"

    @property
    def origin(self) -> str:
        """The doubt; else a notice if the reference is a kernel or a configuration; else empty."""
        return self.doubt or NOTICES.get(self.verified or "", "")

    def is_of(self, version: Version) -> bool:
        """Whether the record was measured with this version's code; the reference may differ."""
        return self.code == version.code if self.code else self.signature == version.signature

    @property
    def value(self) -> float:
        """The value of the objective: ms, mJ, or ms * mJ."""
        energy = self.energy_mj or 0.0
        return {"energy": energy, "edp": energy * self.time_ms}.get(self.objective, self.time_ms)

    @property
    def is_plain(self) -> bool:
        """Whether it was tuned for time, with warm caches, among configurations of any bits."""
        return self.is_of_deployment(ISOLATED)

    def is_of_deployment(self, deployment: Deployment) -> bool:
        """Whether it was tuned for time, launched in this way, among configurations of any bits."""
        return (self.objective, self.caches, self.same_bits_as) == ("time", CACHES[deployment], "")

    @property
    def timed(self) -> list[tuple[Config, float]]:
        """The best configuration and the runners-up, best first, each with its time in ms."""
        return [(self.config, self.time_ms), *((each["config"], each["time_ms"]) for each in self.next)]

    @property
    def configs(self) -> list[Config]:
        """The configurations of `timed`."""
        return [config for config, _ in self.timed]

    @property
    def key(self) -> str:
        """Identifies the problem and the signature; a store has one record per key."""
        return json.dumps([self.problem, self.signature])

    @cached_property
    def problem(self) -> str:
        """Identifies the problem, regardless of the version of the kernel and its reference."""
        options = sorted((name, float(value)) for name, value in self.options.items())
        problem = [self.kind, self.device, sorted(self.sizes.items()), options, sorted(self.types.items())]
        more: list[Any] = (
            [sorted(self.conditions.items())] if self.conditions else []
        )  # keys of older records lack them
        more += [f"same bits as {self.same_bits_as}"] if self.same_bits_as else []
        return json.dumps([*problem, self.objective, self.caches, *more])

    def to_json(self) -> dict[str, Any]:
        """All fields by name, including unknown ones of a newer version."""
        data = asdict(self)
        unknown = data.pop("unknown")
        return {**data, **unknown}

    def to_line(self) -> str:
        """The record as one line of a store."""
        return json.dumps(self.to_json())

    @staticmethod
    def from_line(line: str) -> Record:
        """Parse a line. Raises ValueError with the reason if it holds no valid record."""
        if len(line) > LONGEST:
            raise ValueError(f"{len(line)} characters; a record has at most {LONGEST}")
        try:
            return _from_json(json.loads(line))
        except RecursionError:
            raise ValueError("nested too deeply") from None


def better_first(records: Iterable[Record]) -> list[Record]:
    """Group records with the same key, best first, at the position of the first of them.

    A file that was edited by hand may contain several records of one key.
    """
    groups: dict[str, list[Record]] = {}
    for record in records:
        groups.setdefault(record.key, []).append(record)
    return [record for group in groups.values() for record in sorted(group, key=preference)]


def preference(record: Record) -> tuple[bool, bool, int, bool, float]:
    """Sort key of merging: verified records first, then later protocols, then smaller `value`."""
    return *rank(record), record.value


def rank(record: Record) -> tuple[bool, bool, int, bool]:
    """Sort key that ignores the values: verified records first, among them FIXED ones last, then later protocols, then
    energies with a spread.

    Energies without a spread are of earlier versions, which measured them less precisely.
    """
    is_imprecise = record.objective in ("energy", "edp") and record.energy_spread is None
    return not record.is_verified, record.verified == FIXED, -record.protocol, is_imprecise


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
