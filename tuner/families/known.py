"""What is known of the kernels of a family on one device: configurations with their times, of records and tables."""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from tuner.families.code import Code, SizedCode
from tuner.lockless import cached_property
from tuner.prediction import launch_overhead
from tuner.prediction.grids import Sizes
from tuner.space.config import Config, ConfigKey, config_key
from tuner.space.model import Space
from tuner.space.scope import Scope
from tuner.store import lookup
from tuner.store.lookup import Query
from tuner.store.record import Record

if TYPE_CHECKING:
    from tuner.store.time_tables import TimeTable

LOSING = 2.0  # times the best of the family wherever it was measured: such a configuration is not considered elsewhere


@dataclass(eq=False)
class Known:
    """A configuration of a kernel, or the library where `space` is None, its times in ms by size, and the records that
    have some of them. `sibling` is the device that lends them, where nothing was measured on this one."""

    space: Space | None
    config: Config
    times: dict[Sizes, float] = field(default_factory=dict)
    records: dict[Sizes, tuple[Record, int]] = field(default_factory=dict)  # and the rank in it
    sibling: str = ""
    _is_possible: bool | None = None  # at some size; None: not looked at
    _codes: set[Code] = field(default_factory=set)  # at the sizes where it was measured, as far as they were looked at

    def is_valid(self, scope: Scope) -> bool:
        """Whether it may run at a size. What sizes do not change is looked at once: scopes differ in nothing else."""
        space = self.space
        if space is None:
            return True
        if self._is_possible is None:
            self._is_possible = space.possible(self.config, scope)
        return self._is_possible and space.satisfies(self.config, scope, space.restrictions_of_sizes)

    def has_code(self, code: SizedCode, scope: Scope) -> bool:
        """Whether its code at a size is that of one at which it was measured."""
        here = code.at(self.config, scope)
        while here not in self._codes and self._unseen:
            self._codes.add(code.at(self.config, scope, self._unseen.pop()))
        return here in self._codes

    def nearest_record(self, sizes: Sizes) -> tuple[Record | None, int]:
        """The record at the size that is nearest to this one, if there is any, and the rank in it."""
        if not self.records:
            return None, 0
        here = _logarithms(sizes)
        distances = [math.dist(there, here) for there in self._places]  # each choice asks for it
        return self._in_order[distances.index(min(distances))]

    @cached_property
    def _places(self) -> list[tuple[float, ...]]:
        return [*map(_logarithms, self.records)]

    @cached_property
    def _in_order(self) -> list[tuple[Record, int]]:
        return [*self.records.values()]

    @cached_property
    def _unseen(self) -> list[Sizes]:
        return [*self.times]


class Knowledge:
    """The configurations of several kernels whose times may be compared, and the library's times beside them."""

    def __init__(self, library: bool) -> None:
        """`library`: whether that is a candidate."""
        self._with_library = library
        self._taken: list[tuple[Known, Mapping[Sizes, float], float | None]] = []  # with what a launch took
        self.launch_ms: float | None = None  # what is usual, where it is told
        self._found: dict[tuple[int, ConfigKey], Known] = {}
        self._library = Known(None, {})

    def all(self) -> list[Known]:
        """The configurations, and the library where its times are known; without those that lose at every size. Times
        are as where a launch takes what is usual."""
        self._attach_times()
        known = [*self._found.values(), *([self._library] if self._library.times else [])]
        best: dict[Sizes, float] = {}
        for each in known:
            for sizes, time_ms in each.times.items():
                best[sizes] = min(best.get(sizes, math.inf), time_ms)
        return [each for each in known if any(time_ms <= LOSING * best[sizes] for sizes, time_ms in each.times.items())]

    def _attach_times(self) -> None:
        """Give what was taken in to those that it is of. The library's times in records count before all others."""
        counts = Counter[float]()
        for _, times, launch_ms in self._taken:
            if launch_ms:
                counts[launch_ms] += len(times)
        self.launch_ms = launch_overhead.usual(counts)
        for known, times, launch_ms in self._taken:
            known.times = {**launch_overhead.all_adjusted(times, launch_ms, self.launch_ms), **known.times}
        for sizes, (record, _) in self._library.records.items():
            assert record.library_ms is not None
            self._library.times[sizes] = launch_overhead.adjusted(record.library_ms, record.launch_ms, self.launch_ms)
        self._taken.clear()

    def _of(self, space: Space, config: Config) -> Known:
        return self._found.setdefault((id(space), config_key(config)), Known(space, config))

    def add_records(self, records: Iterable[Record], query: Query) -> None:
        """Take in records of the query's kernel."""
        space, names = query.space, list(query.space.operation.sizes)
        signatures: dict[Sizes, str] = {}  # the latest: with other inputs, times differ
        # At no size of their own, records are merely those of the device.
        anywhere = replace(query, scope=_at(query.scope, names, (1,) * len(names)))
        for record in lookup.comparable(records, anywhere):
            sizes = tuple(record.sizes[name] for name in names)
            if signatures.setdefault(sizes, record.signature) != record.signature:
                continue
            for rank, (config, time_ms) in enumerate(record.timed):
                known = self._of(space, config) if space.declares(config) else None
                if known is not None and sizes not in known.records:
                    known.records[sizes] = record, rank
                    self._taken.append((known, {sizes: time_ms}, record.launch_ms))
            if self._with_library and record.library_ms:
                held, _ = self._library.records.get(sizes, (None, 0))
                # Beside the best of ours.
                if (
                    held is None
                    or launch_overhead.adjusted(record.time_ms, record.launch_ms, held.launch_ms) < held.time_ms
                ):
                    self._library.records[sizes] = record, 0

    def add_table(self, table: TimeTable, query: Query) -> None:
        """Take in a table that serves the query. Times of records count before those of tables."""
        space = query.space
        if not table.serves(query):
            return
        for key, config in table.configs.items():
            if space.declares(config):
                self._taken.append((self._of(space, config), table.times[key], table.launch_ms))
        if self._with_library:
            self._taken.append((self._library, table.library, table.launch_ms))


@functools.lru_cache(maxsize=1 << 14)
def _logarithms(sizes: Sizes) -> tuple[float, ...]:
    return tuple(map(math.log, sizes))


def distance(one: Sizes, other: Sizes) -> float:
    """How far two sizes are apart: the Euclidean distance of their logarithms."""
    return math.dist(_logarithms(one), _logarithms(other))


def _at(scope: Scope, names: Sequence[str], sizes: Sizes) -> Scope:
    return scope.at(dict(zip(names, sizes, strict=True)))
