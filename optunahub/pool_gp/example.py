"""A synthetic kernel, whose time depends on its threads per block and the elements per thread."""

from __future__ import annotations

import itertools

import optuna

import optunahub

PoolGPSampler = optunahub.load_module("samplers/pool_gp").PoolGPSampler

parameters = {"threads": [32, 64, 128, 256, 512, 1024], "items": [1, 2, 4, 8, 16], "vector": [1, 2, 4]}
valid = [c for c in itertools.product(*parameters.values()) if c[0] * c[1] <= 4096 and c[1] % c[2] == 0]


def milliseconds(trial: optuna.Trial) -> float:
    """The time of a configuration in ms."""
    chosen = {name: trial.suggest_categorical(name, values) for name, values in parameters.items()}
    waste = abs(chosen["threads"] - 256) / 256 + abs(chosen["items"] - 8) / 8
    return 1.0 + waste + 0.5 / chosen["vector"]


study = optuna.create_study(sampler=PoolGPSampler(parameters, valid, seed=1))
study.optimize(milliseconds, n_trials=20)
print(study.best_trial.value, study.best_trial.params)
