"""The pool's Gaussian process as a sampler for any Optuna study."""

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
from tuner.space.config import Value


class PoolGPSampler(BaseSampler):
    """Bayesian optimisation over a finite list of valid configurations.

    The objective suggests each of `parameters` by `trial.suggest_categorical(name, parameters[name])`. Together the
    values are one of `configurations`, and never one that was tried before or is running. The model and its sources are
    those of `tuner.search.pool_gp.PoolGP`. An objective that is minimised and always positive, such as a time, is
    modelled by its inverse, a rate; any other as it is. Failed and pruned trials count as slow ones.

    There may be several objectives, each minimised or maximised. Trials may run in threads (n_jobs) and processes, or
    through ask and tell. The study stops when all configurations have been tried.

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
        """`configurations` hold a value for each parameter, in order. `warm` are configurations to begin with. `block`
        names the parameters whose product is the threads per block. Raises ValueError as `Pool` does."""
        self._pool = Pool(parameters, configurations)
        self._model = PoolGP(self._pool, seed, warm, block)
        self._distributions: dict[str, BaseDistribution] = {
            name: CategoricalDistribution(values) for name, values in parameters.items()
        }
        self._independent = RandomSampler(seed)
        self._lock = threading.Lock()
        self._rows: dict[int, int] = {}  # by trial number
        self._reported: set[int] = set()  # numbers of the trials whose results the model has

    def reseed_rng(self) -> None:
        self._independent.reseed_rng()

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        return dict(self._distributions)

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        with self._lock:
            self._catch_up(study, trial.number)
            row = self._model.ask()
            if row is None:  # all have been tried, and the caller asks for more
                row = trial.number % len(self._pool)
            self._rows[trial.number] = row
        return dict(self._pool.config(row))

    def sample_independent(
        self, study: Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        return self._independent.sample_independent(study, trial, param_name, param_distribution)

    def after_trial(self, study: Study, trial: FrozenTrial, state: TrialState, values: Sequence[float] | None) -> None:
        with self._lock:
            if not self._model.free.any():
                with contextlib.suppress(RuntimeError):  # with ask and tell there is no loop to stop
                    study.stop()

    def _catch_up(self, study: Study, current: int) -> None:
        """Tell the model of all other trials that it does not know of."""
        signs = [1.0 if d == StudyDirection.MINIMIZE else -1.0 for d in study.directions]
        for trial in study.get_trials(deepcopy=False):
            if trial.number in self._reported or trial.number == current:
                continue
            row = self._rows.get(trial.number)
            if row is None:
                row = self._pool.find(trial.params)
            if row is None:
                continue
            if not trial.state.is_finished():
                self._model.claim(row)
                continue
            self._reported.add(trial.number)
            is_complete = trial.state == TrialState.COMPLETE
            self._model.tell(row, [s * v for s, v in zip(signs, trial.values, strict=True)] if is_complete else None)
