"""Experiences: what other searches of the same space have measured, on other devices or at other sizes."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuner.classes import dataclass
from tuner.search.pool import Pool
from tuner.space.config import Config, ConfigKey, Value, config_key

Array = NDArray[Any]

WARM = 12  # most configurations that a search takes over from all experiences
LEAST_JUDGED = 20  # results; an experience with fewer is judged by its best configuration, not by its predictions
MOST_FITTED = 160  # results that the model of an experience is fitted to
ITERATIONS = 25  # iterations of that fit
FAILURE_PERCENTILE = 90  # a failure costs this percentile of the successes' costs
SEED = 0  # of the choice of results to fit to


@dataclass(frozen=True)
class Experience:
    """Configurations of one problem on one device, each with its time in ms, or None if it failed.

    of_device: whether that is the device of this search, so that only the size differs.
    """

    trials: Sequence[tuple[Mapping[str, Value], float | None]]
    of_device: bool = False

    @property
    def best_first(self) -> list[Mapping[str, Value]]:
        """The configurations that succeeded, the fastest first."""
        timed = [(time_ms, place) for place, (_, time_ms) in enumerate(self.trials) if time_ms is not None]
        return [self.trials[place][0] for _, place in sorted(timed)]

    def times(self, pool: Pool) -> dict[int, float]:
        """The times in ms by row in the pool, of the configurations that succeeded."""
        rows = ((pool.find(config), time_ms) for config, time_ms in self.trials)
        return {row: time_ms for row, time_ms in rows if row is not None and time_ms}

    def failures(self, pool: Pool) -> list[int]:
        """The rows in the pool of the configurations that failed."""
        return pool.rows_of(config for config, time_ms in self.trials if time_ms is None)

    def costs(self, pool: Pool) -> dict[int, float]:
        """The results in the pool by row, as negative throughputs. A failure costs the 90th percentile of the others.

        Empty if nothing succeeded.
        """
        rows = {row: time_ms for config, time_ms in self.trials if (row := pool.find(config)) is not None}
        known = {row: -1.0 / time_ms for row, time_ms in rows.items() if time_ms is not None and time_ms > 0}
        if not known:
            return {}
        of_failure = float(np.percentile([*known.values()], FAILURE_PERCENTILE))
        return {row: known.get(row, of_failure) for row in rows}


def in_turn(experiences: Iterable[Experience]) -> list[Config]:
    """The best configuration of each experience, then the second best of each, and so on, each once, at most WARM."""
    configs: dict[ConfigKey, Config] = {}
    for round_of_all in itertools.zip_longest(*(each.best_first for each in experiences)):
        for config in round_of_all:
            if config is not None and len(configs) < WARM:
                configs.setdefault(config_key(config), dict(config))
    return list(configs.values())


def agreement(experience: Experience, pool: Pool, block: Sequence[str], costs: Mapping[int, float]) -> float | None:
    """How well an experience orders the `costs` of rows that were measured here: Kendall's tau-b, from -1 to 1.

    A Gaussian process like that of `PoolGP`, fitted to the results of the experience, predicts the costs. None if the
    experience has fewer than LEAST_JUDGED results in the pool.
    """
    from tuner.search.covariance import Covariance, Encoding
    from tuner.search.posterior import Posterior

    known = experience.costs(pool)
    if len(known) < LEAST_JUDGED or len(costs) < 2:
        return None
    rows = sorted(known, key=known.__getitem__)
    if len(rows) > MOST_FITTED:  # the best half, and a random choice of the others
        half = MOST_FITTED // 2
        chosen = np.random.default_rng(SEED).choice(rows[half:], MOST_FITTED - half, replace=False)
        rows = [*rows[:half], *chosen.tolist()]
    values = np.array([known[row] for row in rows])
    standard = (values - values.mean()) / (values.std() or 1.0)
    covariance = Covariance(Encoding(pool, block))
    theta = covariance.fit(np.array(rows), standard, None, ITERATIONS)
    one_hot = covariance.encoding.one_hot
    posterior = Posterior(covariance, theta, one_hot(np.array([*costs])), one_hot(np.array(rows)), len(rows) + 1)
    return kendall(posterior.predict(standard)[0], np.array([*costs.values()]))


def kendall(a: Array, b: Array) -> float:
    """Kendall's tau-b of two lists: 1 if they order all pairs alike, -1 if one reverses the other, 0 if one is
    constant."""
    # scipy.stats has it too, but takes a quarter of a second to import, while the search waits.
    first, second = np.sign(a[:, None] - a[None, :]), np.sign(b[:, None] - b[None, :])
    both = float(np.count_nonzero(first)) * float(np.count_nonzero(second))
    return float((first * second).sum()) / both**0.5 if both else 0.0
