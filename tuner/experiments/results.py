"""What reproducing gives, as frozen values."""

from __future__ import annotations

from dataclasses import dataclass, field

from tuner.devices import DeviceInfo
from tuner.experiments.published import Experiment, PublishedRow
from tuner.space.model import Config, Scope


@dataclass(frozen=True)
class Measurement:
    """One configuration, verified and measured here: median time in ms, spread, rate in GFLOP/s, share of the vendor's
    library in the same rounds, counted loads from global memory. Without a time, `reason` says why, and `failed`
    whether it went wrong when it ran."""

    config: Config | None = None
    time_ms: float | None = None
    spread: float | None = None
    gflops: float | None = None
    vs_library: float | None = None
    loads: int | None = None
    reason: str | None = None
    failed: bool = False


@dataclass(frozen=True)
class Reproduced:
    """A published row, and what it is here, on `device`; `scope` has the size, `origin` says where the tuned
    configuration is from. What a reference is here stands under `constants`."""

    row: PublishedRow
    constants: Measurement
    tuned: Measurement = field(default_factory=Measurement)
    origin: str = ""
    device: DeviceInfo | None = None
    scope: Scope | None = None
    library: str | None = None
    library_ms: float | None = None

    @property
    def is_measured(self) -> bool:
        """Whether there is a time of it."""
        return self.constants.time_ms is not None or self.tuned.time_ms is not None


@dataclass(frozen=True)
class Reproduction:
    """An experiment's tables as far as they have been measured; `finished` when that is to the end."""

    experiment: Experiment
    tables: tuple[tuple[Reproduced, ...], ...]
    finished: bool

    @property
    def rows(self) -> list[Reproduced]:
        """The rows that are stages, not references."""
        return [one for table in self.tables for one in table if one.row.stage is not None]
