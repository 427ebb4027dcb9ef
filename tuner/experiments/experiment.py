"""Frozen dataclasses for an experiment file: a published series of measurements."""

from collections.abc import Mapping
from dataclasses import field
from typing import Literal

from tuner.classes import dataclass
from tuner.space.computation import Operation
from tuner.space.config import Config
from tuner.space.expressions import Expression
from tuner.space.model import Space


@dataclass(frozen=True)
class PublishedFigures:
    """One published measurement: time in ms, rate in GFLOP/s, share of the vendor's library (1 is as fast).

    printed: those of `time`, `rate` and `share` that the source prints, word for word. The others are derived from
        these if possible. A range counts as its middle.
    contradicts: the printed rate does not follow from the printed time.
    """

    time_ms: float | None = None
    gflops: float | None = None
    share: float | None = None
    printed: Mapping[str, str] = field(default_factory=dict)
    contradicts: bool = False


@dataclass(frozen=True)
class Loads:
    """The number of loads from global memory: for one output, as printed; for all outputs, as an expression."""

    printed: str
    counted: Expression


@dataclass(frozen=True)
class PublishedRow:
    """One row of a published table: a stage with its published constants, or a `reference`, which is the vendor's
    library or the device's peak rate.

    stage: a kernel's name in the catalogue, or a space file.
    space: the stage's space; None for a reference, or if the catalogue lacks the stage.
    config: if `space` is given, a value for every parameter; parameters without a published value have the default.
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
    """Rows measured at one size.

    small: the size for devices that would take too long.
    operation: what the rows compute; None if the catalogue has none of their stages.
    """

    title: str
    sizes: Mapping[str, int]
    small: Mapping[str, int]
    operation: Operation | None
    rows: tuple[PublishedRow, ...]
    note: str = ""


@dataclass(frozen=True)
class Experiment:
    """A published series of measurements: `where` it was published, and on which `device` it was measured."""

    name: str
    title: str
    author: str
    where: str
    device: str
    tables: tuple[Table, ...]
    note: str = ""
