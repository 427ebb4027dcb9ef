"""The sampler through Optuna's door."""

from __future__ import annotations

import optuna
import pytest

from helpers.pools import PARAMETERS, VALID, time_of
from tuner.search.sampler import PoolGPSampler
from tuner.space.config import Value


@pytest.mark.slow
@pytest.mark.parametrize(("direction", "sign"), [("minimize", 1), ("maximize", -1)])
@pytest.mark.parametrize("jobs", [1, 4])
def test_the_sampler_serves_any_study(direction: str, sign: int, jobs: int) -> None:
    sampler = PoolGPSampler(PARAMETERS, VALID, seed=3)
    study = optuna.create_study(sampler=sampler, direction=direction)

    def objective(trial: optuna.Trial) -> float:
        config = {name: trial.suggest_categorical(name, values) for name, values in PARAMETERS.items()}
        trial.suggest_float("unrelated", 0, 1)
        time_ms = time_of(config)
        if time_ms is None:
            raise optuna.TrialPruned
        return sign * time_ms

    study.optimize(objective, n_trials=50, n_jobs=jobs)
    asked = [tuple(t.params[name] for name in PARAMETERS) for t in study.trials]
    assert len(set(asked)) == len(asked) == 50
    assert set(asked) <= set(VALID)
    assert study.best_value == sign * 1.0


def test_the_sampler_stops_a_study_that_has_tried_everything() -> None:
    few = VALID[:12]
    study = optuna.create_study(sampler=PoolGPSampler(PARAMETERS, few, seed=1))
    study.optimize(lambda t: sum(len(str(t.suggest_categorical(n, v))) for n, v in PARAMETERS.items()), n_trials=50)
    assert len(study.trials) == len(few)


def test_the_sampler_takes_up_a_study_that_is_asked_and_told() -> None:
    study = optuna.create_study(sampler=PoolGPSampler(PARAMETERS, VALID, seed=1))

    def ask() -> tuple[optuna.Trial, tuple[Value, ...]]:
        trial = study.ask()
        return trial, tuple(trial.suggest_categorical(name, values) for name, values in PARAMETERS.items())

    trials = [ask() for _ in range(20)]
    for trial, config in trials[::-1]:
        time_ms = time_of(dict(zip(PARAMETERS, config, strict=True)))
        study.tell(trial, time_ms, optuna.trial.TrialState.COMPLETE if time_ms else optuna.trial.TrialState.FAIL)
    study.sampler = PoolGPSampler(PARAMETERS, VALID, seed=2)  # as another process would
    again = [ask()[1] for _ in range(20)]
    assert len({config for _, config in trials} | set(again)) == 40
