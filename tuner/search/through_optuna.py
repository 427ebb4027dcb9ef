"""Optuna's own samplers over a pool."""

from __future__ import annotations

import importlib
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

_SAMPLERS: dict[str, Callable[[int], BaseSampler]] = {
    "tpe": lambda seed: TPESampler(seed=seed, constant_liar=True),
    "gp": lambda seed: GPSampler(seed=seed),
    "cmaes": lambda seed: CmaEsSampler(seed=seed, with_margin=True),
    "nsga2": lambda seed: NSGAIISampler(seed=seed),
    "qmc": lambda seed: QMCSampler(seed=seed, scramble=True),
}
NAMES = tuple(_SAMPLERS)
MULTI_OBJECTIVE = ("tpe", "gp", "nsga2", "qmc")
_NEEDS = {"gp": ("torch", "scipy"), "cmaes": ("cmaes",)}


def check(name: str) -> None:
    """Raises RequestError where a package that sampler `name` needs is not installed."""
    for package in _NEEDS.get(name, ()):
        try:
            importlib.import_module(package)
        except ImportError:
            raise RequestError(
                f"--strategy optuna:{name}: needs {package}, which is not installed; `pip install {package}`, "
                "or take another strategy"
            ) from None


class ThroughOptuna(Proposer):
    """A sampler of Optuna's proposes a combination of positions; the free row nearest to it is asked for and told.

    A parameter is the whole number of its value's position, except that TPE sees a choice without order, which is the
    better of the two for it, and that words and truth values have no order for any that can do without. Positions count
    from 0 to 1 in the distance; a choice that differs counts 1.
    """

    def __init__(self, name: str, pool: Pool, seed: int, objectives: int = 1) -> None:
        super().__init__(pool)
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self._storage = InMemoryStorage()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # parts of Optuna that it calls experimental
            self._study = optuna.create_study(
                storage=self._storage, sampler=_SAMPLERS[name](seed), directions=["minimize"] * objectives
            )
        self._distributions: dict[str, BaseDistribution] = {}
        self._choice = np.zeros(len(pool.names), dtype=bool)
        for column, values in enumerate(pool.values):
            unordered = any(isinstance(v, bool | str) for v in values) and name not in ("cmaes", "qmc")
            self._choice[column] = name == "tpe" or unordered
            self._distributions[str(column)] = (
                CategoricalDistribution(range(len(values)))
                if self._choice[column]
                else IntDistribution(0, len(values) - 1)
            )
        self._asked: dict[int, optuna.Trial] = {}

    def _next(self) -> int:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            trial = self._study.ask(self._distributions)
        row = self._nearest(np.array([trial.params[name] for name in self._distributions]))
        for name, value in self._params(row).items():
            self._storage.set_trial_param(
                trial._trial_id,
                name,
                self._distributions[name].to_internal_repr(value),
                self._distributions[name],
            )
        self._asked[row] = trial
        return row

    def _learn(self, row: int, values: Sequence[float] | None) -> None:
        trial = self._asked.pop(row, None)
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
        """The free row nearest to a combination of positions."""
        distance = np.zeros(len(self.pool), dtype=np.float32)
        for column, position in enumerate(positions):
            values = self.pool.rows[:, column]
            if self._choice[column]:
                distance += values != position
            else:
                offset = (values - np.float32(position)) / max(1, len(self.pool.values[column]) - 1)
                distance += offset * offset
        distance[~self.free] = np.inf
        return int(np.argmin(distance))
