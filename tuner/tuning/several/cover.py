"""A cover: the fewest builds of a family with which every size is nearly as fast as the best known there.

tune at some sizes -> winners -> these at every size -> choose -> a record for each size, and a table of all times
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tuner.space.config import Config, config_key
from tuner.space.instance import Instance
from tuner.space.model import Space
from tuner.space.size_lists import WeightedSize
from tuner.space.sources import rendering
from tuner.space.texts import short_size, size_text
from tuner.tuning.crew.crew import Crews
from tuner.tuning.driver import Result, tune_with
from tuner.tuning.exploration import Progress
from tuner.tuning.request import TuningRequest, requests_at
from tuner.tuning.several.cover_trials import CoverTrials
from tuner.tuning.several.covering import SizedBuild, choose
from tuner.tuning.several.table import Pair, TrialTable

TUNING, MEASURING = 0.4, 0.75  # shares of the time after which tuning, and then measuring, begins nothing more


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
    """What came of it: the builds, and how each size is served; `unserved` sizes had no time, `invalid` ones have no
    valid configuration.

    `tuned` counts the sizes with a search of their own. Of all `pairs` of a winner and a size where it is valid,
    `measured` were.
    """

    served: list[Served] = field(default_factory=list)
    unserved: list[WeightedSize] = field(default_factory=list)
    invalid: list[WeightedSize] = field(default_factory=list)
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
        return (
            not self.unserved
            and not self.invalid
            and all(served.result and served.result.record for served in self.served)
        )


@dataclass(frozen=True)
class CoverRequest:
    """What is to be covered: `sizes`, with configurations of `spaces` that take at most `within` times the best known,
    in about `seconds`. `template` says how to tune a kernel at one of the sizes."""

    template: TuningRequest
    spaces: Sequence[Space]
    sizes: Sequence[WeightedSize]
    within: float
    seconds: float

    @contextlib.contextmanager
    def trials(self, progress: Progress) -> Iterator[CoverTrials]:
        """Trials that nobody has made yet."""
        with Crews(progress.noted) as crews:
            spaces = {space.name: space for space in self.spaces}
            yield CoverTrials(crews, self.template, spaces, progress, TrialTable())


def cover(request: CoverRequest, progress: Progress) -> Cover:
    """Find the fewest builds that serve the sizes.

    Every trial is in the ledger as soon as it is measured. The same call goes on from there. Raises as `driver.tune`
    does.
    """
    sizes, seconds = request.sizes, request.seconds
    with request.trials(progress) as trials:
        began = time.monotonic()
        found = Cover(tuned=trials.tune(sizes, TUNING * seconds))
        winners = trials.winners(sizes, request.within)
        found.winners = sum(map(len, winners.values()))
        found.pairs, found.measured = trials.measure(winners, sizes, began + MEASURING * seconds)
        served = [size for size in sizes if trials.table.ranking(size.sizes)]
        for size in (size for size in sizes if size not in served):
            (found.invalid if trials.is_invalid(size) else found.unserved).append(size)
        choice = _Choice(trials, served, request.within)
        found.served = list(choice.concluded(winners, began + seconds))
        trials.tabulate(winners, {size_text(s.size.sizes): s.result.record for s in found.served if s.result})
    return found


@dataclass(frozen=True)
class Times:
    """What came of measuring times alone: of all `pairs` of a winner and a size where it may be near the best,
    `measured` were, at `sizes`, and at `with_library` of these the vendor's library."""

    winners: int
    pairs: int
    measured: int
    sizes: int
    with_library: int


def measure_times(request: CoverRequest, progress: Progress) -> Times:
    """Measure at the sizes the fewest configurations that serve all sizes of records and tables, and the vendor's
    library, and write the times into tables. Raises as `cover` does."""
    began = time.monotonic()
    with request.trials(progress) as trials:
        trials.look(request.sizes[0])
        winners = trials.known(request.within)
        try:
            pairs, measured = trials.measure(winners, request.sizes, began + request.seconds, for_tables=True)
        finally:
            trials.tabulate(winners, {})
    count = len([*trials.table.rows()])
    return Times(sum(map(len, winners.values())), pairs, measured, count, len(trials.library))


class _Choice:
    """The builds that were chosen, and how each size is served."""

    def __init__(self, trials: CoverTrials, sizes: Sequence[WeightedSize], within: float) -> None:
        """At each of `sizes`, there are trials."""
        self._trials = trials
        times = [self._near_best(size, within) for size in sizes]
        chosen = choose(times, [size.weight for size in sizes], within)
        self._served = [self._serving(*each, chosen) for each in zip(sizes, times, strict=True)]
        self._chosen: dict[str, dict[Pair, Config]] = {}
        for each in self._served:
            self._chosen.setdefault(each.build.pair[0], {})[each.build.pair] = each.build.config

    def _near_best(self, size: WeightedSize, within: float) -> dict[SizedBuild, float]:
        """The builds that are within the limit at a size, with their values."""
        values = [(pair, trial.config, trial.value or 0.0) for pair, trial in self._trials.table.ranking(size.sizes)]
        near = [each for each in values if each[2] <= within * values[0][2]]
        return {self._build(pair, config, size): value for pair, config, value in near}

    def _build(self, pair: Pair, config: Config, size: WeightedSize) -> SizedBuild:
        space, scope = self._trials.spaces[pair[0]], self._trials.scope_at(size)
        return SizedBuild(pair, tuple(step.source.digest for step in rendering.render(Instance(space, config, scope))))

    def _serving(self, size: WeightedSize, times: Mapping[SizedBuild, float], chosen: Iterable[SizedBuild]) -> Served:
        """The size with the fastest of the chosen builds; `times` are those within the limit there."""
        build = min((build for build in chosen if build in times), key=lambda each: times[each])
        best, trial = self._trials.table.ranking(size.sizes)[0]
        return Served(size, build, times[build], trial.value or 0.0, SizedBuild(best))

    def concluded(self, winners: Mapping[str, Sequence[Config]], deadline: float) -> Iterator[Served]:
        """Each size with its final round and record, until the deadline. The round has all chosen configurations of the
        kernel; what is fastest there serves the size. Other winners may be runners-up."""
        table = self._trials.table
        for count, each in enumerate(self._served, 1):
            if time.monotonic() > deadline:
                yield each
                continue
            kernel, sizes = each.build.pair[0], each.size.sizes
            self._trials.progress.noted(f"final round at {short_size(sizes)}, {count} of {len(self._served)}")
            result = self._final(kernel, sizes, winners[kernel])
            finals = ((each.trial, each.final.time_ms) for each in result.selection.finalists if each.final.times)
            table.settle(sizes, kernel, finals)
            best, trial = table.ranking(sizes)[0]
            config = result.record.config if result.record else each.build.config
            build = self._build((kernel, config_key(config)), config, each.size)
            time_ms, best_ms = table.value(sizes, build.pair) or each.time_ms, trial.value or each.best_ms
            yield replace(each, build=build, time_ms=time_ms, best_ms=best_ms, best=SizedBuild(best), result=result)

    def _final(self, kernel: str, sizes: dict[str, int], winners: Sequence[Config]) -> Result:
        """The final round of those chosen configurations of a kernel that were measured at a size."""
        trials, chosen = self._trials, self._chosen[kernel]
        configs = [config for pair, config in chosen.items() if trials.table.value(sizes, pair) is not None]
        others = [config for config in winners if config not in configs and trials.table.has(sizes, kernel, config)]
        request = requests_at(trials.request, [trials.spaces[kernel]], sizes)[kernel]
        return tune_with(trials.crews, replace(request, budget=None), trials.progress, configs, others)
