"""Which kernel of a family runs at a size on a device, and in which configuration: the look-up over all its kernels."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from tuner.devices import Device, build_cache
from tuner.devices.product import Tiles
from tuner.errors import DeviceError, NoConfiguration, TrialError
from tuner.families import products
from tuner.families.bundles import Binaries
from tuner.families.code import SizedCode
from tuner.families.fallback import Elsewhere
from tuner.families.forecast import Forecast
from tuner.families.known import Known, distance
from tuner.prediction.grids import Sizes
from tuner.space.instance import Instance
from tuner.space.model import Space
from tuner.space.scope import Scope
from tuner.space.sources import rendering
from tuner.store import time_tables
from tuner.store.lookup import Candidate, Match, Query
from tuner.store.rejected import Rejections
from tuner.store.store import Store
from tuner.store.time_tables import TimeTable

NO_BINARIES = Binaries()
NEAR = 0.1  # the distance of sizes whose own times tell more than a sibling's, where no model can be trusted


@dataclass(frozen=True)
class Choice:
    """A kernel in a configuration; or, where `space` is None, the vendor's library."""

    space: Space | None
    candidate: Candidate

    @property
    def name(self) -> str:
        """The kernel's name, or `library`."""
        return "library" if self.space is None else self.space.name


class _Entry(NamedTuple):
    """What was measured, how it matches here, the sizes whose record is nearest, the expected regret, and the sibling
    whose times predict it."""

    known: Known
    match: Match
    sizes: Sizes
    regret: float | None = None
    sibling: str = ""


class FamilyTable:
    """What the records of a family say of one device, with one set of options and types."""

    def __init__(
        self,
        spaces: Iterable[Space],
        device: Device,
        scope: Scope,
        library: bool,
        results: Path | None = None,
        exported: Binaries = NO_BINARIES,
    ) -> None:
        """`scope` has options and types, and says the order of sizes, but not which. `library`: whether the vendor's is
        a candidate. `exported` are builds besides those in the cache; records lie under the names that its kernels
        had."""
        self.spaces = [space for space in spaces if device.language in space.languages]
        self._scope, self.device = scope, device
        self._queries = [Query.of(space, scope, device) for space in self.spaces]
        self._query_of = {id(query.space): query for query in self._queries}
        self._stores = [Store.of(q.space, results, exported.names_of(q.version.code)) for q in self._queries]
        self._code = {id(space): SizedCode(space) for space in self.spaces}
        self._exported, self._library = frozenset(exported.builds), library
        self._problems = [problem for store in self._stores for problem in store.problems]
        self._elsewhere = Elsewhere(self._stores, self._queries)
        read = [time_tables.read(store.files) for store in self._stores]
        self._problems += [problem for _, problems in read for problem in problems]
        tables = [found for found, _ in read]
        name = time_tables.sibling_of(self._queries, tables, device.units)
        self._sibling = None if name is None else self._forecast(tables, name)
        self._own = self._forecast(tables, sibling=self._sibling)
        self._recorded: dict[Sizes, list[Known]] = {}
        for known in self._own.known:
            for sizes in known.records:
                self._recorded.setdefault(sizes, []).append(known)

    @property
    def notes(self) -> list[str]:
        """What cannot be read of stores and tables."""
        return list(dict.fromkeys(self._problems))

    def _forecast(
        self, tables: Sequence[Sequence[TimeTable]], of: str = "", sibling: Forecast | None = None
    ) -> Forecast:
        """That of this device, or of the one of this name."""
        records = [store.records for store in self._stores]
        return Forecast(self._queries, records, tables, self.device, self._library, self._tiles, of, sibling)

    def _tiles(self, scope: Scope) -> Tiles | None:
        """How the library runs the operation at the sizes of `scope`, if it tells."""
        return products.tiles(self.spaces[0], scope, self.device)

    def scope(self, sizes: Mapping[str, int]) -> Scope:
        """The problem of these sizes."""
        return self._scope.at(dict(sizes))

    def choices(self, sizes: Mapping[str, int]) -> Iterator[Choice]:
        """What may run at these sizes, best first, with exceptions: where there is no exact match, what need not be
        compiled precedes what must be, and code that is for one size alone comes last. Where there are exported builds,
        these precede all else. Raises NoConfiguration where nothing is valid."""
        scope = self.scope(sizes)
        if not self._exported:
            yield from self._judged(scope)
            return
        others: list[Choice] = []
        for choice in self._judged(scope):
            if choice.space is None or self._sources(choice, scope) <= self._exported:
                yield choice
            else:
                others.append(choice)
        yield from others

    def _judged(self, scope: Scope) -> Iterator[Choice]:
        """The same without regard to exported builds: what failed verification here comes last."""
        wrong: list[Choice] = []
        judges: dict[int, Rejections] = {}

        def judge(space: Space) -> Rejections:
            if id(space) not in judges:
                judges[id(space)] = Rejections(replace(self._query_of[id(space)], scope=scope))
            return judges[id(space)]

        for choice in self._ranked(scope, judge):
            candidate = choice.candidate if choice.space is None else judge(choice.space).judged(choice.candidate)
            if not candidate.rejected:
                yield choice
            else:
                wrong.append(replace(choice, candidate=candidate))
        yield from wrong

    def _ranked(self, scope: Scope, judge: Callable[[Space], Rejections]) -> Iterator[Choice]:
        """The same with what failed verification in its place; only a kernel's own look-up has it last."""
        found = False
        for choice in self._by_code(self._comparable(scope), scope):
            found = True
            yield choice
        failure = NoConfiguration(f"no kernel of the family runs on {self.device.id}")
        try:
            for space, candidate in self._elsewhere.candidates(scope, judge):
                found = True
                yield Choice(space, candidate)
        except NoConfiguration as error:
            failure = error
        if self._library:
            yield Choice(None, Candidate({}, "default"))  # it may take what no kernel does
        if not found:
            raise failure

    def _by_code(self, entries: Iterable[_Entry], scope: Scope) -> Iterator[Choice]:
        """`entries`, the best first, as valid choices in the order of `choices`."""
        uncompiled: list[_Entry] = []
        for_one_size: list[_Entry] = []
        for entry in entries:
            known = entry.known
            if known.space is None or entry.match == "exact" or known.has_code(self._code[id(known.space)], scope):
                for choice in self._valid([entry], scope):
                    better = list(itertools.islice(self._valid(uncompiled, scope), 1))
                    # Where this is not built either, something is to be compiled anyway.
                    if better and (self._is_built(better[0], scope) or not self._is_built(choice, scope)):
                        yield from self._valid(uncompiled, scope)
                        uncompiled = []
                    yield choice
            elif self._code[id(known.space)].is_for_one_size(known.config, scope):
                for_one_size.append(entry)
            else:
                uncompiled.append(entry)
        yield from self._valid([*uncompiled, *for_one_size], scope)

    def _is_built(self, choice: Choice, scope: Scope) -> bool:
        """Whether there is a build of a choice."""
        if choice.space is None:
            return True
        try:
            sources = {step.source for step in rendering.render(Instance(choice.space, choice.candidate.config, scope))}
            compiler = self.device.compiler
            return all(s.digest in self._exported or build_cache.holds(compiler.key(s)) for s in sources)
        except (TrialError, DeviceError, OSError):
            return False

    def _sources(self, choice: Choice, scope: Scope) -> frozenset[str]:
        """The digests of the sources of a choice, which is not the library."""
        assert choice.space is not None
        try:
            steps = rendering.render(Instance(choice.space, choice.candidate.config, scope))
        except TrialError:
            return frozenset([""])  # no build is of that
        return frozenset(step.source.digest for step in steps)

    def _comparable(self, scope: Scope) -> Iterator[_Entry]:
        """What was measured on this device, best first: exact ones; then predicted ones, or those of the nearest sizes.
        What a sibling tells comes before all but the nearest of these."""
        key = tuple(scope.sizes.values())
        yield from self._ordered(self._recorded.get(key, []), key, "exact")
        if self._own.regret is not None:
            for known in self._own.ranked(scope):
                yield _Entry(known, "predicted", key, self._own.regret, known.sibling)
            return
        nearest = self._own.nearest(key)
        near = [sizes for sizes in nearest if distance(sizes, key) <= NEAR]
        yield from self._at(self._own, near, "nearest_size")
        if self._sibling is not None:
            name = self._sibling.device
            for known in self._sibling.ranked(scope):
                yield _Entry(known, "architecture", key, sibling=name)
            for entry in self._at(self._sibling, self._sibling.nearest(key), "architecture"):
                yield entry._replace(sibling=name)
        yield from self._at(self._own, nearest[len(near) :], "nearest_size")

    def _at(self, forecast: Forecast, sizes: Iterable[Sizes], match: Match) -> Iterator[_Entry]:
        """What was measured at these sizes, one after the other."""
        for each in sizes:
            yield from self._ordered([known for known in forecast.known if each in known.times], each, match)

    def _ordered(self, there: Iterable[Known], sizes: Sizes, match: Match) -> Iterator[_Entry]:
        """What was measured at a size, the least time first."""
        best = min((known.times[sizes] for known in there if known.space is not None), default=math.inf)
        for known in sorted(there, key=lambda known: self._exact_time(known, sizes, best)):
            yield _Entry(known, match, sizes)

    def _exact_time(self, known: Known, sizes: Sizes, best: float) -> float:
        """Its time; of the library, what it would be in the run of the best of ours, where both were measured."""
        if known.space is not None or sizes not in known.records or not math.isfinite(best):
            return known.times[sizes]
        record, _ = known.records[sizes]
        assert record.library_ms is not None
        return best * record.library_ms / record.time_ms

    def _valid(self, entries: Iterable[_Entry], scope: Scope) -> Iterator[Choice]:
        """Those of `entries` that are valid here."""
        for known, match, sizes, regret, sibling in entries:
            if not known.is_valid(scope):
                continue
            is_between = match in ("predicted", "architecture")
            record, rank = known.nearest_record(sizes) if is_between else known.records.get(sizes, (None, 0))
            yield Choice(known.space, Candidate(known.config, match, record, rank=rank, regret=regret, sibling=sibling))
