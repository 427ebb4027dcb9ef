"""An experiment file as frozen values."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from tuner.space.config import Config
from tuner.space.expressions import Expression
from tuner.space.model import Operation, Space


@dataclass(frozen=True)
class PublishedFigures:
    """One published measurement: time in ms, rate in GFLOP/s, share of the vendor's library (1 is as fast).

    `printed` holds those of `time`, `rate` and `share` that the source prints, word for word. The others are derived
    from these as far as possible. A range counts as its middle. `contradicts`: the printed rate does not follow from
    the printed time.
    """

    time_ms: float | None = None
    gflops: float | None = None
    share: float | None = None
    printed: Mapping[str, str] = field(default_factory=dict)
    contradicts: bool = False


@dataclass(frozen=True)
class Loads:
    """Loads from global memory: for one output, as printed, and for all outputs, by an expression."""

    printed: str
    counted: Expression


@dataclass(frozen=True)
class PublishedRow:
    """One row of a published table: a stage of the catalogue with its published constants; or a `reference`, which is
    the vendor's library or the device's peak rate.

    `space` is None where the catalogue lacks the stage. Otherwise `config` names every parameter: those that the source
    lacks have the space's default.
    """

    name: str
    published: PublishedFigures
    stage: str | None = None
    space: Space | None = None
    config: Config = field(default_factory=dict)
    reference: Literal["library", "peak"] | None = None
    loads: Loads | None = None
    note: str = ""


@dataclass(frozen=True)
class Table:
    """Rows measured at one size. `small` is the size for devices that would take too long. `operation` is what the rows
    compute (None where the catalogue has none of their stages)."""

    title: str
    sizes: Mapping[str, int]
    small: Mapping[str, int]
    operation: Operation | None
    rows: tuple[PublishedRow, ...]
    note: str = ""


@dataclass(frozen=True)
class Experiment:
    """A published series of measurements: its author, where it was published, and on which device it was measured."""

    name: str
    title: str
    author: str
    where: str
    device: str
    tables: tuple[Table, ...]
    note: str = ""
