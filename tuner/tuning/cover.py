"""A cover: the fewest builds of a family with which every size is nearly as fast as the best known there.

tune at some sizes -> winners -> every winner at every size -> choose -> a record for each size
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tuner.search.strategies import Budget
from tuner.space import source
from tuner.space.model import Config, ConfigKey, Space, config_key
from tuner.space.scope import Scope
from tuner.space.size_lists import WeightedSize
from tuner.space.texts import short_size, size_text
from tuner.store.lookup import size_distance
from tuner.tuning.covering import SizedBuild, are_alike, choose, spread_out
from tuner.tuning.crew import Crew, Crews
from tuner.tuning.driver import Result, tune_with
from tuner.tuning.exploration import Progress, explored
from tuner.tuning.general import general, generalised
from tuner.tuning.request import CheckedRequest, TuningRequest
from tuner.tuning.sizes import HOPELESS, LEAST_TRIAL, NEAR, UNTUNABLE, requests_at
from tuner.tuning.table import Pair, TrialTable

TUNING, MEASURING = 0.5, 0.8  # shares of the time after which tuning, and then measuring, begins nothing more
LEAST_SECONDS = 3.0  # of tuning at a size
MOST_WINNERS = 4  # of a size
BEHIND = 1.25  # times the best of the family: a kernel that is as slow after its trial is not searched
MOST_SEARCHED = 3  # kernels at a size
JUDGED = 3  # near sizes, alike in what 8 divides, at which a kernel was behind: then it is not even tried
SEVERAL = 4  # records, or sizes at which it was tried
SLOWER = 1.05  # times the best in several records: who was never nearer is not tried anywhere
WARM = 8  # configurations that a search begins with, of those that were best at the nearest sizes


@dataclass(frozen=True)
class Served:
    """A size, the build that serves it, and their time in ms beside the best known there, which `best` has."""

    size: WeightedSize
    build: SizedBuild
    time_ms: float
    best_ms: float
    best: SizedBuild
    result: Result | None = None  # of the final round, if there was time for one

    @property
    def regret(self) -> float:
        """By how much the build is slower than the best known, as a share of that."""
        return self.time_ms / self.best_ms - 1


@dataclass
class Cover:
    """What came of it: the builds, and how each size is served; `unserved` sizes had no time, or nothing valid.

    `tuned` counts the sizes with a search of their own. Of all `pairs` of a winner and a size where it is valid,
    `measured` were.
    """

    served: list[Served] = field(default_factory=list)
    unserved: list[WeightedSize] = field(default_factory=list)
    tuned: int = 0
    winners: int = 0
    pairs: int = 0
    measured: int = 0

    @property
    def chosen(self) -> dict[Pair, list[SizedBuild]]:
        """The builds by kernel and configuration, those that serve the greatest weight first."""
        weights: dict[Pair, float] = {}
        builds: dict[Pair, list[SizedBuild]] = {}
        for served in self.served:
            pair = served.build.pair
            weights[pair] = weights.get(pair, 0.0) + served.size.weight
            if served.build not in builds.setdefault(pair, []):
                builds[pair].append(served.build)
        return {pair: builds[pair] for pair in sorted(weights, key=lambda pair: -weights[pair])}

    @property
    def is_complete(self) -> bool:
        """Whether every size is served, and has a record."""
        return not self.unserved and all(served.result and served.result.record for served in self.served)


def cover(
    request: TuningRequest,
    spaces: Sequence[Space],
    sizes: Sequence[WeightedSize],
    within: float,
    seconds: float,
    progress: Progress,
) -> Cover:
    """Cover `sizes` with builds of `spaces` that take at most `within` times the best known, in about `seconds`.

    Every trial is in the ledger as soon as it is measured. The same call goes on from there. Raises as `driver.tune`
    does.
    """
    with Crews(progress.noted) as crews:
        work = _Work(crews, request, {space.name: space for space in spaces}, progress, TrialTable())
        began = time.monotonic()
        found = Cover(tuned=work.tune(sizes, TUNING * seconds))
        winners = work.winners(sizes, within)
        found.winners = sum(map(len, winners.values()))
        work.measure(winners, sizes, found, began + MEASURING * seconds)
        served = [size for size in sizes if work.table.ranking(size.sizes)]
        found.unserved = [size for size in sizes if size not in served]
        times = [work.near_best(size, within) for size in served]
        chosen = choose(times, [size.weight for size in served], within)
        found.served = [work.served(*each, chosen) for each in zip(served, times, strict=True)]
        found.served = list(work.concluded(found.served, winners, began + seconds))
    return found


@dataclass(frozen=True)
class _Work:
    """One cover in the making."""

    crews: Crews
    request: TuningRequest
    spaces: Mapping[str, Space]
    progress: Progress
    table: TrialTable
    history: TrialTable = field(default_factory=TrialTable)  # at any size, of records too
    scopes: list[Scope] = field(default_factory=list)  # one, at whatever size, once a device is open

    def tune(self, sizes: Sequence[WeightedSize], seconds: float) -> int:
        """Tune in `seconds` at as many sizes as there is time for, those that stand for all first. Returns how many."""
        share, deadline = max(LEAST_SECONDS, seconds / len(sizes)), time.monotonic() + seconds
        count = 0
        for count, size in enumerate(spread_out(sizes), 1):
            self.progress.noted(f"tuning at {short_size(size.sizes)}, {count} of {len(sizes)}")
            requests = requests_at(self.request, self.spaces.values(), size.sizes)
            for name in [*self._searched(requests, size.sizes, deadline)]:
                # One search at least, however long the trials took: it tells what only an open device does.
                if not self.scopes or len(requests) == 1 or time.monotonic() < deadline:
                    budget = Budget(seconds=share / min(len(requests), MOST_SEARCHED)).text()
                    self.explore(name, replace(requests[name], budget=budget), size.sizes)
            if time.monotonic() > deadline:
                break
        return count

    def _searched(self, requests: Mapping[str, TuningRequest], sizes: dict[str, int], deadline: float) -> list[str]:
        """The kernels that are to be searched at a size: of a family, those that do best in a trial, the last stages
        first, until the deadline. Who was behind at near sizes has none."""
        if len(requests) == 1:
            return [*requests]
        trial = Budget(evaluations=LEAST_TRIAL).text()
        for name in reversed([*requests]):
            if time.monotonic() < deadline and not self._is_behind(name, sizes):
                self.explore(name, replace(requests[name], budget=trial), sizes)
        bests = self.table.best(sizes)  # best first
        least = min(bests.values(), default=0.0)
        return [name for name, value in bests.items() if value <= BEHIND * least][:MOST_SEARCHED] or [*requests][-1:]

    def _is_behind(self, kernel: str, sizes: dict[str, int]) -> bool:
        """Whether a kernel was behind the best of its family at near sizes that are aligned alike; or at all of
        several, by what records say, or far behind by what its trials say."""
        ratios = {size_text(o): (o, _ratio(self.table, kernel, o)) for o in self.table.sizes_of(kernel)}
        ratios.pop(size_text(sizes), None)
        near = [(size_distance(other, sizes), ratio) for other, ratio in ratios.values() if are_alike(other, sizes)]
        judged = [ratio for distance, ratio in sorted(near)[:JUDGED] if distance <= NEAR]
        if len(judged) == JUDGED:
            return all(ratio > BEHIND for ratio in judged)
        recorded = [_ratio(self.history, kernel, other) for other in self.history.sizes_of(kernel)]
        if len(recorded) >= SEVERAL and all(ratio > SLOWER for ratio in recorded):
            return True
        return len(ratios) >= SEVERAL and all(ratio > HOPELESS for _, ratio in ratios.values())

    @property
    def _tables(self) -> tuple[TrialTable, TrialTable]:
        return self.table, self.history

    def explore(
        self, kernel: str, request: TuningRequest, sizes: dict[str, int], configs: Sequence[Config] | None = None
    ) -> None:
        """Search, or measure `configs`, and take the trials into the table. A search leaves out what is compiled for
        one size alone, and begins with what was best at the nearest sizes."""
        try:
            checked, warm = CheckedRequest.of(request), self._warm(kernel, sizes)
            with explored(self.crews, checked, self.progress, configs, general, warm) as search:
                self.table.add(sizes, kernel, search.trials)
                self._look_around(search.crew)
        except UNTUNABLE as error:
            self.progress.noted(f"{kernel} at {short_size(sizes)}: {error}")

    def _warm(self, kernel: str, sizes: dict[str, int]) -> list[Config]:
        """The best configurations of a kernel at the nearest sizes: the best of each, then the second best of each."""
        if not self.scopes:
            return []
        space, scope = self.spaces[kernel], replace(self.scopes[0], sizes=sizes)
        places = [
            (size_distance(other, sizes), table, other) for table in self._tables for other in table.sizes_of(kernel)
        ]
        rankings = [
            [trial.config for (name, _), trial in table.ranking(other) if name == kernel][:WARM]
            for _, table, other in sorted(places, key=lambda place: place[0])[:WARM]
        ]
        configs: dict[ConfigKey, Config] = {}
        for config in itertools.chain.from_iterable(itertools.zip_longest(*rankings)):
            if config is not None and len(configs) < WARM and space.declares(config):
                config = self._generalised(kernel, config, sizes)
                if space.valid(config, scope):
                    configs.setdefault(config_key(config), config)
        return [*configs.values()]

    def _look_around(self, crew: Crew) -> None:
        """Learn what only an open device tells, once: the scope, and which records are of this device."""
        if not self.scopes:
            self.scopes.append(crew.scope)
        if not self.history.is_recalled:
            self.history.recall(self.spaces.values(), crew.scope, crew.device, self.request.results)

    def winners(self, sizes: Sequence[WeightedSize], within: float) -> dict[str, list[Config]]:
        """The configurations that are within the limit at some size, by kernel; MOST_WINNERS of a size.

        Those of the records at the size that is nearest to each of `sizes` are among them.
        """
        recorded = [*self.history.rows()]
        nearest = [min(recorded, key=lambda row: size_distance(row, size.sizes)) for size in sizes if recorded]
        found: dict[str, dict[ConfigKey, Config]] = {name: {} for name in self.spaces}
        for table, rows in ((self.table, self.table.rows()), (self.history, nearest)):
            for row in rows:
                ranking = table.ranking(row)
                for (kernel, _), trial in ranking[:MOST_WINNERS]:
                    if (trial.value or 0.0) <= within * (ranking[0][1].value or 0.0):
                        config = self._generalised(kernel, trial.config, row)
                        found[kernel][config_key(config)] = config
        return {name: [*configs.values()] for name, configs in found.items()}

    def _generalised(self, kernel: str, config: Config, sizes: dict[str, int]) -> Config:
        if not self.scopes:
            return config
        return generalised(self.spaces[kernel], replace(self.scopes[0], sizes=sizes), config)

    def measure(
        self, winners: Mapping[str, Sequence[Config]], sizes: Sequence[WeightedSize], found: Cover, deadline: float
    ) -> None:
        """Measure every winner at every size, until the deadline; count what was, and what there is."""
        if not self.scopes:  # nothing could be searched
            return
        for count, size in enumerate(spread_out(sizes), 1):
            due = {name: self._valid(name, configs, size) for name, configs in winners.items()}
            found.pairs += sum(map(len, due.values()))
            if time.monotonic() < deadline:
                self.progress.noted(f"measuring every winner at {short_size(size.sizes)}, {count} of {len(sizes)}")
                for name, request in requests_at(self.request, self.spaces.values(), size.sizes).items():
                    new = [config for config in due[name] if not self.table.has(size.sizes, name, config)]
                    if time.monotonic() < deadline:
                        if new:
                            self.explore(name, replace(request, budget=None), size.sizes, new)
                        found.measured += len(due[name])

    def _valid(self, kernel: str, configs: Sequence[Config], size: WeightedSize) -> list[Config]:
        return [config for config in configs if self.spaces[kernel].valid(config, self._scope(size))]

    def _scope(self, size: WeightedSize) -> Scope:
        return replace(self.scopes[0], sizes=size.sizes)

    def near_best(self, size: WeightedSize, within: float) -> dict[SizedBuild, float]:
        """The builds that are within the limit at a size, with their values."""
        values = [(pair, trial.config, trial.value or 0.0) for pair, trial in self.table.ranking(size.sizes)]
        near = [each for each in values if each[2] <= within * values[0][2]]
        return {self._build(pair, config, size): value for pair, config, value in near}

    def _build(self, pair: Pair, config: Config, size: WeightedSize) -> SizedBuild:
        space, scope = self.spaces[pair[0]], self._scope(size)
        return SizedBuild(pair, tuple(step.source.digest for step in source.render(space, config, scope)))

    def served(self, size: WeightedSize, times: Mapping[SizedBuild, float], chosen: Iterable[SizedBuild]) -> Served:
        """The size with the fastest of the chosen builds; `times` are those within the limit there."""
        build = min((build for build in chosen if build in times), key=lambda each: times[each])
        best, trial = self.table.ranking(size.sizes)[0]
        return Served(size, build, times[build], trial.value or 0.0, SizedBuild(best))

    def concluded(
        self, served: Sequence[Served], winners: Mapping[str, Sequence[Config]], deadline: float
    ) -> Iterator[Served]:
        """Each size with its final round and record, until the deadline. The round has all chosen configurations of the
        kernel; what is fastest there serves the size. Other winners may be runners-up. Then, while there is time, each
        size gets the records of other kernels that were chosen: they tell the look-up where these are slower."""
        chosen: dict[str, dict[Pair, Config]] = {}
        for each in served:
            chosen.setdefault(each.build.pair[0], {})[each.build.pair] = each.build.config
        for count, each in enumerate(served, 1):
            if time.monotonic() > deadline:
                yield each
                continue
            kernel, sizes = each.build.pair[0], each.size.sizes
            self.progress.noted(f"final round at {short_size(sizes)}, {count} of {len(served)}")
            result = self._final(kernel, sizes, chosen[kernel], winners[kernel])
            config = result.record.config if result.record else each.build.config
            build = self._build((kernel, config_key(config)), config, each.size)
            time_ms = self.table.value(sizes, build.pair) or each.time_ms
            yield replace(each, build=build, time_ms=time_ms, result=result)
        for each in served:
            for kernel in chosen.keys() - {each.build.pair[0]}:
                if time.monotonic() < deadline and any(self.table.value(each.size.sizes, p) for p in chosen[kernel]):
                    self._final(kernel, each.size.sizes, chosen[kernel], winners[kernel])

    def _final(
        self, kernel: str, sizes: dict[str, int], chosen: Mapping[Pair, Config], winners: Sequence[Config]
    ) -> Result:
        """The final round of those chosen configurations of a kernel that were measured at a size."""
        configs = [config for pair, config in chosen.items() if self.table.value(sizes, pair) is not None]
        others = [config for config in winners if config not in configs and self.table.has(sizes, kernel, config)]
        request = requests_at(self.request, [self.spaces[kernel]], sizes)[kernel]
        return tune_with(self.crews, replace(request, budget=None), self.progress, configs, others)


def _ratio(table: TrialTable, kernel: str, sizes: dict[str, int]) -> float:
    """The best value of a kernel at a size over that of its family."""
    bests = table.best(sizes)
    return bests[kernel] / min(bests.values())
