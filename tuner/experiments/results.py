"""The results of a reproduction as frozen values."""

from dataclasses import dataclass, field

from tuner.devices import DeviceInfo
from tuner.experiments.experiment import Experiment, PublishedRow
from tuner.space.config import Config
from tuner.space.scope import Scope


@dataclass(frozen=True)
class Measurement:
    """One configuration, verified and measured on this machine: median time in ms, spread, rate in GFLOP/s, share of
    the vendor's library in the same rounds, counted loads from global memory. Without a time, `reason` says why, and
    `failed` whether the kernel ran and failed."""

    config: Config | None = None
    time_ms: float | None = None
    spread: float | None = None
    gflops: float | None = None
    vs_library: float | None = None
    loads: int | None = None
    reason: str | None = None
    failed: bool = False


@dataclass(frozen=True)
class RowResult:
    """A published row and its measurements: with the published constants, and tuned.

    A reference is measured under `constants`. `origin` says where the tuned configuration comes from. `scope` has the
    size on this machine. `library_ms` is the time of the vendor's `library` in the same rounds.
    """

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
        """Whether one of the measurements has a time."""
        return self.constants.time_ms is not None or self.tuned.time_ms is not None


@dataclass(frozen=True)
class Reproduction:
    """An experiment's tables, as far as they have been measured; `finished` when all of them have."""

    experiment: Experiment
    tables: tuple[tuple[RowResult, ...], ...]
    finished: bool

    @property
    def rows(self) -> list[RowResult]:
        """The results of the rows that are stages, not references."""
        return [result for table in self.tables for result in table if result.row.stage is not None]
