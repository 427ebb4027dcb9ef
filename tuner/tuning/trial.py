"""A trial, and its form in an Optuna study."""

from dataclasses import dataclass
from statistics import median
from typing import Any

from optuna.trial import FrozenTrial, TrialState

from tuner.devices import environment
from tuner.devices.figures import Figures
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


def state_of(trial: Trial) -> TrialState:
    """The state of a trial in a study."""
    return TrialState.COMPLETE if trial.outcome.failure is None else TrialState.FAIL


def values_of(trial: Trial) -> list[float] | None:
    """The values of a trial in a study; None where it failed."""
    return list(trial.values) or None


def attribute(trial: Trial) -> dict[str, Any]:
    """All else that a study stores of a trial, as one attribute: it is written at once."""
    outcome = trial.outcome
    fields = {
        "config": trial.config,  # a damaged journal may have lost Optuna's own parameters
        "times_ms": list(outcome.times),
        "error": outcome.error,
        "bound": outcome.bound,
        "energy_mj": outcome.energy_mj,
        "failure": outcome.failure,
        "log": outcome.log[-4000:] or None,
        **outcome.figures.to_json(),
        "occupancy": outcome.occupancy,
        "doubtful": outcome.doubtful or None,
        "timeout_s": trial.timeout,
        "values": list(trial.values),
    }
    return {name: value for name, value in fields.items() if value is not None}


def from_optuna(trial: FrozenTrial) -> Trial | None:
    """The trial in a study's trial; None where nothing was measured, or where the machine may have been to blame."""
    fields = trial.user_attrs.get("measured")
    if fields is None or environment.is_doubtful(fields.get("failure"), fields.get("log", "")):
        return None
    outcome = Outcome(
        times=tuple(fields["times_ms"]),
        error=fields["error"],
        bound=fields["bound"],
        energy_mj=fields.get("energy_mj"),
        failure=fields.get("failure"),
        log=fields.get("log", ""),
        figures=Figures(fields.get("registers"), fields.get("spills"), fields.get("shared_memory")),
        occupancy=fields.get("occupancy"),
        doubtful=fields.get("doubtful", False),
    )
    return Trial(fields["config"], outcome, tuple(fields["values"]), fields["timeout_s"])
