"""The look-up: rank the records for a problem on a device."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from operator import attrgetter
from typing import TYPE_CHECKING, Literal

from tuner.classes import dataclass
from tuner.devices.conditions import DEFAULT, Conditions
from tuner.errors import DeviceError
from tuner.space.config import Config, ConfigKey, config_key
from tuner.space.default import first_valid
from tuner.space.deployments import ISOLATED, Deployment
from tuner.space.model import Space
from tuner.space.scope import Scope
from tuner.space.sources.rendering import Version
from tuner.store.board_names import chip, normalised
from tuner.store.record import Record

if TYPE_CHECKING:
    from tuner.devices import Device, DeviceInfo
    from tuner.prediction.grids import Sizes

Match = Literal["exact", "predicted", "nearest_size", "architecture", "other_device", "default"]
MATCHES: tuple[Match, ...] = ("exact", "predicted", "nearest_size", "architecture", "other_device", "default")
MOST_PREDICTED = 3  # predicted candidates before those of the nearest size, in case the first does not launch


@dataclass(frozen=True)
class Query:
    """The input of a look-up: a kernel in its current version, a problem, and a device by name.

    `units` is the device's number of multiprocessors or cores, `cache` the size of its last-level cache in bytes; 0 if
    unknown. `conditions` are those of this process, or the defaults for a device that is not in this machine.
    `deployment` is how the caller launches the kernel. `library` returns the vendor's library with its version, if the
    kernel's configurations are algorithms of it; an empty text if that is unknown.
    """

    space: Space
    scope: Scope
    device: str
    kind: str
    architecture: str
    version: Version
    units: int = 0
    cache: int = 0
    conditions: Conditions = DEFAULT
    deployment: Deployment = ISOLATED
    library: Callable[[], str] = field(default=str, compare=False)  # asked only if there is a record

    @staticmethod
    def of(space: Space, scope: Scope, device: Device | DeviceInfo) -> Query:
        """The query for a device of this machine."""
        version = Version.of(space)
        cache = device.last_cache or 0
        about = device.name, device.kind, device.architecture, version, device.units, cache, device.conditions
        return Query(space, scope, *about, library=functools.partial(_library, space, device))

    def is_of(self, record: Record) -> bool:
        """Whether a record is of this problem, on this device in its conditions."""
        scope = self.scope
        about = record.kind, record.device, record.sizes, record.options, record.types, Conditions(record.conditions)
        asked = dict(scope.sizes), dict(scope.options), dict(scope.types)
        return about == (self.kind, self.device, *asked, self.conditions)


@dataclass(frozen=True)
class Candidate:
    """A configuration that a look-up offers, how well it matches, and its record (None for the default).

    stale: whether the record belongs to an earlier version of the kernel.
    notes: warnings for the user.
    variant: whether the record's device is a variant of the query's device. If only the vendor's name is written
        differently, the match is at best `nearest_size`. If it is another board with the same chip, the match is at
        best `architecture`.
    rank: 0 for the record's best configuration, n for its n-th runner-up.
    regret: the expected regret of a predicted configuration (0.02 = 2 %), else None.
    sibling: the device whose times predict this configuration; empty if this device's own times do.
    rejected: why the configuration failed verification on this machine; empty if it did not fail.
    conditions: how the record's conditions differ from the query's; empty if they are the same, or if the record is of
        another device. With other conditions, the match is at best `nearest_size`.
    """

    config: Config
    match: Match
    record: Record | None = None
    stale: bool = False
    notes: tuple[str, ...] = ()
    variant: bool = False
    rank: int = 0
    regret: float | None = None
    sibling: str = ""
    rejected: str = ""
    conditions: str = ""

    @property
    def is_exact(self) -> bool:
        """Whether its record is of the same code, problem and device, and it has not failed verification since."""
        return self.match == "exact" and not self.stale and not self.rejected


@dataclass(frozen=True)
class Fit:
    """A record and how it fits a query.

    `same_code`: its options render to the same code as the query's. `conditions`: how its conditions differ from the
    query's; empty if they do not, or if the record is of another device.
    """

    record: Record
    match: Match
    variant: bool
    stale: bool
    same_code: bool
    conditions: str

    @property
    def is_comparable(self) -> bool:
        """Whether its times may be compared with other times of the same device."""
        of_device = self.match in ("exact", "nearest_size") and not self.variant and not self.conditions
        return of_device and not self.stale and self.same_code and self.record.is_plain and self.record.is_verified


def _library(space: Space, device: Device | DeviceInfo) -> str:
    """The vendor's library with its version, if the configurations of `space` are algorithms of it."""
    if not space.is_of_library:
        return ""
    ask = getattr(device, "toolchain_of", None)  # a DeviceInfo has the toolchain of its space
    try:
        return library_in(device.toolchain if ask is None else ask(space.compiler))
    except DeviceError:
        return ""


def library_in(toolchain: str) -> str:
    """The part of a toolchain that names the compiler, or the library, with its version."""
    return toolchain.partition(",")[0]


def best_fits(records: Iterable[Record], query: Query) -> list[Fit]:
    """The records that have the query's size names and types, the best fit first.

    Their configurations may not be valid at the query's sizes.
    """
    scope = query.scope
    entries, records = [], list(records)
    options = {name: scope.options[name] for name in query.space.fixed_options}
    latest: dict[str, Record] = {}
    for record in records:
        latest[record.problem] = max(latest.get(record.problem, record), record, key=attrgetter("date"))
    for position, record in enumerate(records):
        if record.sizes.keys() != scope.sizes.keys() or record.types != scope.types:
            continue
        distance = size_distance(record.sizes, scope.sizes)
        fit = _fit(record, query, distance, options)
        level = MATCHES.index(fit.match)
        if record.is_imported:
            level = max(level, MATCHES.index("architecture"))
        order = (
            fit.stale,
            not record.is_of_deployment(query.deployment),
            not record.is_plain,
            level,
            not record.is_verified,
            record.kind != query.kind,
            bool(fit.conditions),
            distance,
            fit.variant == (fit.match == "nearest_size"),  # variants: after this device, but before other boards
            record.options != scope.options,
            # A later record of the same code may have a different reference. Of the same signature, the best is first.
            record.signature != latest[record.problem].signature,
            position,
        )
        entries.append((order, fit))
    return [fit for _, fit in sorted(entries, key=lambda entry: entry[0])]


def candidates(records: Iterable[Record], query: Query) -> Iterator[Candidate]:
    """The configurations that are valid for this problem on this device, best first.

    The order is:
    1. exact matches; if there are none, at most MOST_PREDICTED configurations with the shortest predicted times;
    2. the best configuration and the runners-up of each record;
    3. the default.

    Raises NoConfiguration if no configuration is valid.
    """
    space, scope = query.space, query.scope
    keys: set[ConfigKey] = set()
    fits = best_fits(records, query)
    if space.is_of_library:
        fits = [fit for fit in fits if fit.match == "exact" and not fit.stale]
    for fit in fits:
        for rank, config in enumerate(fit.record.configs):
            if config_key(config) in keys or not space.valid(config, scope):
                continue
            if not keys and fit.match == "nearest_size" and not _is_usual_one(fit, query):
                for predicted in itertools.islice(_predicted(fits, query), MOST_PREDICTED):
                    keys.add(config_key(predicted.config))
                    yield predicted
            if config_key(config) not in keys:
                keys.add(config_key(config))
                notes, conditions = _notes(fit, space), fit.conditions
                yield Candidate(
                    config, fit.match, fit.record, fit.stale, notes, fit.variant, rank, conditions=conditions
                )
    default = first_valid(space, scope)
    if config_key(default) not in keys:
        yield Candidate(default, "default")


def _is_usual_one(fit: Fit, query: Query) -> bool:
    """Whether a record is no exact match only because the caller launches in another way than most."""
    is_here = fit.record.sizes == dict(query.scope.sizes) and not fit.conditions and not fit.variant
    return query.deployment != ISOLATED and is_here and fit.record.is_plain


def comparable(records: Iterable[Record], query: Query) -> list[Record]:
    """The records of the kernel's current version whose times on this device may be compared, the best fit first."""
    return [fit.record for fit in best_fits(records, query) if fit.is_comparable]


def _predicted(fits: Iterable[Fit], query: Query) -> Iterator[Candidate]:
    """The valid configurations by predicted time, shortest first; none if the time model is not to be trusted."""
    usable = [fit for fit in fits if fit.is_comparable]
    known = known_times((fit.record for fit in usable), list(query.scope.sizes))
    if not query.units or len(known) < 2:
        return
    from tuner.prediction.grids import Measured  # the model is imported only if there is no exact match
    from tuner.prediction.model import TimeModel

    entries = [Measured(query.space, config, times) for config, times in known.values()]
    model = TimeModel(entries, query.scope, query.units, query.cache)
    if model.regret is None:
        return
    is_valid = functools.cache(lambda position: query.space.valid(entries[position].config, query.scope))
    times = model.times(query.scope.sizes, is_valid=is_valid)
    for position in times.argsort(kind="stable").tolist():
        config = entries[position].config
        if math.isfinite(times[position]) and is_valid(position):
            fit = next(fit for fit in usable if config in fit.record.configs)
            rank = fit.record.configs.index(config)
            notes = _notes(fit, query.space)
            yield Candidate(config, "predicted", fit.record, notes=notes, rank=rank, regret=model.regret)


def known_times(records: Iterable[Record], names: Sequence[str]) -> dict[ConfigKey, tuple[Config, dict[Sizes, float]]]:
    """The configurations of records, each with its times in ms by sizes, in the order of `names`.

    If several records have a time for a configuration and a size, the first record counts.
    """
    known: dict[ConfigKey, tuple[Config, dict[Sizes, float]]] = {}
    for record in records:
        sizes = tuple(record.sizes[name] for name in names)
        for config, time_ms in record.timed:
            known.setdefault(config_key(config), (config, {}))[1].setdefault(sizes, time_ms)
    return known


def _fit(record: Record, query: Query, distance: float, options: Mapping[str, float]) -> Fit:
    """How a record fits. `options` are the query's options on which the code depends."""
    is_device = (record.kind, record.device) == (query.kind, query.device)
    has_architecture = (record.kind, record.architecture) == (query.kind, query.architecture)
    may_be_alike = record.kind == query.kind and record.architecture in (query.architecture, "")  # "" if imported
    is_variant = may_be_alike and not is_device and chip(record.device) == chip(query.device)
    is_board = is_variant and normalised(record.device) == normalised(query.device)
    same_code = all(record.options.get(name) == value for name, value in options.items())
    conditions = Conditions(record.conditions).instead_of(query.conditions) if is_device else ""
    match: Match = "architecture" if has_architecture else "other_device"
    if is_device or is_board:
        is_exact = is_device and distance == 0 and same_code and not record.is_imported and not conditions
        is_exact = is_exact and (query.deployment == ISOLATED or record.is_of_deployment(query.deployment))
        match = "exact" if is_exact else "nearest_size"
    is_stale = not record.is_of(query.version)
    if query.space.is_of_library and (library := query.library()):
        is_stale = is_stale or library_in(record.toolchain) != library
    return Fit(record, match, is_variant, is_stale, same_code, conditions)


def _notes(fit: Fit, space: Space) -> tuple[str, ...]:
    if fit.stale:
        note = "the record is of an earlier version of the kernel, which strict=True refuses; tune it again"
    elif fit.record.is_imported:
        note = "the record was imported and has not been verified here; `tune verify` does that"
    elif not fit.record.is_verified:
        note = "the record is unverified: its outputs were compared with nothing; name a reference and tune it"
    elif fit.conditions:
        note = f"the record was measured with {fit.conditions}; tune it under the conditions of this process"
    else:
        return ()
    return (f"{space.name}: {note}",)


def size_distance(a: Mapping[str, int], b: Mapping[str, int]) -> float:
    """The Euclidean distance between the logarithms of two sets of sizes with the same names."""
    return math.sqrt(sum(math.log(a[name] / b[name]) ** 2 for name in a))
