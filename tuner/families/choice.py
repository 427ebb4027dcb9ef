"""The look-up over all kernels of a family: which kernel runs at a size on a device, in which configuration."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from tuner.classes import cached_property, dataclass
from tuner.devices import Device
from tuner.devices.builds import build_cache
from tuner.devices.conditions import Conditions
from tuner.devices.product import Tiles
from tuner.errors import DeviceError, NoConfiguration, TrialError
from tuner.families import as_deployed, library_answers, model_files, one_class, products
from tuner.families.bundles import Binaries
from tuner.families.code import SizedCode
from tuner.families.fallback import Fallback
from tuner.families.forecast import Forecast
from tuner.families.known import Knowledge, Known, distance
from tuner.families.ranking import NEAR, Ranked, Ranking
from tuner.prediction import launch_overhead
from tuner.prediction.grids import Sizes
from tuner.space.deployments import ISOLATED, Deployment
from tuner.space.instance import Instance
from tuner.space.model import Space
from tuner.space.scope import Scope
from tuner.space.sources import rendering
from tuner.space.sources.source import StepSource
from tuner.store import lookup, time_tables
from tuner.store.lookup import Candidate, Query
from tuner.store.rejected import Rejections
from tuner.store.store import Store
from tuner.store.time_table import StoredTable

NO_BINARIES = Binaries()


@dataclass(frozen=True)
class Choice:
    """A configuration of a kernel for a problem, or the vendor library if `instance` is None.

    `candidate` has the same configuration, with its match.
    """

    instance: Instance | None
    candidate: Candidate

    @property
    def space(self) -> Space | None:
        return None if self.instance is None else self.instance.space

    @property
    def name(self) -> str:
        """The kernel's name, or `library`."""
        return "library" if self.space is None else self.space.name

    @cached_property
    def steps(self) -> tuple[StepSource, ...]:
        """The rendered steps; none for the library. Raises TrialError if they cannot be rendered."""
        return () if self.instance is None else rendering.render(self.instance)


class FamilyTable:
    """The records and time tables of a family for one device, with one set of options and types."""

    def __init__(
        self,
        spaces: Iterable[Space],
        device: Device,
        scope: Scope,
        library: bool,
        results: Path | None = None,
        exported: Binaries = NO_BINARIES,
        one_class: bool = False,
        deployment: Deployment = ISOLATED,
    ) -> None:
        """Read the records and time tables of `spaces`.

        `scope` has options and types, and defines the order of sizes; their values do not matter. `library`: whether
        the vendor library is a candidate, and with it kernels that are its algorithms. `results` is the folder of
        records, by default the user's own. `exported` has builds besides those in the build cache, and the names under
        which records of its kernels are stored.
        `one_class`: whether only configurations with the default's bits are choices. `deployment` is how the program
        launches them: what was tuned for it precedes other choices.
        """
        running = [space for space in spaces if device.language in space.languages]
        self.spaces = [space for space in running if library or not space.is_of_library] or running
        self._scope, self.device = scope, device
        self._queries = [Query.of(space, scope, device) for space in self.spaces]
        self._query_of = {id(query.space): query for query in self._queries}
        self._stores = [Store.of(q.space, results, exported.names_of(q.version.code)) for q in self._queries]
        self._code: dict[int, SizedCode] = {}
        self._last_tiles: tuple[tuple[Sizes, dict[str, str]], Tiles | None] | None = None
        self._exported, self._library, self._one_class = frozenset(exported.builds), library, one_class
        self._deployment = deployment
        self._problems = [problem for store in self._stores for problem in store.problems]
        self._kernels = [
            (query, store)
            for query, store in zip(self._queries, self._stores, strict=True)
            if not query.space.is_of_library
        ]
        self._fallback = Fallback([store for _, store in self._kernels], [query for query, _ in self._kernels])
        read = [time_tables.stored(store.files) for store in self._stores]
        self._problems += [problem for _, problems in read for problem in problems]
        tables = [each for each, _ in read]
        conditions = self._most_measured(tables)
        self._conditions = conditions.instead_of(device.conditions)
        self._queries = [replace(query, conditions=conditions) for query in self._queries]
        own, self._types = self._queries, time_tables.types_alike(self._queries, tables, device.units)
        if self._types is not None:
            self._queries = [replace(query, scope=replace(query.scope, types=self._types)) for query in own]
        name = time_tables.sibling_of(self._queries, tables, device.units)
        self._sibling = None if name is None else self._forecast(tables, name)
        self._own = self._forecast(tables, sibling=self._sibling)
        self._recorded: dict[Sizes, list[Known]] = {}
        for known in self._own.recorded if self._types is None else self._records_of(own):
            for sizes in known.records:
                self._recorded.setdefault(sizes, []).append(known)
        self._ranking = Ranking(
            self._recorded, self._own, self._sibling, device, library, self._types, bool(self._conditions), self._tiles
        )

    def _records_of(self, queries: Sequence[Query]) -> list[Known]:
        """The configurations with records that answer `queries`, which has one query for each kernel, in order."""
        knowledge = Knowledge(self._library, takes_all=True)
        for query, store in zip(queries, self._stores, strict=True):
            knowledge.add_records(store.records, query)
        return knowledge.all()

    def _most_measured(self, tables: Sequence[Sequence[StoredTable]]) -> Conditions:
        """The conditions of the times to use: the device's own. If nothing was measured on the device under these, the
        conditions under which most was measured there."""
        counts, own = Counter[str](), self.device.conditions
        measured = {own.identity: own}
        here = self.device.kind, self.device.name
        for store, of_kernel in zip(self._stores, tables, strict=True):
            found = [Conditions(record.conditions) for record in store.records if (record.kind, record.device) == here]
            heads = [table.head for table in of_kernel]
            found += [head.conditions for head in heads if (head.kind, head.device) == here]
            for each in found:
                counts[each.identity] += 1
                measured[each.identity] = each
        return own if own.identity in counts or not counts else measured[counts.most_common(1)[0][0]]

    @property
    def notes(self) -> list[str]:
        """Warnings about records and time tables that could not be read, or were measured under other conditions."""
        others = [f"the times were measured with {self._conditions}"] if self._conditions else []
        return list(dict.fromkeys([*self._problems, *others]))

    def _forecast(
        self, tables: Sequence[Sequence[StoredTable]], of: str = "", sibling: Forecast | None = None
    ) -> Forecast:
        """The forecast from the times of this device, or of the device named `of`."""
        records = [store.records for store in self._stores]
        is_lent = self._types is not None
        return Forecast(self._queries, records, tables, self.device, self._library, self._tiles, of, sibling, is_lent)

    def _tiles(self, scope: Scope) -> Tiles | None:
        """How the library tiles a problem; None if it does not report this. The last answer is kept, because a choice
        may need it twice."""
        problem, last = (tuple(scope.sizes.values()), dict(scope.types)), self._last_tiles
        if last is None or last[0] != problem:
            last = self._last_tiles = problem, products.tiles(self.spaces[0], scope, self.device)
        return last[1]

    @property
    def is_outdated(self) -> bool:
        """Whether a time model should be trained, since there is none, or many known times were not in its training
        data. Valid after a choice."""
        return self._own.is_outdated

    def train(self) -> None:
        """Train the time model on everything known now, for this process and later ones."""
        if (data := self.trained()) is not None:
            model_files.write_cached(self._own.path, data)
        self._own.look_again()

    @property
    def sizes(self) -> set[Sizes]:
        """The sizes at which anything was measured on the device."""
        return self._own.sizes

    def trained(self) -> bytes | None:
        """The file of a time model that is trained on everything known; None if too little is."""
        answers = library_answers.read(library_answers.path_of(self._queries)).tiles
        self._own.ask(lambda scope: answers.get(tuple(scope.sizes.values())) or self._tiles(scope))
        return self._own.trained()

    def passed_over(self, sizes: Mapping[str, int]) -> str:
        """Words about an algorithm of the library that was tuned at these sizes with another version; empty if none
        was."""
        for query, store in zip(self._queries, self._stores, strict=True):
            if query.space.is_of_library:
                asked = replace(query, scope=self.scope(sizes))
                own = [record for record in store.records if asked.is_of(record)]
                if own and all(fit.stale for fit in lookup.best_fits(own, asked)):
                    tuned = lookup.library_in(own[0].toolchain)
                    return f"what {query.space.name} was tuned to at this size with {tuned} does not count here"
        return ""

    def scope(self, sizes: Mapping[str, int]) -> Scope:
        """The problem of these sizes."""
        return self._scope.at(dict(sizes))

    def choices(self, sizes: Mapping[str, int]) -> Iterator[Choice]:
        """The valid choices at these sizes, best first. Choices that need no compilation are preferred.

        If there is no exact match, choices that must be compiled follow those that need not, and choices whose code
        serves only one size come last. If there are exported builds, the choices that they serve precede all others.
        Raises NoConfiguration if none is valid.
        """
        scope = self.scope(sizes)
        if self._one_class:
            for query, candidate in one_class.candidates(self._kernels, scope, self.device):
                yield Choice(Instance(query.space, candidate.config, scope), candidate)
            return
        if self._deployment != ISOLATED:
            kernels = zip(self._queries, self._stores, strict=True)
            own = as_deployed.candidates(kernels, scope, self.device, self._deployment, self._library)
            for query, candidate in own:
                yield Choice(Instance(query.space, candidate.config, scope), candidate)
        if not self._exported:
            yield from self._judged(scope)
            return
        others: list[Choice] = []
        for choice in self._judged(scope):
            if self._is_exported(choice):
                yield choice
            else:
                others.append(choice)
        yield from others

    def kernels(self, sizes: Mapping[str, int]) -> list[Space]:
        """The kernels by their shortest measured or predicted time at these sizes, the fastest first. Kernels without
        such a time come last, the last stage first."""
        scope, known = self.scope(sizes), list[Space]()
        for each in self._ranking.at(scope):
            if each.known.space is not None and each.known.space not in known and each.known.is_valid(scope):
                known.append(each.known.space)
        return known + [space for space in reversed(self.spaces) if space not in known]

    def shortest_ms(self, sizes: Mapping[str, int]) -> float | None:
        """The time of the fastest configuration at these sizes, without the launch overhead, which calls in a row do
        not wait for. It is from records, or else predicted by the time model; None if neither has a time."""
        scope = self.scope(sizes)
        key = tuple(scope.sizes.values())
        recorded = [known.times[key] for known in self._recorded.get(key, [])]
        predicted = (ms for ms, known in zip(*self._own.ranked(scope), strict=True) if known.is_valid(scope))
        shortest = min(recorded, default=next(predicted, None))
        return None if shortest is None else float(launch_overhead.removed(shortest, self._own.launch_ms))

    def _judged(self, scope: Scope) -> Iterator[Choice]:
        """The choices without regard to exported builds; those that failed verification on this machine come last."""
        rejected: list[Choice] = []
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
                rejected.append(replace(choice, candidate=candidate))
        yield from rejected

    def _ranked(self, scope: Scope, judge: Callable[[Space], Rejections]) -> Iterator[Choice]:
        """The choices, best first. Rejected ones keep their places; only the fallback look-up of a kernel moves them
        last."""
        is_empty = True
        for choice in self._by_code(self._ranking.at(scope), scope):
            is_empty = False
            if choice.instance is None and choice.candidate.match == "default":
                yield from self._alike(scope, judge)
            yield choice
        failure = NoConfiguration(f"no kernel of the family runs on {self.device.id}")
        try:
            for space, candidate in self._fallback.candidates(scope, judge):
                is_empty = False
                yield Choice(Instance(space, candidate.config, scope), candidate)
        except NoConfiguration as error:
            failure = error
        if self._library:
            yield Choice(None, Candidate({}, "default"))  # the library may support a problem that no kernel does
        if is_empty:
            raise failure

    def _alike(self, scope: Scope, judge: Callable[[Space], Rejections]) -> Iterator[Choice]:
        """The choices from records of other devices of the architecture, at sizes near this one, in which the kernel
        was faster than the library. The nearest size comes first, and at equally near sizes the shortest time."""
        key = tuple(scope.sizes.values())
        if not any(distance(sizes, key) <= NEAR for sizes in self._sizes_alike):
            return
        found: list[tuple[float, float, Choice]] = []
        with contextlib.suppress(NoConfiguration):
            for space, candidate in self._fallback.candidates(scope, judge):
                record = candidate.record
                if record is None or candidate.stale or (record.vs_library or 0.0) < 1:
                    continue
                apart = distance(tuple(record.sizes[name] for name in scope.sizes), key)
                if candidate.match in ("nearest_size", "architecture") and apart <= NEAR:
                    choice = Choice(Instance(space, candidate.config, scope), candidate)
                    found.append((apart, record.time_ms, choice))
        yield from (choice for *_, choice in sorted(found, key=lambda each: each[:2]))

    @cached_property
    def _sizes_alike(self) -> frozenset[Sizes]:
        """The sizes of the records of other devices of the architecture, for these types."""
        names, here = list(self._scope.sizes), (self.device.kind, self.device.architecture)
        return frozenset(
            tuple(record.sizes[name] for name in names)
            for store in self._stores
            for record in store.records
            if (record.kind, record.architecture) == here
            and record.types == self._scope.types
            and record.device != self.device.name
            and record.sizes.keys() == self._scope.sizes.keys()
        )

    def _by_code(self, entries: Iterable[Ranked], scope: Scope) -> Iterator[Choice]:
        """`entries`, given best first, as valid choices in the order that `choices` describes."""
        uncompiled: list[Ranked] = []
        for_one_size: list[Ranked] = []
        better: Choice | None = None  # the first valid one of `uncompiled`, once it is needed
        is_better_built = False
        for entry in entries:
            known = entry.known
            if known.space is None or entry.match == "exact" or known.has_code(self._code_of(known.space), scope):
                for choice in self._valid([entry], scope):
                    if better is None:
                        better = next(self._valid(uncompiled, scope), None)
                        is_better_built = better is not None and self.is_built(better)
                    # If this choice is not built either, one of the two must be compiled anyway: the better one.
                    if better is not None and (is_better_built or not self.is_built(choice)):
                        yield from self._valid(uncompiled, scope)
                        uncompiled, better = [], None
                    yield choice
            elif self._code_of(known.space).is_for_one_size(known.config, scope):
                for_one_size.append(entry)
            else:
                uncompiled.append(entry)
        yield from self._valid([*uncompiled, *for_one_size], scope)

    def _code_of(self, space: Space) -> SizedCode:
        """How the code of a kernel depends on sizes. Found out when it is first asked, as that reads the sources."""
        if id(space) not in self._code:
            self._code[id(space)] = SizedCode(space)
        return self._code[id(space)]

    def is_built(self, choice: Choice) -> bool:
        """Whether a choice has a build, exported or in the build cache. An algorithm of the library needs none."""
        if choice.space is not None and choice.space.is_of_library:
            return True
        try:
            sources = {step.source for step in choice.steps}
            compiler = self.device.compiler
            return all(s.digest in self._exported or build_cache.holds(compiler.key(s)) for s in sources)
        except (TrialError, DeviceError, OSError):
            return False

    def _is_exported(self, choice: Choice) -> bool:
        """Whether the exported builds serve a choice."""
        try:
            return all(step.source.digest in self._exported for step in choice.steps)
        except TrialError:
            return False

    def _valid(self, entries: Iterable[Ranked], scope: Scope) -> Iterator[Choice]:
        """Those of `entries` that are valid for this problem, as choices."""
        for known, match, sizes, regret, sibling in entries:
            if not known.is_valid(scope):
                continue
            is_predicted = match in ("predicted", "architecture")
            record, rank = known.nearest_record(sizes) if is_predicted else known.records.get(sizes, (None, 0))
            instance = None if known.space is None else Instance(known.space, known.config, scope)
            candidate = Candidate(
                known.config, match, record, rank=rank, regret=regret, sibling=sibling, conditions=self._conditions
            )
            yield Choice(instance, candidate)
