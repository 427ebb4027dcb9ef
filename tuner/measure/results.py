"""What comes of a measurement, frozen: an Outcome of one configuration, the Finals of several."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Any

from tuner.devices.figures import NO_FIGURES, Figures
from tuner.measure.timing import spread


@dataclass(frozen=True)
class Outcome:
    """What came of one configuration: times in ms, the largest error and its bound, energy of a run where that was
    asked for; or a reason and a log. `figures` and `occupancy` are of the build, where there is one."""

    times: tuple[float, ...] = ()
    error: float = 0.0
    bound: float = 0.0
    energy_mj: float | None = None
    failure: str | None = None
    log: str = ""
    figures: Figures = NO_FIGURES
    occupancy: float | None = None

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Outcome:
        values = {**data, "times": tuple(data["times"]), "figures": Figures.from_json(data["figures"])}
        return Outcome(**values)


@dataclass(frozen=True)
class Final:
    """Times in ms of one candidate, one a round, or why it has none. `library` names the vendor's routine, where it
    is that; `energy_mj` is the energy of one run, where that was asked for."""

    times: tuple[float, ...] = ()
    library: str | None = None
    failure: str | None = None
    energy_mj: float | None = None

    @property
    def time_ms(self) -> float:
        """The median."""
        return median(self.times)

    @property
    def spread(self) -> float:
        """Interquartile range over median."""
        return spread(self.times)


@dataclass(frozen=True)
class Finals:
    """One Final for each candidate, in order; the vendor's library, where there is one; the median clock in MHz while
    they ran, and what held it down."""

    candidates: list[Final] = field(default_factory=list)
    library: Final | None = None
    clock_mhz: float | None = None
    throttled: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Finals:
        candidates = [_final(one) for one in data["candidates"]]
        library = _final(data["library"]) if data["library"] else None
        return Finals(candidates, library, data["clock_mhz"], data["throttled"])


def _final(data: Mapping[str, Any]) -> Final:
    return Final(**{**data, "times": tuple(data["times"])})
