"""The times by which a cover is chosen: those of its trials, of earlier runs and of a sibling device."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import field, replace

from tuner.classes import dataclass
from tuner.space.config import Config, ConfigKey, config_key
from tuner.space.model import Space
from tuner.space.scope import Scope
from tuner.space.size_lists import WeightedSize
from tuner.space.texts import size_text
from tuner.store.lookup import size_distance
from tuner.tuning.several.covering import SizedBuild, are_alike, choose
from tuner.tuning.several.size_independent import made_size_independent
from tuner.tuning.several.table import HOPELESS, NEAR, Setting, TrialTable

MOST_WINNERS = 4  # per size
MOST_RECORDED = 2  # configurations from a kernel's records, per size
BEHIND = 1.25  # times the best of the family: a kernel that is slower in its short trial is not searched
JUDGED = 3  # a kernel that was behind at so many near sizes of the same alignment is skipped
SEVERAL = 4  # the number of records, or of sizes tried, that suffices to judge a kernel
SLOWER = 1.05  # times the best of the family: a kernel that is slower in all of SEVERAL records is skipped
WARM = 8  # configurations that a search tries first, taken from the best ones at the nearest sizes


@dataclass(frozen=True)
class CoverTimes:
    """The times of one run of `cover`, in `table`, and those of earlier runs and of a sibling device."""

    spaces: Mapping[str, Space]
    table: TrialTable = field(default_factory=TrialTable)
    history: TrialTable = field(default_factory=TrialTable)  # from the device's records and time tables, at any size
    sibling: TrialTable = field(default_factory=TrialTable)  # from a sibling device's time tables
    settings: list[Setting] = field(default_factory=list)  # empty until a device was opened, then one

    def is_behind(self, kernel: str, sizes: dict[str, int]) -> bool:
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
    def tables(self) -> tuple[TrialTable, TrialTable]:
        """The times of this device: those of this run, and earlier ones."""
        return self.table, self.history

    def warm(self, kernel: str, sizes: dict[str, int]) -> list[Config]:
        """A kernel's best configurations at the nearest sizes: the best of each size, then the second best, and so on.

        Empty before a device was opened.
        """
        if not self.settings:
            return []
        space, scope = self.spaces[kernel], replace(self.settings[0].scope, sizes=sizes)
        places = [
            (size_distance(other, sizes), table, other) for table in self.tables for other in table.sizes_of(kernel)
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

    def valid(self, kernel: str, configs: Sequence[Config], size: WeightedSize) -> list[Config]:
        """Those of the configurations that are valid at a size. A device must have been opened."""
        return [config for config in configs if self.spaces[kernel].valid(config, self.scope_at(size))]

    def scope_at(self, size: WeightedSize) -> Scope:
        """The scope of a size. A device must have been opened."""
        return replace(self.settings[0].scope, sizes=size.sizes)


def _ratio(table: TrialTable, kernel: str, sizes: dict[str, int]) -> float:
    """The best time of a kernel at a size, relative to the best of its family."""
    bests = table.best(sizes)
    return bests[kernel] / min(bests.values())
