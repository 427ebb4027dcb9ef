"""What the times of one device foretell at any size of a family: of this device, or of its sibling."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from statistics import median
from typing import TYPE_CHECKING

from tuner.devices import Device
from tuner.families.known import Knowledge, Known, distance
from tuner.lockless import cached_property
from tuner.prediction import launch_overhead
from tuner.prediction.grids import Measured, Sizes
from tuner.prediction.library_tiles import LibraryTiles
from tuner.prediction.model import TimeModel
from tuner.space.config import ConfigKey, config_key
from tuner.space.scope import Scope
from tuner.store.lookup import Query

if TYPE_CHECKING:
    from tuner.store.record import Record
    from tuner.store.time_tables import TimeTable

SHARED = 8  # sizes at which both were measured, with which a sibling's times of a configuration are lent


class Forecast:
    """The configurations that were measured on one device, and a model of their times between sizes."""

    def __init__(
        self,
        queries: Sequence[Query],
        records: Sequence[Sequence[Record]],
        tables: Sequence[Sequence[TimeTable]],
        device: Device,
        library: bool,
        tiles: LibraryTiles,
        of: str = "",
        sibling: Forecast | None = None,
    ) -> None:
        """`queries` are those of the kernels on `device`, which share the order of sizes, and by kernel there are
        `records` and `tables`; those of the device named `of` count, in the place of its own. `library`: whether the
        vendor's is a candidate, and `tiles` tells how that runs at a size. A `sibling` lends the model its times."""
        self.device = of or device.name
        knowledge = Knowledge(library)
        for query, own, measured in zip(queries, records, tables, strict=True):
            query = replace(query, device=self.device)
            knowledge.add_records(own, query)
            for table in measured:
                knowledge.add_table(table, query)
        self.known: list[Known] = knowledge.all()
        self.launch_ms = knowledge.launch_ms  # what is usual
        self._scope, self._units, self._cache = queries[0].scope if queries else None, device.units, device.last_cache
        self._tiles, self._lender = tiles, sibling

    @cached_property
    def _model(self) -> TimeModel | None:
        if self._scope is None or len(self.known) < 2:
            return None
        times = [{**self._lent_elsewhere(each), **each.times} for each in self.known]
        times += [each.times for each in self._borrowed]
        entries = [Measured(e.space, e.config, of) for e, of in zip(self._candidates, times, strict=True)]
        return TimeModel(entries, self._scope, self._units, self._cache or 0, self._tiles)

    @cached_property
    def _borrowed(self) -> list[Known]:
        """What was measured on the sibling alone, at several sizes, of kernels that were measured here; with the times
        that are expected here."""
        if self._lender is None:
            return []
        others = [each for each in self._lender.known if _key(each) not in self._own and len(each.times) >= SHARED]
        lent = [(each, self._lent(each)) for each in others]
        return [Known(each.space, each.config, times, sibling=self._lender.device) for each, times in lent if times]

    @cached_property
    def _candidates(self) -> list[Known]:
        return [*self.known, *self._borrowed]

    def _lent_elsewhere(self, known: Known) -> dict[Sizes, float]:
        """What is lent at sizes where nothing was measured here."""
        return {sizes: time_ms for sizes, time_ms in self._lent(known).items() if sizes not in self._sizes}

    def _lent(self, known: Known) -> dict[Sizes, float]:
        """The sibling's times of a configuration, times the median of the ratios of those that both have; where these
        are few, that of the kernel's configurations."""
        of_kernel = self._ratios.get(id(known.space), {})
        if not of_kernel:
            return {}
        ratio = of_kernel.get(config_key(known.config)) or median(of_kernel.values())
        return {sizes: ratio * time_ms for sizes, time_ms in self._sibling_times.get(_key(known), {}).items()}

    @cached_property
    def _ratios(self) -> dict[int, dict[ConfigKey, float]]:
        """By kernel and configuration the median of the ratios of times here to the sibling's, where there are
        several."""
        found: dict[int, dict[ConfigKey, float]] = {}
        for known in self.known:
            theirs = self._sibling_times.get(_key(known), {})
            ratios = [known.times[sizes] / theirs[sizes] for sizes in known.times.keys() & theirs.keys()]
            if len(ratios) >= SHARED:
                found.setdefault(id(known.space), {})[config_key(known.config)] = median(ratios)
        return found

    @cached_property
    def _sibling_times(self) -> dict[tuple[int, ConfigKey], dict[Sizes, float]]:
        """The sibling's times, as where a launch takes what it does here."""
        if self._lender is None:
            return {}
        there, here = self._lender.launch_ms, self.launch_ms
        return {_key(known): launch_overhead.all_adjusted(known.times, there, here) for known in self._lender.known}

    @cached_property
    def _own(self) -> frozenset[tuple[int, ConfigKey]]:
        return frozenset(map(_key, self.known))

    @property
    def regret(self) -> float | None:
        """What choices by the model are expected to lose; None where it is not to be trusted."""
        return None if self._model is None else self._model.regret

    def nearest(self, sizes: Sizes) -> list[Sizes]:
        """The sizes at which something was measured, the nearest first."""
        return sorted(self._sizes, key=lambda there: distance(there, sizes))

    @cached_property
    def _sizes(self) -> frozenset[Sizes]:
        return frozenset(sizes for known in self.known for sizes in known.times)

    def ranked(self, scope: Scope) -> Iterator[Known]:
        """What has a time by the model at the size of `scope`, the least first; nothing where that is not to be
        trusted."""
        if self._model is None or self.regret is None:
            return
        times = self._model.times(scope.sizes)
        for position in times.argsort(kind="stable"):
            if math.isfinite(times[position]):
                yield self._candidates[position]


def _key(known: Known) -> tuple[int, ConfigKey]:
    return id(known.space), config_key(known.config)
