"""A finalist: a trial of a search, its time in the finals, and whether the two agree."""

from __future__ import annotations

from collections.abc import Sequence

from tuner.classes import dataclass
from tuner.measure.method import Objective, objective_values
from tuner.measure.results import Final
from tuner.store import verdicts
from tuner.tuning.ledger.trial import Trial

FAR = 0.05  # relative difference between a time in the search and in the finals that needs an explanation


@dataclass(frozen=True)
class Finalist:
    """A trial and its measurement in the finals.

    If that was far from the search's, `trial` is a later one, measured again as in the search, and `earlier` the
    search's, which it has replaced.
    """

    trial: Trial
    final: Final
    earlier: Trial | None = None

    @property
    def searched(self) -> Trial:
        """The trial of the search."""
        return self.earlier or self.trial

    @property
    def has_changed(self) -> bool:
        """Whether its time in the finals is far from the search's, and so needs an explanation."""
        return is_far(self.searched.time_ms or 0.0, self.final.time_ms)

    @property
    def is_spread(self) -> bool:
        """Whether the spread of its times explains that they differ between the search and the finals."""
        return bool(self._timing.verdict(verdicts.of_times(self.final.times)))

    @property
    def spread(self) -> float:
        """The larger spread of its times in the search and in the finals."""
        return max(self._timing.spread or 0.0, self.final.spread)

    @property
    def _timing(self) -> verdicts.Timing:
        return verdicts.of_times(self.searched.outcome.times)

    def values(self, objectives: Sequence[Objective]) -> tuple[float, ...]:
        return objective_values(objectives, self.final.time_ms, self.final.energy_mj, self.trial.outcome.figures)


def is_far(time_ms: float, other_ms: float) -> bool:
    """Whether two times of one configuration differ by so much that it needs an explanation."""
    return abs(other_ms - time_ms) > FAR * min(time_ms, other_ms)
