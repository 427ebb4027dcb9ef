"""A trial, and its form in an Optuna study."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import Any

from optuna.trial import FrozenTrial, TrialState

from tuner.devices.figures import Figures
from tuner.measure.results import Outcome
from tuner.space.model import Config


@dataclass(frozen=True)
class Trial:
    """A configuration and what came of it."""

    config: Config
    outcome: Outcome
    values: tuple[float, ...] = ()  # one for each objective; none where it failed
    timeout: float = 0.0  # seconds it was given

    @property
    def value(self) -> float | None:
        """What decides which trial is best: the first objective's value; None where it failed."""
        return self.values[0] if self.values else None

    @property
    def time_ms(self) -> float | None:
        """The median time in ms; None where it failed."""
        return median(self.outcome.times) if self.outcome.times else None


def state_of(trial: Trial) -> TrialState:
    """The state that a trial has in a study."""
    return TrialState.COMPLETE if trial.outcome.failure is None else TrialState.FAIL


def values_of(trial: Trial) -> list[float] | None:
    """The values that a study keeps; None where it failed."""
    return list(trial.values) or None


def attribute(trial: Trial) -> dict[str, Any]:
    """What a study keeps of a trial besides its value, in one attribute, so that it is one write."""
    outcome = trial.outcome
    kept = {
        "config": trial.config,  # a damaged journal may have lost the parameters that Optuna keeps
        "times_ms": list(outcome.times),
        "error": outcome.error,
        "bound": outcome.bound,
        "energy_mj": outcome.energy_mj,
        "failure": outcome.failure,
        "log": outcome.log[-4000:] or None,
        **outcome.figures.to_json(),
        "occupancy": outcome.occupancy,
        "timeout_s": trial.timeout,
        "values": list(trial.values),
    }
    return {name: value for name, value in kept.items() if value is not None}


def from_optuna(trial: FrozenTrial) -> Trial | None:
    """The trial that has been written; None where none was measured."""
    kept = trial.user_attrs.get("measured")
    if kept is None:
        return None
    outcome = Outcome(
        times=tuple(kept["times_ms"]),
        error=kept["error"],
        bound=kept["bound"],
        energy_mj=kept.get("energy_mj"),
        failure=kept.get("failure"),
        log=kept.get("log", ""),
        figures=Figures(kept.get("registers"), kept.get("spills"), kept.get("shared_memory")),
        occupancy=kept.get("occupancy"),
    )
    return Trial(kept["config"], outcome, tuple(kept["values"]), kept["timeout_s"])
