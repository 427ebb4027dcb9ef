"""`PoolGPSampler`: the default strategy as a sampler for any Optuna study."""

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

    The objective must suggest every parameter by `trial.suggest_categorical(name, parameters[name])`. The suggested
    values always form one of `configurations`, and never one that was tried before or is running.

    A Gaussian process models the objective; the next configuration has the largest expected improvement. See
    `tuner.search.pool_gp.PoolGP` for the algorithm and its sources. A positive objective that is minimised, such as a
    time, is modelled by its inverse; any other is modelled directly. Failed and pruned trials count as slow ones.

    Several objectives are supported, each minimised or maximised. Trials may run in threads (`n_jobs`), in processes,
    or through ask and tell. The study stops when all configurations have been tried. Use a new sampler for each study.

    Args:
        parameters: The values of each parameter, by its name.
        configurations: The valid configurations, each a value for each parameter, in the order of `parameters`.
        seed: A random seed. Default: None, a different search each time.
        warm: Configurations to measure first, as dictionaries; invalid ones are skipped.
        block: Names of the parameters whose product is the number of threads per block, which the model then uses as a
            further feature. Default: none.

    Raises ValueError for an empty or inconsistent list of configurations.

    Example::

        import optuna

        from tuner.search import PoolGPSampler

        parameters = {"threads": [32, 64, 128], "items": [1, 2, 4]}
        valid = [(t, i) for t in parameters["threads"] for i in parameters["items"] if t * i <= 256]


        def time_ms(trial):  # here a formula; usually a measurement
            threads = trial.suggest_categorical("threads", parameters["threads"])
            items = trial.suggest_categorical("items", parameters["items"])
            return 1 + abs(threads * items - 128) / 128


        study = optuna.create_study(sampler=PoolGPSampler(parameters, valid, seed=1))
        study.optimize(time_ms, n_trials=8)  # all 8 valid configurations
        assert study.best_value == 1
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
        """See the class."""
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
            if row is None:  # every configuration has been tried, but the caller asks for more
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
        """Report all other trials of the study to the model."""
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
