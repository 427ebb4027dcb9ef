"""A table of trials by size, kernel and configuration."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from tuner.classes import dataclass
from tuner.devices import DeviceInfo
from tuner.measure.results import Outcome
from tuner.prediction import launch_overhead
from tuner.space.config import Config, config_key
from tuner.space.model import Space
from tuner.space.scope import Scope
from tuner.space.texts import size_text
from tuner.store import lookup, time_tables
from tuner.store.lookup import Query
from tuner.store.store import Store
from tuner.store.time_table import StoredTable
from tuner.tuning.ledger.trial import Trial
from tuner.tuning.several.covering import Pair

LEAST_TRIAL = 8  # configurations in a kernel's short trial
HOPELESS = 4.0  # times the best at a near size, or at all other sizes: so slow a kernel is not even tried
REFUTED = 0.1  # relative difference at which the finals' time replaces a trial's; smaller ones are noise
NEAR = 1.5  # largest distance of near sizes; about that of a size and its double


@dataclass(frozen=True)
class Setting:
    """Kernels on an open device, with the options and types of `scope`, at any size.

    `results` is the user's folder. `launch_ms` is the device's launch overhead, or None if unknown; times of other
    machines are adjusted to it.
    """

    spaces: Sequence[Space]
    scope: Scope
    device: DeviceInfo
    results: Path | None
    launch_ms: float | None = None

    def queries(self) -> list[Query]:
        """The store query of each kernel."""
        return [Query.of(space, self.scope, self.device) for space in self.spaces]

    def tables(self) -> list[list[StoredTable]]:
        """All time tables of each kernel, of any device."""
        return [time_tables.stored(Store.of(space, self.results).files)[0] for space in self.spaces]


class TrialTable:
    """The successful trials of several kernels at several sizes."""

    def __init__(self) -> None:
        self.is_recalled = False  # whether `recall` has been called
        self._rows: dict[str, dict[Pair, Trial]] = {}
        self._sizes: dict[str, dict[str, int]] = {}

    def add(self, sizes: dict[str, int], kernel: str, trials: Iterable[Trial]) -> None:
        """Add trials of a kernel at a size; failed ones are left out."""
        row = self._rows.setdefault(size_text(sizes), {})
        self._sizes[size_text(sizes)] = sizes
        row |= {(kernel, config_key(trial.config)): trial for trial in trials if trial.value is not None}

    def recall(self, setting: Setting) -> None:
        """Add the times in the setting's records."""
        self.is_recalled = True
        for query in setting.queries():
            for record in lookup.comparable(Store.of(query.space, setting.results).records, query):
                trials = [
                    _trial(config, launch_overhead.adjusted(ms, record.launch_ms, setting.launch_ms))
                    for config, ms in record.timed
                ]
                self.add(record.sizes, query.space.name, trials)

    def recall_tables(self, setting: Setting) -> None:
        """Add the times in the time tables of the setting's device."""
        self._add_tables(setting, setting.tables(), setting.device.name)

    def recall_sibling(self, setting: Setting) -> None:
        """Add the times in the time tables of a sibling of the setting's device, if there is one."""
        tables = setting.tables()
        name = time_tables.sibling_of(setting.queries(), tables, setting.device.units)
        if name is not None:
            self._add_tables(setting, tables, name)

    def _add_tables(self, setting: Setting, tables: Sequence[Sequence[StoredTable]], device: str) -> None:
        """Add the times in those tables that are of the device of this name; earlier tables take precedence."""
        for query, read in zip(setting.queries(), tables, strict=True):
            for table in (each.table for each in reversed(read) if each.head.serves(replace(query, device=device))):
                for key, times in table.times.items():
                    for sizes, ms in launch_overhead.all_adjusted(times, table.launch_ms, setting.launch_ms).items():
                        at = dict(zip(query.space.operation.sizes, sizes, strict=True))
                        self.add(at, query.space.name, [_trial(table.configs[key], ms)])

    def sizes_of(self, kernel: str) -> list[dict[str, int]]:
        """The sizes at which there are trials of a kernel."""
        return [self._sizes[key] for key, row in self._rows.items() if any(pair[0] == kernel for pair in row)]

    def settle(self, sizes: dict[str, int], kernel: str, finals: Iterable[tuple[Trial, float]]) -> None:
        """Replace the times of trials by those of the finals, given in ms, if they differ by more than REFUTED."""
        refuted = (
            _trial(trial.config, final_ms)
            for trial, final_ms in finals
            if trial.value is not None and abs(final_ms / trial.value - 1) > REFUTED
        )
        self.add(sizes, kernel, refuted)

    def ranking(self, sizes: Mapping[str, int]) -> list[tuple[Pair, Trial]]:
        """The trials at a size, best first."""
        return sorted(self._rows.get(size_text(sizes), {}).items(), key=lambda item: item[1].value or 0.0)

    def best(self, sizes: Mapping[str, int]) -> dict[str, float]:
        """The best value of each kernel at a size."""
        values: dict[str, float] = {}
        for (kernel, _), trial in self.ranking(sizes):
            values.setdefault(kernel, trial.value or 0.0)
        return values

    def value(self, sizes: Mapping[str, int], pair: Pair) -> float | None:
        """The value of a pair at a size; None if it has no trial there."""
        trial = self._rows.get(size_text(sizes), {}).get(pair)
        return None if trial is None else trial.value

    def has(self, sizes: Mapping[str, int], kernel: str, config: Config) -> bool:
        """Whether a configuration has a successful trial at a size."""
        return self.value(sizes, (kernel, config_key(config))) is not None

    def rows(self) -> Iterator[dict[str, int]]:
        """The sizes at which there are trials."""
        return iter(self._sizes.values())


def _trial(config: Config, time_ms: float) -> Trial:
    return Trial(config, Outcome(times=(time_ms,)), (time_ms,))
