"""A trial."""

from dataclasses import dataclass
from statistics import median

from tuner.measure.results import Outcome
from tuner.space.model import Config


@dataclass(frozen=True)
class Trial:
    """A configuration and its Outcome."""

    config: Config
    outcome: Outcome
    values: tuple[float, ...] = ()  # one for each objective; none where it failed
    timeout: float = 0.0  # the seconds that it was allowed

    @property
    def value(self) -> float | None:
        """The value of the first objective, which decides which trial is best; None where the trial failed."""
        return self.values[0] if self.values else None

    @property
    def time_ms(self) -> float | None:
        """The median time in ms; None where the trial failed."""
        return median(self.outcome.times) if self.outcome.times else None
