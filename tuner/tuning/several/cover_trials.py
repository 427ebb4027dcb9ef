"""The trials from which a cover is chosen: searches at some sizes, and their winners measured at every size."""

from __future__ import annotations

import contextlib
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
from tuner.space.config import Config, config_key
from tuner.space.model import Space
from tuner.space.size_lists import WeightedSize
from tuner.space.sources.rendering import code
from tuner.space.texts import short_size, size_text
from tuner.store import time_tables
from tuner.store.record import Record
from tuner.store.time_tables import TimeTable
from tuner.tuning.crew.crew import Crew
from tuner.tuning.crew.crews import Crews
from tuner.tuning.exploration import explored
from tuner.tuning.progress import Progress
from tuner.tuning.request import UNTUNABLE, CheckedRequest, TuningRequest, requests_at, why_untunable
from tuner.tuning.several.cover_times import BEHIND, CoverTimes
from tuner.tuning.several.covering import spread_out
from tuner.tuning.several.predicted_winners import MAY_WIN, TELLING, PredictedWinners
from tuner.tuning.several.size_independent import size_independent
from tuner.tuning.several.table import LEAST_TRIAL, Setting

LEAST_SECONDS = 3.0  # shortest tuning at a size
LEAST_SEARCH = 1.0  # seconds of a kernel's short trial, however little time is left
MOST_SEARCHED = 3  # kernels per size
# The model is refitted after REFIT_SIZES more sizes, or after this share of the sizes that it knows, if that is more.
REFIT_SIZES, REFIT_SHARE = 8, 0.25
LEAST_MEASURED, LEAST_TOLD = 6, 12  # winners per size, however little time is left; LEAST_TOLD for time tables


@dataclass(frozen=True)
class CoverTrials:
    """The trials of one run of `cover`, which go into `times`."""

    crews: Crews
    request: TuningRequest
    progress: Progress
    times: CoverTimes
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
                if not self.times.settings or len(requests) == 1 or time.monotonic() < deadline:
                    budget = Budget(seconds=share / min(len(requests), MOST_SEARCHED)).text()
                    self.explore(name, replace(requests[name], budget=budget), size.sizes)
            if time.monotonic() > deadline:
                break
        return count

    def _likely_first(self, sizes: Sequence[WeightedSize]) -> list[list[Space]]:
        """For each of these sizes, the kernels in the order in which look-ups would choose them.

        The device is closed again before anything is measured: one of exclusive use has one process at a time.
        """
        spaces = [*self.times.spaces.values()]
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
            if self.times.is_behind(name, sizes):
                continue
            if (left := deadline - time.monotonic()) > 0:
                trial = Budget(LEAST_TRIAL, max(LEAST_SEARCH, left)).text()
                self.explore(name, replace(requests[name], budget=trial), sizes)
            else:
                left_out.append(name)
        if left_out:
            self.progress.noted(f"no time at {short_size(sizes)} to try {', '.join(left_out)}")
        bests = self.times.table.best(sizes)  # best first
        least = min(bests.values(), default=0.0)
        return [name for name, value in bests.items() if value <= BEHIND * least][:MOST_SEARCHED] or [*requests][:1]

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
            checked, warm = CheckedRequest.of(request), self.times.warm(kernel, sizes)
            with explored(self.crews, checked, self.progress, configs, size_independent, warm) as search:
                self.times.table.add(sizes, kernel, search.trials)
                self._determine_setting(search.crew)
                if with_library and size_text(sizes) not in self.library:
                    with contextlib.suppress(WorkerDied):
                        times = with_retries(search.crew.lead.library, self.progress.noted)
                        self.library.update({size_text(sizes): median(times)} if times else {})
        except UNTUNABLE as error:
            if isinstance(error, NoConfiguration):
                self.invalid.add((kernel, size_text(sizes)))
            self.progress.noted(f"{kernel} at {short_size(sizes)}: {why_untunable(kernel, error)}")

    def _determine_setting(self, crew: Crew) -> None:
        """Once, when a device is open: determine the setting, and recall its time tables and records."""
        if self.times.settings:
            return
        launch_ms = None
        if not crew.device.on_processor:  # on a processor other programs disturb the measurement
            with contextlib.suppress(WorkerDied, LaunchError):
                launch_ms = with_retries(crew.lead.launch_ms, self.progress.noted)
        setting = Setting([*self.times.spaces.values()], crew.scope, crew.device, self.request.results, launch_ms)
        self.times.settings.append(setting)
        self.times.history.recall_tables(setting)
        self.times.history.recall(setting)

    def look(self, size: WeightedSize) -> None:
        """Open the devices without measuring, and recall time tables and records, also of a sibling device.

        Raises as `driver.tune` does.
        """
        checked = CheckedRequest.of(
            next(iter(requests_at(self.request, self.times.spaces.values(), size.sizes).values()))
        )
        with self.crews.on(checked.task, checked.device_ids) as crew:
            self._determine_setting(crew)
            self.times.sibling.recall_sibling(self.times.settings[0])

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
        if not self.times.settings:  # no search could be started
            return pairs, measured
        began, setting = time.monotonic(), self.times.settings[0]
        for count, size in enumerate(spread_out(sizes)):
            if count >= next_fit:
                predicted = PredictedWinners(
                    self.times.spaces, winners, self.times.tables, setting.scope, setting.device
                )
                next_fit = count + max(REFIT_SIZES, int(REFIT_SHARE * predicted.sizes))
            valid = {name: self.times.valid(name, configs, size) for name, configs in winners.items()}
            within = TELLING if for_tables else MAY_WIN
            pairs += sum(map(len, predicted.of(valid, size.sizes, within=within).values()))
            now = time.monotonic()
            if now >= deadline:
                continue
            share = (deadline - now) / (len(sizes) - count) * tried / (now - began) if tried else math.inf
            due = predicted.of(valid, size.sizes, max(LEAST_TOLD if for_tables else LEAST_MEASURED, share), within)
            self.progress.noted(f"measuring winners at {short_size(size.sizes)}, {count + 1} of {len(sizes)}")
            for name, request in requests_at(self.request, self.times.spaces.values(), size.sizes).items():
                new = [config for config in due[name] if not self.times.table.has(size.sizes, name, config)]
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
        if not self.times.settings:
            return
        setting = self.times.settings[0]
        # Rounded, so that this machine's later measurements mostly go into the same table. If machines share a storage,
        # trials come from several of them, and no launch overhead applies.
        launch_ms = float(f"{setting.launch_ms or 0.0:.1e}") if self.request.storage is None else 0.0
        for name, space in self.times.spaces.items():
            device, scope, names = setting.device, setting.scope, tuple(space.operation.sizes)
            table = TimeTable(
                device.kind, device.name, code(space), names, scope.options, scope.types,
                architecture=device.architecture, units=device.units, launch_ms=launch_ms, conditions=device.conditions,
                deployment=self.request.method.deployment,
            )  # fmt: skip
            for sizes in self.times.table.rows():
                at = tuple(sizes[each] for each in names)
                for config in winners[name]:
                    if value := self.times.table.value(sizes, (name, config_key(config))):
                        table.add(config, at, value)
                record = records.get(size_text(sizes))
                if record is not None and record.library_ms:
                    table.library[at] = record.library_ms
                elif size_text(sizes) in self.library:
                    table.library[at] = self.library[size_text(sizes)]
            if table.times:
                time_tables.write(name, [table], self.request.results)

    def is_invalid(self, size: WeightedSize) -> bool:
        """Whether every kernel was found to have no valid configuration at a size."""
        return all((kernel, size_text(size.sizes)) in self.invalid for kernel in self.times.spaces)
