"""The trials from which a cover is chosen: searches at some sizes, and their winners measured at every size."""

from __future__ import annotations

import contextlib
import itertools
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from statistics import median

from tuner import devices
from tuner.classes import dataclass
from tuner.errors import LaunchError, NoConfiguration, WorkerDied
from tuner.families.choice import FamilyTable
from tuner.measure.process.attempts import with_retries
from tuner.search.budget import Budget
from tuner.space.config import Config, ConfigKey, config_key
from tuner.space.model import Space
from tuner.space.scope import Scope
from tuner.space.size_lists import WeightedSize
from tuner.space.sources.rendering import code
from tuner.space.texts import short_size, size_text
from tuner.store import time_tables
from tuner.store.lookup import size_distance
from tuner.store.record import Record
from tuner.store.time_tables import TimeTable
from tuner.tuning.crew.crew import Crew
from tuner.tuning.crew.crews import Crews
from tuner.tuning.exploration import Progress, explored
from tuner.tuning.request import UNTUNABLE, CheckedRequest, TuningRequest, requests_at, why_untunable
from tuner.tuning.several.covering import SizedBuild, are_alike, choose, spread_out
from tuner.tuning.several.predicted_winners import MAY_WIN, TELLING, PredictedWinners
from tuner.tuning.several.size_independent import made_size_independent, size_independent
from tuner.tuning.several.table import HOPELESS, LEAST_TRIAL, NEAR, Setting, TrialTable

LEAST_SECONDS = 3.0  # shortest tuning at a size
LEAST_SEARCH = 1.0  # seconds of a kernel's short trial, however little time is left
MOST_WINNERS = 4  # per size
MOST_RECORDED = 2  # configurations from a kernel's records, per size
BEHIND = 1.25  # times the best of the family: a kernel that is slower in its short trial is not searched
MOST_SEARCHED = 3  # kernels per size
JUDGED = 3  # a kernel that was behind at so many near sizes of the same alignment is skipped
SEVERAL = 4  # the number of records, or of sizes tried, that suffices to judge a kernel
SLOWER = 1.05  # times the best of the family: a kernel that is slower in all of SEVERAL records is skipped
# The model is refitted after REFIT_SIZES more sizes, or after this share of the sizes that it knows, if that is more.
REFIT_SIZES, REFIT_SHARE = 8, 0.25
LEAST_MEASURED, LEAST_TOLD = 6, 12  # winners per size, however little time is left; LEAST_TOLD for time tables
WARM = 8  # configurations that a search tries first, taken from the best ones at the nearest sizes


@dataclass(frozen=True)
class CoverTrials:
    """The trials of one run of `cover`, in `table`, and the times of earlier runs and of a sibling device."""

    crews: Crews
    request: TuningRequest
    spaces: Mapping[str, Space]
    progress: Progress
    table: TrialTable
    history: TrialTable = field(default_factory=TrialTable)  # from the device's records and time tables, at any size
    sibling: TrialTable = field(default_factory=TrialTable)  # from a sibling device's time tables
    settings: list[Setting] = field(default_factory=list)  # empty until a device was opened, then one
    library: dict[str, float] = field(default_factory=dict)  # times in ms of the vendor library, by size
    invalid: set[tuple[str, str]] = field(default_factory=set)  # kernels and sizes without a valid configuration

    def tune(self, sizes: Sequence[WeightedSize], seconds: float) -> int:
        """Tune at as many sizes as `seconds` allow, the most representative ones first. Returns their number."""
        share, deadline = max(LEAST_SECONDS, seconds / len(sizes)), time.monotonic() + seconds
        count = 0
        in_order = spread_out(sizes)
        for count, (size, spaces) in enumerate(zip(in_order, self._likely_first(in_order), strict=True), 1):
            self.progress.noted(f"tuning at {short_size(size.sizes)}, {count} of {len(sizes)}")
            requests = requests_at(self.request, spaces, size.sizes)
            for name in [*self._searched(requests, size.sizes, deadline)]:
                # At least one search, however long the trials took, because it opens the device.
                if not self.settings or len(requests) == 1 or time.monotonic() < deadline:
                    budget = Budget(seconds=share / min(len(requests), MOST_SEARCHED)).text()
                    self.explore(name, replace(requests[name], budget=budget), size.sizes)
            if time.monotonic() > deadline:
                break
        return count

    def _likely_first(self, sizes: Sequence[WeightedSize]) -> list[list[Space]]:
        """For each of these sizes, the kernels in the order in which look-ups would choose them.

        The device is closed again before anything is measured: one of exclusive use has one process at a time.
        """
        spaces = [*self.spaces.values()]
        if len(spaces) == 1:
            return [spaces for _ in sizes]
        checked = CheckedRequest.of(next(iter(requests_at(self.request, spaces, sizes[0].sizes).values())))
        task = checked.task
        with contextlib.closing(devices.open_device(checked.device_ids[0])) as device:
            scope = task.space.operation.scope(task.sizes, task.options, device.language, device.limits, task.types)
            look_ups = FamilyTable(spaces, device, scope, library=False, results=self.request.results)
            return [look_ups.kernels(size.sizes) for size in sizes]

    def _searched(self, requests: Mapping[str, TuningRequest], sizes: dict[str, int], deadline: float) -> list[str]:
        """The kernels to search at a size.

        Each kernel of a family has a short trial, in their order, until the deadline; the best ones are searched. A
        kernel that lost at nearby sizes is skipped.
        """
        if len(requests) == 1:
            return [*requests]
        left_out: list[str] = []
        for name in requests:
            if self._is_behind(name, sizes):
                continue
            if (left := deadline - time.monotonic()) > 0:
                trial = Budget(LEAST_TRIAL, max(LEAST_SEARCH, left)).text()
                self.explore(name, replace(requests[name], budget=trial), sizes)
            else:
                left_out.append(name)
        if left_out:
            self.progress.noted(f"no time at {short_size(sizes)} to try {', '.join(left_out)}")
        bests = self.table.best(sizes)  # best first
        least = min(bests.values(), default=0.0)
        return [name for name, value in bests.items() if value <= BEHIND * least][:MOST_SEARCHED] or [*requests][:1]

    def _is_behind(self, kernel: str, sizes: dict[str, int]) -> bool:
        """Whether a kernel is too slow to be tried at a size.

        It is too slow if it was behind the best of its family at all of the JUDGED nearest sizes of the same alignment.
        With fewer near sizes, it is too slow if it was slower at all of at least SEVERAL sizes of `history`, or far
        behind at all of at least SEVERAL sizes tried.
        """
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
        self,
        kernel: str,
        request: TuningRequest,
        sizes: dict[str, int],
        configs: Sequence[Config] | None = None,
        with_library: bool = False,
    ) -> None:
        """Search, or measure `configs`, and add the trials to the table. `with_library` times the vendor library, too.

        A search skips configurations whose code serves one size only, and begins with the best ones at the nearest
        sizes.
        """
        try:
            checked, warm = CheckedRequest.of(request), self._warm(kernel, sizes)
            with explored(self.crews, checked, self.progress, configs, size_independent, warm) as search:
                self.table.add(sizes, kernel, search.trials)
                self._determine_setting(search.crew)
                if with_library and size_text(sizes) not in self.library:
                    with contextlib.suppress(WorkerDied):
                        times = with_retries(search.crew.lead.library, self.progress.noted)
                        self.library.update({size_text(sizes): median(times)} if times else {})
        except UNTUNABLE as error:
            if isinstance(error, NoConfiguration):
                self.invalid.add((kernel, size_text(sizes)))
            self.progress.noted(f"{kernel} at {short_size(sizes)}: {why_untunable(kernel, error)}")

    def _warm(self, kernel: str, sizes: dict[str, int]) -> list[Config]:
        """A kernel's best configurations at the nearest sizes: the best of each size, then the second best, and so on.

        Empty before a device was opened.
        """
        if not self.settings:
            return []
        space, scope = self.spaces[kernel], replace(self.settings[0].scope, sizes=sizes)
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
                config = self._size_independent(kernel, config, sizes)
                if space.valid(config, scope):
                    configs.setdefault(config_key(config), config)
        return [*configs.values()]

    def _determine_setting(self, crew: Crew) -> None:
        """Once, when a device is open: determine the setting, and recall its time tables and records."""
        if self.settings:
            return
        launch_ms = None
        if not crew.device.on_processor:  # on a processor other programs disturb the measurement
            with contextlib.suppress(WorkerDied, LaunchError):
                launch_ms = with_retries(crew.lead.launch_ms, self.progress.noted)
        setting = Setting([*self.spaces.values()], crew.scope, crew.device, self.request.results, launch_ms)
        self.settings.append(setting)
        self.history.recall_tables(setting)
        self.history.recall(setting)

    def look(self, size: WeightedSize) -> None:
        """Open the devices without measuring, and recall time tables and records, also of a sibling device.

        Raises as `driver.tune` does.
        """
        checked = CheckedRequest.of(next(iter(requests_at(self.request, self.spaces.values(), size.sizes).values())))
        with self.crews.on(checked.task, checked.device_ids) as crew:
            self._determine_setting(crew)
            self.sibling.recall_sibling(self.settings[0])

    def winners(self, sizes: Sequence[WeightedSize], within: float) -> dict[str, list[Config]]:
        """By kernel, the configurations whose time at some size is at most `within` x the best; MOST_WINNERS per size.

        For each of `sizes`, MOST_RECORDED configurations of each kernel are added from `history`: from the nearest size
        at which the kernel was near the best of its family, preferably one of the same alignment. So a kernel for
        unaligned rows is measured even if no search tried it here.
        """
        by_kernel: dict[str, dict[ConfigKey, Config]] = {name: {} for name in self.spaces}
        for row in self.table.rows():
            ranking = self.table.ranking(row)
            for (kernel, _), trial in ranking[:MOST_WINNERS]:
                if (trial.value or 0.0) <= within * (ranking[0][1].value or 0.0):
                    self._add_winner(by_kernel, kernel, trial.config, row)
        for kernel in self.spaces:
            recorded = [row for row in self.history.sizes_of(kernel) if _ratio(self.history, kernel, row) <= BEHIND]
            for size in sizes if recorded else ():
                row = min(recorded, key=lambda row: (not are_alike(row, size.sizes), size_distance(row, size.sizes)))
                best = [trial.config for (name, _), trial in self.history.ranking(row) if name == kernel]
                for config in best[:MOST_RECORDED]:
                    self._add_winner(by_kernel, kernel, config, row)
        return {name: [*configs.values()] for name, configs in by_kernel.items()}

    def known(self, within: float) -> dict[str, list[Config]]:
        """The fewest known configurations that serve every known size within the limit, by kernel.

        They come from records and time tables; at sizes without times of this device, from the sibling's. Each is made
        size-independent, if possible.
        """
        own = {size_text(row): (row, self.history.ranking(row)) for row in self.history.rows()}
        lent = {size_text(row): (row, self.sibling.ranking(row)) for row in self.sibling.rows()}
        every = [*{**lent, **own}.values()]
        times = [{SizedBuild(pair): trial.value or 0.0 for pair, trial in ranking} for _, ranking in every]
        by_kernel: dict[str, dict[ConfigKey, Config]] = {name: {} for name in self.spaces}
        for build in choose(times, [1.0] * len(times), within):
            kernel, config = build.pair[0], build.config
            if self.spaces[kernel].declares(config):
                row = next(row for (row, _), of_row in zip(every, times, strict=True) if build in of_row)
                self._add_winner(by_kernel, kernel, config, row)
        return {name: [*configs.values()] for name, configs in by_kernel.items()}

    def _add_winner(
        self, by_kernel: Mapping[str, dict[ConfigKey, Config]], kernel: str, config: Config, sizes: dict[str, int]
    ) -> None:
        config = self._size_independent(kernel, config, sizes)
        by_kernel[kernel][config_key(config)] = config

    def _size_independent(self, kernel: str, config: Config, sizes: dict[str, int]) -> Config:
        """`config`, or a similar one whose code serves many sizes."""
        if not self.settings:
            return config
        return made_size_independent(self.spaces[kernel], replace(self.settings[0].scope, sizes=sizes), config)

    def measure(
        self,
        winners: Mapping[str, Sequence[Config]],
        sizes: Sequence[WeightedSize],
        deadline: float,
        for_tables: bool = False,
    ) -> tuple[int, int]:
        """Measure the winners at each size at which they may be near the best, until the deadline.

        If there is too little time for all pairs of a winner and a size, each size gets a share of the time.
        `for_tables` also measures the vendor library and winners that are probably slower, because the time model must
        learn where a configuration is slow. Returns the number of pairs, and how many of them were measured.
        """
        pairs = measured = tried = next_fit = 0
        if not self.settings:  # no search could be started
            return pairs, measured
        began, setting = time.monotonic(), self.settings[0]
        for count, size in enumerate(spread_out(sizes)):
            if count >= next_fit:
                predicted = PredictedWinners(self.spaces, winners, self._tables, setting.scope, setting.device)
                next_fit = count + max(REFIT_SIZES, int(REFIT_SHARE * predicted.sizes))
            valid = {name: self._valid(name, configs, size) for name, configs in winners.items()}
            within = TELLING if for_tables else MAY_WIN
            pairs += sum(map(len, predicted.of(valid, size.sizes, within=within).values()))
            now = time.monotonic()
            if now >= deadline:
                continue
            share = (deadline - now) / (len(sizes) - count) * tried / (now - began) if tried else math.inf
            due = predicted.of(valid, size.sizes, max(LEAST_TOLD if for_tables else LEAST_MEASURED, share), within)
            self.progress.noted(f"measuring winners at {short_size(size.sizes)}, {count + 1} of {len(sizes)}")
            for name, request in requests_at(self.request, self.spaces.values(), size.sizes).items():
                new = [config for config in due[name] if not self.table.has(size.sizes, name, config)]
                if for_tables or time.monotonic() < deadline:  # a time table's times at one size must be comparable
                    if new:
                        self.explore(name, replace(request, budget=None), size.sizes, new, for_tables)
                    tried += len(new)
                    measured += len(due[name])
        return pairs, measured

    def tabulate(self, winners: Mapping[str, Sequence[Config]], records: Mapping[str, Record | None]) -> None:
        """Write the times of the winners into time tables, for look-ups at other sizes.

        The vendor library's times are taken from `records`, by size, or else from `library`. Raises RequestError if a
        table cannot be written.
        """
        if not self.settings:
            return
        setting = self.settings[0]
        # Rounded, so that this machine's later measurements mostly go into the same table. If machines share a storage,
        # trials come from several of them, and no launch overhead applies.
        launch_ms = float(f"{setting.launch_ms or 0.0:.1e}") if self.request.storage is None else 0.0
        for name, space in self.spaces.items():
            device, scope, names = setting.device, setting.scope, tuple(space.operation.sizes)
            table = TimeTable(
                device.kind, device.name, code(space), names, scope.options, scope.types,
                architecture=device.architecture, units=device.units, launch_ms=launch_ms, conditions=device.conditions,
                deployment=self.request.method.deployment,
            )  # fmt: skip
            for sizes in self.table.rows():
                at = tuple(sizes[each] for each in names)
                for config in winners[name]:
                    if value := self.table.value(sizes, (name, config_key(config))):
                        table.add(config, at, value)
                record = records.get(size_text(sizes))
                if record is not None and record.library_ms:
                    table.library[at] = record.library_ms
                elif size_text(sizes) in self.library:
                    table.library[at] = self.library[size_text(sizes)]
            if table.times:
                time_tables.write(name, [table], self.request.results)

    def _valid(self, kernel: str, configs: Sequence[Config], size: WeightedSize) -> list[Config]:
        return [config for config in configs if self.spaces[kernel].valid(config, self.scope_at(size))]

    def is_invalid(self, size: WeightedSize) -> bool:
        """Whether every kernel was found to have no valid configuration at a size."""
        return all((kernel, size_text(size.sizes)) in self.invalid for kernel in self.spaces)

    def scope_at(self, size: WeightedSize) -> Scope:
        return replace(self.settings[0].scope, sizes=size.sizes)


def _ratio(table: TrialTable, kernel: str, sizes: dict[str, int]) -> float:
    """The best time of a kernel at a size, relative to the best of its family."""
    bests = table.best(sizes)
    return bests[kernel] / min(bests.values())
