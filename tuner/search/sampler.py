"""The pool's Gaussian process as a sampler for any Optuna study."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from optuna.distributions import BaseDistribution, CategoricalDistribution
from optuna.samplers import BaseSampler, RandomSampler
from optuna.study import Study, StudyDirection
from optuna.trial import FrozenTrial, TrialState

from tuner.search.pool import Pool
from tuner.search.pool_gp import PoolGP
from tuner.space.model import Value


class PoolGPSampler(BaseSampler):
    """Bayesian optimisation over a finite list of valid configurations.

    Where an objective suggests each of `parameters` by `trial.suggest_categorical(name, parameters[name])`, together
    the values are one of `configurations`, never one that has been tried, running trials included. The model and its
    sources are those of `tuner.search.pool_gp.PoolGP`. What is minimised and always positive is modelled by its
    inverse, as times are by rates; all else as it is. Failed and pruned trials count as slow ones. There may be any
    number of objectives, each minimised or maximised; trials may run in threads (n_jobs) and processes, and be asked
    and told. The study stops when all configurations have been tried.

        sampler = PoolGPSampler({"threads": [32, 64], "items": [1, 2]}, [(32, 1), (32, 2), (64, 1)], seed=1)
        study = optuna.create_study(sampler=sampler)
        study.optimize(objective, n_trials=100)

    An instance serves one study.
    """

    def __init__(
        self,
        parameters: Mapping[str, Sequence[Value]],
        configurations: Iterable[Sequence[Value]],
        *,
        seed: int | None = None,
        warm: Iterable[Mapping[str, Value]] = (),
        block: Sequence[str] = (),
    ) -> None:
        """`configurations` hold a value for each parameter, in order. `warm` are configurations to begin with; `block`
        names the parameters whose product is the threads of a GPU's block. Raises ValueError as `Pool` does."""
        self._pool = Pool(parameters, configurations)
        self._model = PoolGP(self._pool, seed, warm, block)
        self._distributions: dict[str, BaseDistribution] = {
            name: CategoricalDistribution(values) for name, values in parameters.items()
        }
        self._others = RandomSampler(seed)
        self._lock = threading.Lock()
        self._proposed: dict[int, int] = {}  # trial number: row
        self._told: set[int] = set()

    def reseed_rng(self) -> None:
        self._others.reseed_rng()

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        return dict(self._distributions)

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        with self._lock:
            self._catch_up(study, trial.number)
            row = self._model.ask()
            if row is None:  # all have been tried, and whoever asks did not look
                row = trial.number % len(self._pool)
            self._proposed[trial.number] = row
        return dict(self._pool.config(row))

    def sample_independent(
        self, study: Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        return self._others.sample_independent(study, trial, param_name, param_distribution)

    def after_trial(self, study: Study, trial: FrozenTrial, state: TrialState, values: Sequence[float] | None) -> None:
        with self._lock:
            if not self._model.free.any():
                with contextlib.suppress(RuntimeError):  # asked and told: there is no loop to stop
                    study.stop()

    def _catch_up(self, study: Study, current: int) -> None:
        """Tell the model of all trials before this one that it does not know of."""
        signs = [1.0 if d == StudyDirection.MINIMIZE else -1.0 for d in study.directions]
        for trial in study.get_trials(deepcopy=False):
            if trial.number in self._told or trial.number == current:
                continue
            row = self._proposed.get(trial.number)
            if row is None:
                row = self._pool.find(trial.params)
            if row is None:
                continue
            if not trial.state.is_finished():
                self._model.claim(row)
                continue
            self._told.add(trial.number)
            good = trial.state == TrialState.COMPLETE
            self._model.tell(row, [s * v for s, v in zip(signs, trial.values, strict=True)] if good else None)
