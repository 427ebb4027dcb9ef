"""What the times of one device foretell at any size of a family: of this device, or of its sibling."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from tuner.devices import Device
from tuner.families.known import Knowledge, Known, distance
from tuner.space.lockless import cached_property
from tuner.space.scope import Scope
from tuner.store.grids import Measured, Sizes
from tuner.store.library_tiles import LibraryTiles
from tuner.store.lookup import Query
from tuner.store.prediction import TimeModel

if TYPE_CHECKING:
    from tuner.store.record import Record
    from tuner.store.time_tables import TimeTable


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
    ) -> None:
        """`queries` are those of the kernels on `device`, which share the order of sizes, and by kernel there are
        `records` and `tables`; those of the device named `of` count, in the place of its own. `library`: whether the
        vendor's is a candidate, and `tiles` tells how that runs at a size."""
        self.device = of or device.name
        knowledge = Knowledge(library)
        for query, own, measured in zip(queries, records, tables, strict=True):
            query = replace(query, device=self.device)
            knowledge.add_records(own, query)
            for table in measured:
                knowledge.add_table(table, query)
        self.known: list[Known] = knowledge.all()
        entries = [Measured(known.space, known.config, known.times) for known in self.known]
        cache = device.last_cache or 0
        few = len(entries) < 2
        self._model = None if few else TimeModel(entries, queries[0].scope, device.units, cache, tiles)

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
                yield self.known[position]
