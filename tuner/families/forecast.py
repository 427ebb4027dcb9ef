"""Predict a family's times at any size from the times of one device: this one, or its sibling."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tuner.classes import cached_property
from tuner.devices import Device
from tuner.devices.product import Tiles
from tuner.families import model_files
from tuner.families.known import Knowledge, Known, distance
from tuner.prediction import launch_overhead
from tuner.prediction.amounts import Array
from tuner.prediction.grids import Measured, Sizes, scope_at
from tuner.prediction.library_tiles import LibraryTiles
from tuner.prediction.model import TimeModel
from tuner.space.config import ConfigKey, config_key
from tuner.space.scope import Scope
from tuner.store import lookup
from tuner.store.lookup import Query

if TYPE_CHECKING:
    from tuner.families.model_files import ModelFile
    from tuner.store.record import Record
    from tuner.store.time_table import StoredTable

SHARED = 8  # sizes measured on both devices that suffice to scale a sibling's times of a configuration
AT_ONCE = 1024  # measured times from which a model is trained while a caller waits
ADDED = 2048  # times in tables that are added to a trained model; with more, a model is trained anew


class Forecast:
    """The configurations measured on one device, and a time model trained on them.

    `recorded` are the configurations with records, `launch_ms` is the usual launch overhead of all times.
    `is_outdated`: whether a model should be trained beside this process, since there is none, or none of most times.
    """

    def __init__(
        self,
        queries: Sequence[Query],
        records: Sequence[Sequence[Record]],
        tables: Sequence[Sequence[StoredTable]],
        device: Device,
        library: bool,
        tiles: LibraryTiles,
        of: str = "",
        sibling: Forecast | None = None,
        lent: bool = False,
    ) -> None:
        """Collect the times of the kernels of `queries`; each has an item in `records` and in `tables`.

        The times are those of `device`, or of the device named `of`. `library`: whether the vendor library is a
        candidate; `tiles` returns how it tiles a problem. The times of `sibling` complete the training data. `lent`:
        whether the times are of other types than the problem's.
        """
        self.device = of or device.name
        self._queries = [replace(query, device=self.device) for query in queries]
        self._with_library, self._records = library, records
        self._tables = [
            [table for table in of_kernel if table.head.serves(query)]
            for query, of_kernel in zip(self._queries, tables, strict=True)
        ]
        counts = Counter[float]()
        for table in (table for of_kernel in self._tables for table in of_kernel if table.head.launch_ms):
            counts[table.head.launch_ms] += table.count
        knowledge = Knowledge(library, counts, takes_all=True)
        for query, own in zip(self._queries, records, strict=True):
            knowledge.add_records(own, query)
        self.recorded: list[Known] = knowledge.all()
        self.launch_ms = knowledge.launch_ms
        self._scope, self._units, self._cache = queries[0].scope if queries else None, device.units, device.last_cache
        self._tiles, self._sibling, self._lent = tiles, sibling, lent
        self.is_outdated = False
        self._model: TimeModel | None = None
        self._candidates: list[Known] = []
        self._is_found = False
        self._looked_at: int | None = None

    @cached_property
    def known(self) -> list[Known]:
        """All configurations that were measured. This reads the time tables."""
        return self._known(self._with_library)

    def _known(self, library: bool) -> list[Known]:
        knowledge = Knowledge(library)
        for query, own, tables in zip(self._queries, self._records, self._tables, strict=True):
            knowledge.add_records(own, query)
            knowledge.add_tables([stored.table for stored in tables], query)
        return knowledge.all()

    @property
    def count(self) -> int:
        """The number of measured times."""
        return sum(len(each.times) for each in self.recorded) + sum(
            table.count for of_kernel in self._tables for table in of_kernel
        )

    def _find(self) -> None:
        """Find the model, or train it if there are few times."""
        self._is_found = True
        if self._scope is None or not self.count:
            return
        self._looked_at = model_files.written_at(self._queries, self._units)
        files = [*model_files.candidates(self._queries, self._units)]
        found = min(files, key=self._unlearnt, default=None)
        if found is not None and self._restored(found):
            self.is_outdated = self._unlearnt(found) > ADDED
        elif self.count + (self._sibling.count if self._sibling is not None else 0) < AT_ONCE:
            self._train(self._with_library)
        else:
            self.is_outdated = True

    def look_again(self) -> None:
        """Look for a model that was trained meanwhile. Called if `is_outdated`."""
        if model_files.written_at(self._queries, self._units) != self._looked_at:
            self._find()

    def _unlearnt(self, found: ModelFile) -> int:
        """The number of times in tables on which a model was not trained."""
        return sum(table.count for of_kernel in self._tables for table in of_kernel if table.digest not in found.tables)

    def _restored(self, found: ModelFile) -> bool:
        """Use a trained model, with the times on which it was not trained. False if it is damaged, or has no kernel of
        these."""
        kernels = {(name, code, tuple(options.items())): n for n, (name, code, options) in enumerate(found.kernels)}
        numbers: dict[int, Query] = {}
        for query in self._queries:
            name, code, options = model_files.kernel_of(query)
            if (number := kernels.get((name, code, tuple(options.items())))) is not None:
                numbers[number] = query
        try:
            trained = found.trained
        except ValueError:
            return False
        keep = [number in numbers if number is not None else self._with_library for number, _ in trained.entries]
        if not any(kept for kept, (number, _) in zip(keep, trained.entries, strict=True) if number is not None):
            return False
        lent = [found.lent.get(entry, "") for entry, kept in enumerate(keep) if kept]
        trained, scope = trained.restricted(keep), self._scope
        assert scope is not None
        order = [*numbers]
        places = {number: place for place, number in enumerate(order)}
        entries = tuple((None if number is None else places[number], config) for number, config in trained.entries)
        spaces = [numbers[number].space for number in order]
        model = TimeModel.restored(replace(trained, entries=entries), spaces, scope, self._tiles)
        recorded = {_key(each): each for each in self.recorded}
        self._candidates, entry_of = [], dict[tuple[int, ConfigKey], int]()
        for entry, (number, config) in enumerate(entries):
            known = Known(None if number is None else spaces[number], config, sibling=lent[entry])
            known.sizes = lambda entry=entry: trained.measured_at(entry)
            if (own := recorded.get(key := _key(known))) is not None:
                known.records = own.records
            self._candidates.append(known)
            entry_of[key] = entry
            if number is None:
                break  # the other routines are of the same library
        further = self._further(found, entry_of)
        self._model = model.with_times(further) if further else model
        return True

    def _further(self, found: ModelFile, entries: dict[tuple[int, ConfigKey], int]) -> dict[int, dict[Sizes, float]]:
        """The times of these entries on which a model was not trained, with the launch overhead of its times."""
        knowledge = Knowledge(False, {found.launch_ms: self.count + 1} if found.launch_ms else None)
        few = self._unlearnt(found) <= ADDED
        for query, own, tables in zip(self._queries, self._records, self._tables, strict=True):
            own = [record for record in own if model_files.digest_of(record) not in found.records]
            knowledge.add_records(own, query)
            knowledge.add_tables([each.table for each in tables if few and each.digest not in found.tables], query)
        return {entries[_key(each)]: each.times for each in knowledge.all() if _key(each) in entries}

    def train(self) -> None:
        """Train a model on all times, whatever models there are."""
        self._is_found, self.is_outdated = True, False
        self._train(self._with_library)

    def _train(self, library: bool) -> None:
        known = self._known(library)
        if self._scope is None or len(known) < 2:
            return
        self._candidates = [*known, *self._only_on_sibling(known)]
        measured = {sizes for each in known for sizes in each.times}
        times = [{**self._scaled_at_other_sizes(each, measured), **each.times} for each in known]
        times += [each.times for each in self._candidates[len(known) :]]
        entries = [Measured(e.space, e.config, of) for e, of in zip(self._candidates, times, strict=True)]
        entries, tiles = self._with_tiles(entries, self._scope)
        self._model = TimeModel(entries, self._scope, self._units, self._cache or 0, tiles)

    def _with_tiles(self, entries: Sequence[Measured], scope: Scope) -> tuple[list[Measured], LibraryTiles]:
        """The entries, without the library's times at sizes at which it does not report its tiles, unless it reports
        none at all; and the tiles, of which those at measured sizes are asked once."""
        answers: dict[Sizes, Tiles | None] = {}
        told = []
        for each in entries:
            if each.space is None:
                answers = {sizes: self._tiles(scope_at(scope, sizes)) for sizes in each.times}
                if any(answers.values()):
                    each = replace(each, times={s: time_ms for s, time_ms in each.times.items() if answers[s]})
            told.append(each)
        return told, lambda scope: answers.pop(tuple(scope.sizes.values()), None) or self._tiles(scope)

    @property
    def path(self) -> Path:
        """The file of a model that is trained on this machine."""
        return model_files.cached_path(self._queries, self._units)

    @property
    def sizes(self) -> set[Sizes]:
        """The sizes at which anything was measured, here or on the sibling. Training asks the library about these."""
        own = {sizes for each in self.known for sizes in each.times}
        return own | (self._sibling.sizes if self._sibling is not None else set())

    def ask(self, tiles: LibraryTiles) -> None:
        """Train with these tiles of the library."""
        self._tiles = tiles

    def trained(self) -> bytes | None:
        """The file of a model that is trained on all times, the library's among them; None if there are too few."""
        self._train(True)
        model = self._model
        if model is None or model.trained is None:
            return None
        numbers = {id(query.space): number for number, query in enumerate(self._queries)}
        entries = tuple(
            (None if number is None else numbers[id(model.spaces[number])], config)
            for number, config in model.trained.entries
        )
        lent = {_key(each): each.sibling for each in self._candidates if each.sibling}
        spaces = [None if number is None else self._queries[number].space for number, _ in entries]
        keys = [(id(space), config_key(config)) for space, (_, config) in zip(spaces, entries, strict=True)]
        others = [] if self._sibling is None else self._sibling._tables
        learnt = model_files.about(
            self._queries, self._units,
            {table.digest for of_kernel in (*self._tables, *others) for table in of_kernel},
            {
                model_files.digest_of(record)
                for query, own in zip(self._queries, self._records, strict=True)
                for record in lookup.comparable(own, query)
            },
            {entry: lent[key] for entry, key in enumerate(keys) if key in lent},
            self.launch_ms,
        )  # fmt: skip
        return replace(model.trained, entries=entries).to_bytes(learnt)

    def _only_on_sibling(self, known: Sequence[Known]) -> list[Known]:
        """The configurations measured only on the sibling, of kernels measured on this device, with scaled times."""
        if self._sibling is None:
            return []
        own = frozenset(map(_key, known))
        others = [each for each in self._sibling.known if _key(each) not in own and len(each.times) >= SHARED]
        scaled = [(each, self._scaled(each)) for each in others]
        return [Known(each.space, each.config, times, sibling=self._sibling.device) for each, times in scaled if times]

    def _scaled_at_other_sizes(self, known: Known, measured: set[Sizes]) -> dict[Sizes, float]:
        """The sibling's scaled times at sizes at which nothing was measured on this device."""
        return {sizes: time_ms for sizes, time_ms in self._scaled(known).items() if sizes not in measured}

    def _scaled(self, known: Known) -> dict[Sizes, float]:
        """The sibling's times of a configuration, scaled to this device by the ratio of the two devices' times.

        The ratio is the configuration's; if too few sizes are shared, the median of the kernel's configurations.
        """
        of_kernel = self._ratios.get(id(known.space), {})
        if not of_kernel:
            return {}
        ratio = of_kernel.get(config_key(known.config)) or float(np.median([*of_kernel.values()]))
        return {sizes: ratio * time_ms for sizes, time_ms in self._sibling_times.get(_key(known), {}).items()}

    @cached_property
    def _ratios(self) -> dict[int, dict[ConfigKey, float]]:
        """By kernel and configuration, the median ratio of this device's times to the sibling's.

        Only configurations with SHARED shared sizes have one.
        """
        medians: dict[int, dict[ConfigKey, float]] = {}
        for known in self._known(True):
            of_sibling = self._sibling_times.get(_key(known), {})
            ratios = [known.times[sizes] / of_sibling[sizes] for sizes in known.times.keys() & of_sibling.keys()]
            if len(ratios) >= SHARED:
                medians.setdefault(id(known.space), {})[config_key(known.config)] = float(np.median(ratios))
        return medians

    @cached_property
    def _sibling_times(self) -> dict[tuple[int, ConfigKey], dict[Sizes, float]]:
        """Sibling times, with this device's launch overhead."""
        if self._sibling is None:
            return {}
        measured_ms, target_ms = self._sibling.launch_ms, self.launch_ms
        return {
            _key(known): launch_overhead.all_adjusted(known.times, measured_ms, target_ms)
            for known in self._sibling._known(True)
        }

    @property
    def regret(self) -> float | None:
        """The expected regret of the model's choices (0.02 = 2 %); None if there is no model that is to be trusted."""
        if not self._is_found:
            self._find()
        elif self.is_outdated:
            self.look_again()
        if self._model is None:
            return None
        return self._model.regret if self._with_library else self._model.kernels_regret

    def is_near(self, sizes: Sizes, most: float) -> bool:
        """Whether a training size of the model is at most this far from `sizes`."""
        if self._model is None or self._model.trained is None:
            return False
        return self._model.trained.nearest(sizes) <= most

    def nearest(self, sizes: Sizes) -> list[Sizes]:
        """The measured sizes, the nearest first."""
        return sorted(self._sizes, key=lambda each: distance(each, sizes))

    @cached_property
    def _sizes(self) -> frozenset[Sizes]:
        return frozenset(sizes for known in self.known for sizes in known.times)

    def ranked(self, scope: Scope) -> tuple[Array, list[Known]]:
        """The predicted times in ms for this problem, shortest first, and their configurations; none if the model is
        not trusted."""
        if self.regret is None or self._model is None:
            return np.empty(0), []
        known = self._candidates
        times = self._model.times(scope.sizes, lent=self._lent, is_valid=lambda each: known[each].is_valid(scope))
        order = times.argsort(kind="stable")[: np.count_nonzero(np.isfinite(times))]
        return times[order], [known[each] for each in order.tolist()]


def _key(known: Known) -> tuple[int, ConfigKey]:
    return id(known.space), config_key(known.config)
