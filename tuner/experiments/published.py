"""What an experiment file says, as frozen values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from tuner.space.expressions import Expression
from tuner.space.model import Config, Operation, Space


@dataclass(frozen=True)
class Published:
    """One published measurement: time in ms, rate in GFLOP/s, share of the vendor's library (1 is as fast).

    `printed` holds those of `time`, `rate` and `share` that the source prints, word for word; the others are worked out
    from these where that can be done. A range counts as its middle. `contradicts`: the printed rate does not follow
    from the printed time.
    """

    time_ms: float | None = None
    gflops: float | None = None
    share: float | None = None
    printed: Mapping[str, str] = field(default_factory=dict)
    contradicts: bool = False


@dataclass(frozen=True)
class Loads:
    """Loads from global memory: as printed, for one output, and counted for all of them by an expression."""

    printed: str
    counted: Expression


@dataclass(frozen=True)
class PublishedRow:
    """One row of a published table: a stage of the catalogue with the published constants; or, as a `reference`, the
    vendor's library or the device's peak rate.

    `space` is None where the catalogue does not have the stage. `config` names every parameter then known: those that
    the source does not have are at the space's default.
    """

    name: str
    published: Published
    stage: str | None = None
    space: Space | None = None
    config: Config = field(default_factory=dict)
    reference: Literal["library", "peak"] | None = None
    loads: Loads | None = None
    note: str = ""


@dataclass(frozen=True)
class Table:
    """Rows measured at one size. `small` is the size for devices that would take too long; `operation` is what the
    rows compute (None where the catalogue has none of their stages)."""

    title: str
    sizes: Mapping[str, int]
    small: Mapping[str, int]
    operation: Operation | None
    rows: tuple[PublishedRow, ...]
    note: str = ""


@dataclass(frozen=True)
class Experiment:
    """A published series of measurements: who published it where, and on which device."""

    name: str
    title: str
    author: str
    where: str
    device: str
    tables: tuple[Table, ...]
    note: str = ""
