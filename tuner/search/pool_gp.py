"""Bayesian optimisation over a pool: a Gaussian process, and the log expected improvement of every configuration.

What needs SciPy, which takes long to import, is imported when the model is used first: a short search ends before.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from tuner.search.pool import Pool, farthest_points
from tuner.search.proposer import Proposer
from tuner.space.config import Value

if TYPE_CHECKING:
    from tuner.search.covariance import Covariance
    from tuner.search.posterior import Posterior

Array = NDArray[Any]
Values = tuple[float, ...]

START = 10  # space-filling configurations before the model chooses
MOST_FITTED = 160  # configurations that the hyperparameters are fitted to
MOST_TRAINING = 1000  # configurations that a prediction is based on
MOST_CANDIDATES = 20_000  # configurations whose improvement is computed; a larger pool is sampled at each fit
CELLS = 5_000_000  # most elements of the candidates' one-hot matrix; if it is wide, there are fewer candidates
MOST_KEPT = 5_000  # candidates, those with the largest improvement, that are considered until the next fit
AT_RANDOM = 3_000  # candidates that are drawn at random; the others are neighbours of the best configurations
PARENTS = 5  # the best configurations, whose neighbours are candidates
FAILURE_PERCENTILE = 90  # a failure costs this percentile of the successes' costs
# Iterations of a fit: ITERATIONS_EARLY with up to EARLY results, ITERATIONS with more.
EARLY, ITERATIONS_EARLY, ITERATIONS = 30, 25, 12
ROOM = 32  # spare training points of a posterior, for outstanding configurations
CHEBYSHEV_REST = 0.05  # weight of the sum that ParEGO adds to the largest objective


class PoolGP(Proposer):
    """Bayesian optimisation over a pool; lower values are better.

    1. The `warm` configurations come first, then START space-filling ones (`pool.farthest_points`), and more of the
       latter until two succeed. If there are warm configurations, and the best so far is one of them or was chosen by
       the model, space-filling configurations alternate with the model's choices.
    2. If all values are positive, as times are, the cost of a value is -1 / value, which is a negative throughput. Slow
       configurations then differ little in cost, and an improvement is a gain in throughput. Otherwise the cost is the
       value. A failure costs the 90th percentile of the successes' costs. Costs are then standardised.
    3. The model is a Gaussian process with `covariance.Covariance`, whose hyperparameters maximise the posterior
       density. It is fitted again whenever the number of results has grown by a tenth, and at least by two.
    4. The next configuration is the one with the largest expected improvement (Jones, Schonlau, Welch, 1998). After
       the first choice that follows a fit, only the MOST_KEPT with the largest are considered until the next fit.

    An outstanding configuration enters the model with the mean that was predicted when it was asked for (the Kriging
    believer of Ginsbourger, Le Riche, Carraro, 2010), so any number may be outstanding. Several objectives are combined
    into one by a weighted Chebyshev norm of their scaled costs, with random weights at every ask (ParEGO, Knowles,
    2006).
    """

    def __init__(
        self, pool: Pool, seed: int | None = None, warm: Iterable[Mapping[str, Value]] = (), block: Sequence[str] = ()
    ) -> None:
        """`warm` are configurations to measure first; those outside the pool are ignored. `block` names the parameters
        whose product is the number of threads per block."""
        super().__init__(pool)
        self._rng = np.random.default_rng(seed)
        self._block = block
        self._values: dict[int, Values | None] = {}  # the results, by row
        # Predicted costs of outstanding rows; NaN, which counts as the mean cost, if the model did not choose the row.
        self._guesses: dict[int, float] = {}
        self._warm = pool.rows_of(warm)
        self.free[self._warm] = False
        start = farthest_points(pool, START, self._warm, self.free, self._rng)
        self.free[self._warm] = True
        self._queue = self._warm + start
        self._start = set(start)
        self._fill_next = True  # whether a queued row comes next; otherwise the model chooses
        self._theta: Array | None = None
        self._posterior: Posterior | None = None
        self._candidates = np.arange(0)
        self._training: list[int] = []  # rows, in the posterior's order
        self._considered: set[int] = set()  # the training rows, and the rows that sampling left out
        self._fitted_at = 0
        self._improvement = np.zeros(0)
        self._threads = ThreadpoolController()

    @functools.cached_property
    def _covariance(self) -> Covariance:
        from tuner.search.covariance import Covariance, Encoding

        return Covariance(Encoding(self.pool, self._block))

    def likely(self, count: int) -> list[int]:
        rows = [row for row in self._queue if self.free[row]][:count]
        improvement = np.where(self.free[self._candidates], self._improvement, -np.inf)
        top = np.argsort(-improvement)[: count - len(rows)]
        return [*rows, *self._candidates[top[improvement[top] > -np.inf]].tolist()]

    def _expect(self, row: int) -> None:
        self._guesses[row] = math.nan

    def _learn(self, row: int, values: Sequence[float] | None) -> None:
        is_finite = values is not None and all(math.isfinite(v) for v in values)
        self._values[row] = tuple(map(float, values)) if values is not None and is_finite else None
        self._guesses.pop(row, None)

    def _next(self) -> int:
        while self._queue and (self._fill_next or not self._warm_leads()):
            row = self._queue.pop(0)
            if self.free[row]:
                self._expect(row)
                self._fill_next = row in self._warm
                return row
        self._fill_next = True
        if sum(values is not None for values in self._values.values()) < 2:  # nothing to learn from yet
            row = farthest_points(self.pool, 1, [*self._values, *self._guesses], self.free, self._rng)[0]
            self._expect(row)
            return row
        # The matrices are too small for threads, and one thread makes sums reproducible on every machine.
        with self._threads.limit(limits=1, user_api="blas"):
            return self._most_promising()

    def _warm_leads(self) -> bool:
        """Whether the best so far is a warm configuration or was chosen by the model.

        If so, exploiting the model pays more than filling the space, so the two alternate.
        """
        successes = {row: values for row, values in self._values.items() if values is not None}
        if not self._warm or len(successes) < 2 or any(row in self._queue for row in self._warm):
            return False
        return min(successes, key=lambda row: successes[row]) not in self._start

    def _most_promising(self) -> int:
        """The free candidate with the largest expected improvement."""
        from tuner.search.posterior import log_expected_improvement

        costs = self._costs()
        centre, scale = float(np.mean(list(costs.values()))), float(np.std(list(costs.values()))) or 1.0
        standard = {row: (cost - centre) / scale for row, cost in costs.items()}
        posterior = self._current_posterior(standard)
        y = [standard[r] if r in standard else (self._guesses[r] - centre) / scale for r in self._training]
        mean, deviation = posterior.predict(np.nan_to_num(np.array(y)))
        self._improvement = log_expected_improvement(mean, deviation, min(standard.values()))
        best = int(np.argmax(np.where(self.free[self._candidates], np.nan_to_num(self._improvement), -np.inf)))
        row = int(self._candidates[best])
        self._guesses[row] = float(mean[best]) * scale + centre
        if len(self._candidates) > MOST_KEPT and self._objectives() == 1:  # several are weighted anew at each ask
            leading = np.sort(np.argpartition(-self._improvement, MOST_KEPT)[:MOST_KEPT])
            self._candidates, self._improvement = self._candidates[leading], self._improvement[leading]
            posterior.keep(leading)
        return row

    def _objectives(self) -> int:
        return next(len(values) for values in self._values.values() if values is not None)

    def _costs(self) -> dict[int, float]:
        """The cost of each row that has a result."""
        successes = [row for row, values in self._values.items() if values is not None]
        table = np.array([self._values[row] for row in successes])
        objectives = table.shape[1]
        for column in range(objectives):
            if (table[:, column] > 0).all():
                table[:, column] = -1.0 / table[:, column]
        if objectives > 1:
            table = (table - table.min(axis=0)) / np.maximum(np.ptp(table, axis=0), 1e-12)
            weighted = table * self._rng.dirichlet(np.ones(objectives))
            costs = weighted.max(axis=1) + CHEBYSHEV_REST * weighted.sum(axis=1)
        else:
            costs = table[:, 0]
        of_failure = float(np.percentile(costs, FAILURE_PERCENTILE))
        return dict.fromkeys(self._values, of_failure) | dict(zip(successes, costs.tolist(), strict=True))

    def _current_posterior(self, costs: Mapping[int, float]) -> Posterior:
        """The posterior given all results and outstanding rows, refitted if due."""
        new = [row for row in (*costs, *self._guesses) if row not in self._considered]
        is_due = len(costs) >= max(self._fitted_at + 2, 1.1 * self._fitted_at)
        posterior = self._posterior
        if posterior is None or is_due or posterior.room < len(new) or not self.free[self._candidates].any():
            if is_due:
                self._fit(costs)
            return self._rebuild(costs)
        for row in new:
            posterior.add(self._covariance.encoding.one_hot(np.array([row])))
            self._training.append(row)
        self._considered.update(new)
        return posterior

    def _fit(self, costs: Mapping[int, float]) -> None:
        """Fit the hyperparameters to the results, starting from the last fit."""
        rows = self._sample(costs, MOST_FITTED)
        y = np.array([costs[row] for row in rows])
        iterations = ITERATIONS_EARLY if len(costs) <= EARLY else ITERATIONS
        self._theta = self._covariance.fit(np.array(rows), y, self._theta, iterations)
        self._fitted_at = len(costs)

    def _rebuild(self, costs: Mapping[int, float]) -> Posterior:
        """A new posterior over newly drawn candidates."""
        from tuner.search.posterior import Posterior

        self._training = self._sample(costs, MOST_TRAINING) + list(self._guesses)
        self._considered = {*costs, *self._guesses}
        self._candidates = self._draw_candidates(costs)
        one_hot = self._covariance.encoding.one_hot
        assert self._theta is not None
        self._posterior = Posterior(
            self._covariance,
            self._theta,
            one_hot(self._candidates),
            one_hot(np.array(self._training)),
            len(self._training) + max(2, math.ceil(0.1 * len(costs))) + ROOM,
        )
        return self._posterior

    def _sample(self, costs: Mapping[int, float], most: int) -> list[int]:
        """At most `most` rows with a result: half of them are the best, the others are drawn at random."""
        rows = sorted(costs, key=costs.__getitem__)
        if len(rows) <= most:
            return rows
        return [*rows[: most // 2], *self._rng.choice(rows[most // 2 :], most - most // 2, replace=False).tolist()]

    def _draw_candidates(self, costs: Mapping[int, float]) -> Array:
        """The rows whose improvement is computed: all free rows, or a random sample and the neighbours of the best.

        A neighbour differs in one or two parameters.
        """
        free = np.flatnonzero(self.free)
        most = min(MOST_CANDIDATES, max(2 * AT_RANDOM, CELLS // self._covariance.encoding.width))
        if len(free) <= most:
            return free
        near = np.zeros(len(self.pool), dtype=bool)
        for row in sorted(costs, key=costs.__getitem__)[:PARENTS]:
            near |= self._covariance.encoding.near(row, 2)
        near = np.flatnonzero(near & self.free)
        if len(near) > most - AT_RANDOM:
            near = self._rng.choice(near, most - AT_RANDOM, replace=False)
        return np.union1d(near, self._rng.choice(free, AT_RANDOM, replace=False))
