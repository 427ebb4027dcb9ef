"""A trial: one measured configuration in the ledger."""

from __future__ import annotations

from dataclasses import field
from datetime import datetime
from statistics import median

from tuner.classes import dataclass
from tuner.measure.method import Method, objective_values
from tuner.measure.results import Outcome
from tuner.space.config import Config
from tuner.space.texts import config_text

RESUME = "all measurements are kept, and the same command continues from there"  # the end of a message


@dataclass(frozen=True)
class Trial:
    """A configuration and its Outcome. `given`: a report or a list of configurations asked for it, not a search."""

    config: Config
    outcome: Outcome
    values: tuple[float, ...] = ()  # one per objective; empty if it failed
    timeout: float = 0.0  # in seconds
    finished: datetime | None = field(default=None, compare=False)  # in local time
    given: bool = field(default=False, compare=False)

    @staticmethod
    def of(config: Config, outcome: Outcome, method: Method, timeout: float, given: bool) -> Trial:
        """The trial of a configuration that was measured just now."""
        values: tuple[float, ...] = ()
        if outcome.times:
            values = objective_values(method.objectives, median(outcome.times), outcome.energy_mj, outcome.figures)
        return Trial(config, outcome, values, timeout, datetime.now(), given)

    def __str__(self) -> str:
        """`0.8308 ms in 7 runs (build 0.41 s, verify 0.002 s, measure 0.05 s): block_size_x=32`, or why it failed."""
        times, failure = self.outcome.times, self.outcome.failure
        result = f"failed, {failure}" if failure is not None else f"{self.time_ms:.4g} ms in {len(times)} runs"
        stages = ", ".join(f"{stage} {seconds:.3f} s" for stage, seconds in self.outcome.seconds.items())
        return f"{result}{f' ({stages})' if stages else ''}: {config_text(self.config)}"

    @property
    def value(self) -> float | None:
        """The value of the first objective, by which trials are ranked; None if the trial failed."""
        return self.values[0] if self.values else None

    @property
    def time_ms(self) -> float | None:
        """The median time in ms; None if the trial failed."""
        return median(self.outcome.times) if self.outcome.times else None
