"""Optuna's samplers over a pool, as strategies."""

import importlib
import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, IntDistribution
from optuna.samplers import BaseSampler, CmaEsSampler, GPSampler, NSGAIISampler, QMCSampler, TPESampler
from optuna.storages import InMemoryStorage
from optuna.trial import TrialState, create_trial

from tuner.errors import RequestError
from tuner.search.pool import Pool
from tuner.search.proposer import Proposer

SAMPLERS: dict[str, Callable[[int], BaseSampler]] = {
    "tpe": lambda seed: TPESampler(seed=seed, constant_liar=True),
    "gp": lambda seed: GPSampler(seed=seed),
    "cmaes": lambda seed: CmaEsSampler(seed=seed, with_margin=True),
    "nsga2": lambda seed: NSGAIISampler(seed=seed),
    "qmc": lambda seed: QMCSampler(seed=seed, scramble=True),
}
_NUMBERS_ONLY = ("cmaes", "qmc")
_PACKAGES = {"gp": ("torch", "scipy"), "cmaes": ("cmaes",)}


def check(name: str) -> None:
    """Raise RequestError if a package that sampler `name` needs is not installed."""
    for package in _PACKAGES.get(name, ()):
        try:
            importlib.import_module(package)
        except ImportError:
            raise RequestError(
                f"--strategy optuna:{name}: needs {package}, which is not installed; `pip install {package}`, "
                "or take another strategy"
            ) from None


class OptunaStrategy(Proposer):
    """Proposes the free row nearest to a sampler's suggestion, and reports that row to the sampler.

    The sampler suggests a position for each parameter: an integer, or a categorical value for TPE, which performs
    better with it, and for strings and booleans if the sampler supports categories. In the distance, positions are
    scaled to 0 to 1, and a category that differs counts 1.
    """

    def __init__(self, name: str, pool: Pool, seed: int, objectives: int = 1) -> None:
        super().__init__(pool)
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self._storage = InMemoryStorage()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Optuna calls parts of itself experimental
            self._study = optuna.create_study(
                storage=self._storage, sampler=SAMPLERS[name](seed), directions=["minimize"] * objectives
            )
        # TPE ignores failed trials, so a value that always fails would look untried, and promising, for ever.
        self._fails_as_inf = name == "tpe" and objectives == 1
        self._distributions: dict[str, BaseDistribution] = {}
        self._is_choice = np.zeros(len(pool.names), dtype=bool)
        for column, values in enumerate(pool.values):
            is_unordered = any(isinstance(v, bool | str) for v in values) and name not in _NUMBERS_ONLY
            self._is_choice[column] = name == "tpe" or is_unordered
            self._distributions[str(column)] = (
                CategoricalDistribution(range(len(values)))
                if self._is_choice[column]
                else IntDistribution(0, len(values) - 1)
            )
        self._trials: dict[int, optuna.Trial] = {}  # outstanding, by row

    def _next(self) -> int:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            trial = self._study.ask(self._distributions)
        row = self._nearest(np.array([trial.params[name] for name in self._distributions]))
        for name, value in self._params(row).items():
            distribution = self._distributions[name]
            self._storage.set_trial_param(trial._trial_id, name, distribution.to_internal_repr(value), distribution)
        self._trials[row] = trial
        return row

    def _learn(self, row: int, values: Sequence[float] | None) -> None:
        trial = self._trials.pop(row, None)
        if values is None and self._fails_as_inf:
            values = [math.inf]
        state = TrialState.FAIL if values is None else TrialState.COMPLETE
        if trial is not None:
            self._study.tell(trial, values, state)
        else:
            self._study.add_trial(
                create_trial(state=state, values=values, params=self._params(row), distributions=self._distributions)
            )

    def _params(self, row: int) -> dict[str, Any]:
        return dict(zip(self._distributions, self.pool.rows[row].tolist(), strict=True))

    def _nearest(self, positions: Any) -> int:
        """The free row nearest to these positions, one for each parameter."""
        distance = np.zeros(len(self.pool), dtype=np.float32)
        for column, position in enumerate(positions):
            values = self.pool.rows[:, column]
            if self._is_choice[column]:
                distance += values != position
            else:
                offset = (values - np.float32(position)) / max(1, len(self.pool.values[column]) - 1)
                distance += offset * offset
        distance[~self.free] = np.inf
        return int(np.argmin(distance))
