"""A cover: the fewest builds of a family that are nearly as fast as the best known at every size.

tune at some sizes -> measure the winners at every size -> choose builds -> a record per size, and a time table
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
from tuner.tuning.crew.crews import Crews
from tuner.tuning.driver import Result, tune_with
from tuner.tuning.progress import Progress
from tuner.tuning.request import TuningRequest, requests_at
from tuner.tuning.several.cover_times import CoverTimes
from tuner.tuning.several.cover_trials import CoverTrials
from tuner.tuning.several.covering import Pair, SizedBuild, choose

TUNING, MEASURING = 0.4, 0.75  # shares of the time after which no search, and then no measurement, starts


@dataclass(frozen=True)
class Served:
    """A size and the build that serves it in `time_ms`. `best` is the fastest known build there, with `best_ms`."""

    size: WeightedSize
    build: SizedBuild
    time_ms: float
    best_ms: float
    best: SizedBuild
    result: Result | None = None  # of the final round, if there was time for one

    @property
    def regret(self) -> float:
        """The slowdown relative to the best known build (0.02 = 2 %)."""
        return self.time_ms / self.best_ms - 1


@dataclass
class Cover:
    """The result of `cover`: how each size is served.

    `unserved` sizes were not measured in time; `invalid` ones have no valid configuration. `tuned` counts the sizes at
    which a search ran, `winners` the configurations considered. `pairs` counts pairs of a winner and a size at which it
    may be near the best, and `measured` those that were measured.
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
        """The builds by kernel and configuration, in descending order of the weight that they serve."""
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
        """Whether every size is served by a build and has a record."""
        return (
            not self.unserved
            and not self.invalid
            and all(served.result and served.result.record for served in self.served)
        )


@dataclass(frozen=True)
class CoverRequest:
    """The request for a cover of `sizes` with configurations of `spaces`.

    At each size the cover's time is at most `within` times the best known. The run takes about `seconds`. `template`
    has the settings of the searches.
    """

    template: TuningRequest
    spaces: Sequence[Space]
    sizes: Sequence[WeightedSize]
    within: float
    seconds: float

    @contextlib.contextmanager
    def trials(self, progress: Progress) -> Iterator[CoverTrials]:
        """Enter a block with an empty CoverTrials, whose devices close at the end."""
        with Crews(progress.noted) as crews:
            spaces = {space.name: space for space in self.spaces}
            yield CoverTrials(crews, self.template, progress, CoverTimes(spaces))


def cover(request: CoverRequest, progress: Progress) -> Cover:
    """Find the fewest builds that serve the sizes.

    Every trial is in the ledger as soon as it is measured, so the same call continues after an interrupt. Raises as
    `driver.tune` does.
    """
    sizes, seconds = request.sizes, request.seconds
    with request.trials(progress) as trials:
        began = time.monotonic()
        result = Cover(tuned=trials.tune(sizes, TUNING * seconds))
        winners = trials.times.winners(sizes, request.within)
        result.winners = sum(map(len, winners.values()))
        result.pairs, result.measured = trials.measure(winners, sizes, began + MEASURING * seconds)
        served = [size for size in sizes if trials.times.table.ranking(size.sizes)]
        for size in (size for size in sizes if size not in served):
            (result.invalid if trials.is_invalid(size) else result.unserved).append(size)
        choice = _Choice(trials, served, request.within)
        result.served = list(choice.concluded(winners, began + seconds))
        trials.tabulate(winners, {size_text(s.size.sizes): s.result.record for s in result.served if s.result})
    return result


@dataclass(frozen=True)
class Times:
    """The counts of `measure_times`.

    `pairs` counts pairs of a winner and a size at which it may be near the best, and `measured` those that were
    measured, at `sizes` sizes. At `with_library` of these sizes the vendor library was measured, too.
    """

    winners: int
    pairs: int
    measured: int
    sizes: int
    with_library: int


def measure_times(request: CoverRequest, progress: Progress) -> Times:
    """Measure known configurations and the vendor library at the sizes, and write their times into time tables.

    The configurations are the fewest that serve all sizes of records and time tables. Raises as `cover` does.
    """
    began = time.monotonic()
    with request.trials(progress) as trials:
        trials.look(request.sizes[0])
        winners = trials.times.known(request.within)
        try:
            pairs, measured = trials.measure(winners, request.sizes, began + request.seconds, for_tables=True)
        finally:
            trials.tabulate(winners, {})
    count = len([*trials.times.table.rows()])
    return Times(sum(map(len, winners.values())), pairs, measured, count, len(trials.library))


class _Choice:
    """The chosen builds, and the one that serves each size."""

    def __init__(self, trials: CoverTrials, sizes: Sequence[WeightedSize], within: float) -> None:
        """Every one of `sizes` must have trials."""
        self._trials, self._times = trials, trials.times
        times = [self._near_best(size, within) for size in sizes]
        chosen = choose(times, [size.weight for size in sizes], within)
        self._served = [self._serving(*each, chosen) for each in zip(sizes, times, strict=True)]
        self._chosen: dict[str, dict[Pair, Config]] = {}
        for each in self._served:
            self._chosen.setdefault(each.build.pair[0], {})[each.build.pair] = each.build.config

    def _near_best(self, size: WeightedSize, within: float) -> dict[SizedBuild, float]:
        """The builds that take at most `within` times the best at a size, with their times."""
        values = [(pair, trial.config, trial.value or 0.0) for pair, trial in self._times.table.ranking(size.sizes)]
        near = [each for each in values if each[2] <= within * values[0][2]]
        return {self._build(pair, config, size): value for pair, config, value in near}

    def _build(self, pair: Pair, config: Config, size: WeightedSize) -> SizedBuild:
        space, scope = self._times.spaces[pair[0]], self._times.scope_at(size)
        return SizedBuild(pair, tuple(step.source.digest for step in rendering.render(Instance(space, config, scope))))

    def _serving(self, size: WeightedSize, times: Mapping[SizedBuild, float], chosen: Iterable[SizedBuild]) -> Served:
        """The size, served by the fastest chosen build; `times` are those of the builds within the limit there."""
        build = min((build for build in chosen if build in times), key=lambda each: times[each])
        best, trial = self._times.table.ranking(size.sizes)[0]
        return Served(size, build, times[build], trial.value or 0.0, SizedBuild(best))

    def concluded(self, winners: Mapping[str, Sequence[Config]], deadline: float) -> Iterator[Served]:
        """Run the final round of each size, until the deadline, and yield how the size is served.

        The round compares all chosen configurations of the kernel; the fastest one serves the size. Other winners can
        be runners-up.
        """
        table = self._times.table
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
        """Run the final round at a size, of the kernel's chosen configurations that were measured there."""
        trials, times, chosen = self._trials, self._times, self._chosen[kernel]
        configs = [config for pair, config in chosen.items() if times.table.value(sizes, pair) is not None]
        others = [config for config in winners if config not in configs and times.table.has(sizes, kernel, config)]
        request = requests_at(trials.request, [times.spaces[kernel]], sizes)[kernel]
        return tune_with(trials.crews, replace(request, budget=None), trials.progress, configs, others)
