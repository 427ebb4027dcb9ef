"""Collect the measured times of a family's configurations on one device, from records and time tables."""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from tuner.classes import cached_property
from tuner.families.code import Code, SizedCode
from tuner.prediction import launch_overhead
from tuner.prediction.grids import Sizes
from tuner.space.config import Config, ConfigKey, config_key
from tuner.space.deployments import GRAPH
from tuner.space.model import Space
from tuner.space.scope import Scope
from tuner.store import lookup
from tuner.store.lookup import Query
from tuner.store.record import Record

if TYPE_CHECKING:
    from tuner.store.time_tables import TimeTable

LOSING = 2.0  # a configuration is dropped if, at every measured size, it takes more than LOSING times the best


@dataclass(eq=False)
class Known:
    """The measured times of a configuration, or of the library if `space` is None.

    `times` maps sizes to times in ms. `records` maps sizes to the record that contains the time, and the
    configuration's rank in it. `sibling` is the device on which the times were measured, empty if it is this device.
    """

    space: Space | None
    config: Config
    times: dict[Sizes, float] = field(default_factory=dict)
    records: dict[Sizes, tuple[Record, int]] = field(default_factory=dict)
    sibling: str = ""
    sizes: Callable[[], Iterable[Sizes]] | None = None  # at which it was measured; None: those of `times`
    _is_possible: bool | None = None  # valid at some size; None: not evaluated yet
    _last: tuple[Scope, bool] | None = None  # the problem evaluated last, and whether it is valid for it
    _codes: set[Code] = field(default_factory=set)  # at the measured sizes that have been evaluated

    def is_valid(self, scope: Scope) -> bool:
        """Whether it is valid for this problem. Restrictions that do not depend on sizes are evaluated only once, and
        the others once for this object of a problem, of which the prediction and the choice ask."""
        space = self.space
        if space is None:
            return True
        if self._is_possible is None:
            self._is_possible = space.possible(self.config, scope)
        if (last := self._last) is None or last[0] is not scope:  # another thread may ask of another problem
            is_valid = self._is_possible and space.satisfies(self.config, scope, space.restrictions_of_sizes)
            last = self._last = scope, is_valid
        return last[1]

    @cached_property
    def launches(self) -> int:
        """The steps that a call launches; 0 if it calls the library."""
        return 0 if self.space is None or self.space.is_of_library else len(self.space.steps)

    def has_code(self, code: SizedCode, scope: Scope) -> bool:
        """Whether the code for this problem is the same as at one of the measured sizes."""
        values = code.values_at(self.config, scope)
        while values not in self._codes and self._unevaluated:
            self._codes.add(code.values_at(self.config, scope, self._unevaluated.pop()))
        return values in self._codes

    def nearest_record(self, sizes: Sizes) -> tuple[Record | None, int]:
        """The record of the nearest size, None if there is none, and the configuration's rank in it."""
        if not self.records:
            return None, 0
        logarithms = _logarithms(sizes)
        distances = [math.dist(each, logarithms) for each in self._record_logarithms]
        return self._record_ranks[distances.index(min(distances))]

    @cached_property
    def _record_logarithms(self) -> list[tuple[float, ...]]:
        return [*map(_logarithms, self.records)]

    @cached_property
    def _record_ranks(self) -> list[tuple[Record, int]]:
        return [*self.records.values()]

    @cached_property
    def _unevaluated(self) -> list[Sizes]:
        return [*(self.times if self.sizes is None else self.sizes())]


class Knowledge:
    """Collects the times of several kernels' configurations on one device, and the library's times.

    `launch_ms` is the usual launch overhead in ms, to which `all` adjusts the times; None if unknown.
    """

    def __init__(self, library: bool, uncollected: Mapping[float, int] | None = None, takes_all: bool = False) -> None:
        """`library`: whether to collect the library's times. `uncollected` counts the times by launch overhead that are
        known, but will not be added. `takes_all`: whether to collect configurations that a space does not declare, too,
        which are valid nowhere: to find them takes long; and algorithms of the library, whose numbers mean others at
        other sizes."""
        self._with_library, self._takes_all = library, takes_all
        self._counts = Counter[float](uncollected or {})
        self._added: list[tuple[Known, Mapping[Sizes, float], float | None]] = []  # with the launch overhead
        self.launch_ms: float | None = None
        self._known: dict[tuple[int, ConfigKey], Known] = {}
        self._library = Known(None, {})

    def all(self) -> list[Known]:
        """The configurations, and the library if its times are known, without those that lose at every size.

        Times are normalised to the usual launch overhead.
        """
        self._attach_times()
        known = [*self._known.values(), *([self._library] if self._library.times else [])]
        best: dict[Sizes, float] = {}
        for each in known:
            for sizes, time_ms in each.times.items():
                best[sizes] = min(best.get(sizes, math.inf), time_ms)
        return [each for each in known if any(time_ms <= LOSING * best[sizes] for sizes, time_ms in each.times.items())]

    def _attach_times(self) -> None:
        """Attach the collected times to their configurations; library times from records win."""
        for _, times, launch_ms in self._added:
            if launch_ms:
                self._counts[launch_ms] += len(times)
        self.launch_ms = launch_overhead.usual(self._counts)
        for known, times, launch_ms in self._added:
            known.times = {**launch_overhead.all_adjusted(times, launch_ms, self.launch_ms), **known.times}
        for sizes, (record, _) in self._library.records.items():
            assert record.library_ms is not None
            self._library.times[sizes] = launch_overhead.adjusted(record.library_ms, record.launch_ms, self.launch_ms)
        self._added.clear()

    def _takes(self, space: Space, config: Config) -> bool:
        return self._takes_all or (space.declares(config) and not space.is_of_library)

    def _of(self, space: Space, config: Config) -> Known:
        return self._known.setdefault((id(space), config_key(config)), Known(space, config))

    def add_records(self, records: Iterable[Record], query: Query) -> None:
        """Add the comparable records of the query's kernel."""
        space, names = query.space, list(query.space.operation.sizes)
        signatures: dict[Sizes, str] = {}  # of each size's best-fitting record; others had other inputs and are skipped
        # The look-up needs some size; its order by distance does not matter here.
        any_size = replace(query, scope=_scope_at(query.scope, names, (1,) * len(names)))
        for record in lookup.comparable(records, any_size):
            sizes = tuple(record.sizes[name] for name in names)
            if signatures.setdefault(sizes, record.signature) != record.signature:
                continue
            for rank, (config, time_ms) in enumerate(record.timed):
                known = self._of(space, config) if self._takes(space, config) else None
                if known is not None and sizes not in known.records:
                    known.records[sizes] = record, rank
                    self._added.append((known, {sizes: time_ms}, record.launch_ms))
            if self._with_library and record.library_ms:
                present, _ = self._library.records.get(sizes, (None, 0))
                # Of several records of a size, the one with the fastest configuration provides the library's time.
                if (
                    present is None
                    or launch_overhead.adjusted(record.time_ms, record.launch_ms, present.launch_ms) < present.time_ms
                ):
                    self._library.records[sizes] = record, 0

    def add_tables(self, tables: Iterable[TimeTable], query: Query) -> None:
        """Add those time tables of a kernel that serve the query. Times from records, added before, take precedence.

        At a size at which the kernel was measured in graphs, its other times do not count: calls that a program repeats
        launch its steps as a graph, which takes less time than to launch one after the other.
        """
        space, in_graphs = query.space, set[Sizes]()
        serving = [table for table in tables if table.serves(query)]
        for table in sorted(serving, key=lambda table: table.deployment != GRAPH):
            is_of_graphs = table.deployment == GRAPH
            for key, config in table.configs.items():
                times = table.times[key]
                if not is_of_graphs:
                    times = {sizes: time_ms for sizes, time_ms in times.items() if sizes not in in_graphs}
                if self._takes(space, config):
                    self._added.append((self._of(space, config), times, table.launch_ms))
            if is_of_graphs:
                in_graphs.update(table.sizes)
            if self._with_library:
                self._added.append((self._library, table.library, table.launch_ms))


@functools.lru_cache(maxsize=1 << 14)
def _logarithms(sizes: Sizes) -> tuple[float, ...]:
    return tuple(map(math.log, sizes))


def distance(one: Sizes, other: Sizes) -> float:
    """The Euclidean distance between the logarithms of two sizes."""
    return math.dist(_logarithms(one), _logarithms(other))


def _scope_at(scope: Scope, names: Sequence[str], sizes: Sizes) -> Scope:
    return scope.at(dict(zip(names, sizes, strict=True)))
