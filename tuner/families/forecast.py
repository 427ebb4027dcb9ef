"""Predict a family's times at any size from the times of one device: this one, or its sibling."""

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

SHARED = 8  # sizes measured on both devices that suffice to scale a sibling's times of a configuration


class Forecast:
    """The configurations measured on one device, and a time model trained on them.

    `known` are the configurations, `launch_ms` the usual launch overhead of their times.
    """

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
        """Collect the times of the kernels of `queries`; each has an item in `records` and in `tables`.

        The times are those of `device`, or of the device named `of`. `library`: whether the vendor library is a
        candidate; `tiles` returns how it tiles a problem. The times of `sibling` complete the training data.
        """
        self.device = of or device.name
        knowledge = Knowledge(library)
        for query, own, measured in zip(queries, records, tables, strict=True):
            query = replace(query, device=self.device)
            knowledge.add_records(own, query)
            for table in measured:
                knowledge.add_table(table, query)
        self.known: list[Known] = knowledge.all()
        self.launch_ms = knowledge.launch_ms
        self._scope, self._units, self._cache = queries[0].scope if queries else None, device.units, device.last_cache
        self._tiles, self._sibling = tiles, sibling

    @cached_property
    def _model(self) -> TimeModel | None:
        if self._scope is None or len(self.known) < 2:
            return None
        times = [{**self._scaled_at_other_sizes(each), **each.times} for each in self.known]
        times += [each.times for each in self._only_on_sibling]
        entries = [Measured(e.space, e.config, of) for e, of in zip(self._candidates, times, strict=True)]
        return TimeModel(entries, self._scope, self._units, self._cache or 0, self._tiles)

    @cached_property
    def _only_on_sibling(self) -> list[Known]:
        """The configurations measured only on the sibling, of kernels measured on this device, with scaled times."""
        if self._sibling is None:
            return []
        others = [each for each in self._sibling.known if _key(each) not in self._own and len(each.times) >= SHARED]
        scaled = [(each, self._scaled(each)) for each in others]
        return [Known(each.space, each.config, times, sibling=self._sibling.device) for each, times in scaled if times]

    @cached_property
    def _candidates(self) -> list[Known]:
        return [*self.known, *self._only_on_sibling]

    def _scaled_at_other_sizes(self, known: Known) -> dict[Sizes, float]:
        """The sibling's scaled times at sizes at which nothing was measured on this device."""
        return {sizes: time_ms for sizes, time_ms in self._scaled(known).items() if sizes not in self._sizes}

    def _scaled(self, known: Known) -> dict[Sizes, float]:
        """The sibling's times of a configuration, scaled to this device by the ratio of the two devices' times.

        The ratio is the configuration's; if too few sizes are shared, the median of the kernel's configurations.
        """
        of_kernel = self._ratios.get(id(known.space), {})
        if not of_kernel:
            return {}
        ratio = of_kernel.get(config_key(known.config)) or median(of_kernel.values())
        return {sizes: ratio * time_ms for sizes, time_ms in self._sibling_times.get(_key(known), {}).items()}

    @cached_property
    def _ratios(self) -> dict[int, dict[ConfigKey, float]]:
        """By kernel and configuration, the median ratio of this device's times to the sibling's.

        Only configurations with SHARED shared sizes have one.
        """
        medians: dict[int, dict[ConfigKey, float]] = {}
        for known in self.known:
            of_sibling = self._sibling_times.get(_key(known), {})
            ratios = [known.times[sizes] / of_sibling[sizes] for sizes in known.times.keys() & of_sibling.keys()]
            if len(ratios) >= SHARED:
                medians.setdefault(id(known.space), {})[config_key(known.config)] = median(ratios)
        return medians

    @cached_property
    def _sibling_times(self) -> dict[tuple[int, ConfigKey], dict[Sizes, float]]:
        """Sibling times, with this device's launch overhead."""
        if self._sibling is None:
            return {}
        measured_ms, target_ms = self._sibling.launch_ms, self.launch_ms
        return {
            _key(known): launch_overhead.all_adjusted(known.times, measured_ms, target_ms)
            for known in self._sibling.known
        }

    @cached_property
    def _own(self) -> frozenset[tuple[int, ConfigKey]]:
        return frozenset(map(_key, self.known))

    @property
    def regret(self) -> float | None:
        """The expected regret of the model's choices (0.02 = 2 %); None if the model is not to be trusted."""
        return None if self._model is None else self._model.regret

    def nearest(self, sizes: Sizes) -> list[Sizes]:
        """The measured sizes, the nearest first."""
        return sorted(self._sizes, key=lambda each: distance(each, sizes))

    @cached_property
    def _sizes(self) -> frozenset[Sizes]:
        return frozenset(sizes for known in self.known for sizes in known.times)

    def ranked(self, scope: Scope) -> Iterator[Known]:
        """The configurations by predicted time for this problem, shortest first; none if the model is not trusted."""
        if self._model is None or self.regret is None:
            return
        times = self._model.times(scope.sizes)
        for position in times.argsort(kind="stable"):
            if math.isfinite(times[position]):
                yield self._candidates[position]


def _key(known: Known) -> tuple[int, ConfigKey]:
    return id(known.space), config_key(known.config)
