"""Frozen dataclasses for the results of a reproduction."""

from dataclasses import field

from tuner.classes import dataclass
from tuner.devices import DeviceInfo
from tuner.experiments.experiment import Experiment, PublishedRow
from tuner.space.config import Config
from tuner.space.scope import Scope


@dataclass(frozen=True)
class Measurement:
    """One configuration, verified and measured on this machine.

    time_ms: the median time in ms. Without a time, `reason` says why; `failed` if the kernel ran and failed.
    vs_library: the share of the vendor library's rate in the same rounds; 1 is as fast.
    loads: loads from global memory for all outputs, counted by an expression.
    """

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

    constants: with the published constants. A reference has its measurement here.
    origin: where the tuned configuration comes from, in words.
    scope: the problem measured on this machine, with its size.
    library_ms: the time of the vendor's `library` in the same rounds.
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
    """The results of an experiment's tables so far; `finished` once every row has been tried."""

    experiment: Experiment
    tables: tuple[tuple[RowResult, ...], ...]
    finished: bool

    @property
    def rows(self) -> list[RowResult]:
        """The results of all rows that are stages, not references."""
        return [result for table in self.tables for result in table if result.row.stage is not None]
