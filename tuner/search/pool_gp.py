"""Bayesian optimisation over a pool: a Gaussian process, and the log expected improvement of every configuration."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from tuner.search.covariance import Covariance, Encoding
from tuner.search.pool import Pool, spread
from tuner.search.posterior import Posterior, log_expected_improvement
from tuner.search.proposer import Proposer
from tuner.space.model import Value

Array = NDArray[Any]
Values = tuple[float, ...]

START = 10  # configurations that fill the space before the model chooses
FITTED = 160  # seen configurations that hyperparameters are fitted to
CONDITIONED = 1000  # seen configurations that a prediction rests on
CANDIDATES = 20_000  # configurations whose improvement is computed; of a larger pool, a part drawn again at each fit
CELLS = 5_000_000  # fewer candidates, where parameters have so many values that their one-hot form is larger
DRAWN = 3_000  # of these, at random; the others are the neighbours of the best
PARENTS = 5  # the best, whose neighbours are candidates
FAILED_AT = 90  # percentile of the costs seen that a failure counts as
EARLY, ITERATIONS_EARLY, ITERATIONS = 30, 25, 12  # steps of a fit, more of them as long as few have been told
ROOM = 32  # more outstanding than the growth until the next fit
CHEBYSHEV_REST = 0.05  # share of the sum in the scalarised objective


class PoolGP(Proposer):
    """Asks for one configuration of the pool after the other, none twice; told values, lower ones are better.

    1. `warm` configurations and START that fill the space (see `pool.spread`) come first, until something succeeds. As
       long as none of the latter is the best, the model's choices take turns with them.
    2. Where all values are positive, such as times, a cost is minus the inverse, a rate: what is slow matters little,
       however slow, and improvement counts as the user counts it. Else a cost is the value, which is a rate already
       where something is to be large. A failure counts as the 90th percentile of the costs; then they are standardised.
    3. The model is a Gaussian process with the covariance of `covariance.Covariance`, fitted by its posterior density
       when the number told has grown by a tenth, and by two at least.
    4. The configuration of the largest expected improvement (Jones, Schonlau, Welch, 1998) is next.

    One that was asked for and not yet told counts as seen at the model's mean when it was asked for (the Kriging
    believer of Ginsbourger, Le Riche, Carraro, 2010), so any number may be outstanding. Two or more objectives become
    one by a weighted Chebyshev norm of their scaled costs, with weights drawn for every ask (ParEGO, Knowles, 2006).
    """

    def __init__(
        self, pool: Pool, seed: int | None = None, warm: Iterable[Mapping[str, Value]] = (), block: Sequence[str] = ()
    ) -> None:
        """`warm` are configurations to begin with (unknown ones are left out); `block` the parameters whose product is
        the threads of a block."""
        super().__init__(pool)
        self._rng = np.random.default_rng(seed)
        self._covariance = Covariance(Encoding(pool, block))
        self._values: dict[int, Values | None] = {}  # told
        self._guesses: dict[
            int, float
        ] = {}  # outstanding, with the cost guessed; not a number where there was no model
        self._warm = pool.known(warm)
        self.free[self._warm] = False
        self._queue = self._warm + spread(pool, START, self._warm, self.free, self._rng)
        self.free[self._warm] = True
        self._filling = set(self._queue[len(self._warm) :])
        self._chosen_last = True  # by the model, and not to fill the space
        self._theta: Array | None = None
        self._posterior: Posterior | None = None
        self._candidates = np.arange(0)
        self._in_model: list[int] = []  # rows in the order of the posterior's
        self._considered: set[int] = set()  # these, and those that it was made without
        self._fitted_at = 0
        self._improvement = np.zeros(0)
        self._threads = ThreadpoolController()

    def likely(self, count: int) -> list[int]:
        rows = [row for row in self._queue if self.free[row]][:count]
        free = np.where(self.free[self._candidates], self._improvement, -np.inf)
        top = np.argsort(-free)[: count - len(rows)]
        return [*rows, *self._candidates[top[free[top] > -np.inf]].tolist()]

    def _expect(self, row: int) -> None:
        self._guesses[row] = math.nan

    def _learn(self, row: int, values: Sequence[float] | None) -> None:
        finite = values is not None and all(math.isfinite(v) for v in values)
        self._values[row] = tuple(map(float, values)) if values is not None and finite else None
        self._guesses.pop(row, None)

    def _next(self) -> int:
        while self._queue and (self._chosen_last or not self._warm_leads()):
            row = self._queue.pop(0)
            if self.free[row]:
                self._guesses[row] = math.nan
                self._chosen_last = row in self._warm
                return row
        self._chosen_last = True
        if sum(values is not None for values in self._values.values()) < 2:  # nothing to learn from yet
            row = spread(self.pool, 1, [*self._values, *self._guesses], self.free, self._rng)[0]
            self._guesses[row] = math.nan
            return row
        # The matrices are too small for threads to be of use, and with one the same seed gives the same sums anywhere.
        with self._threads.limit(limits=1, user_api="blas"):
            return self._most_promising()

    def _warm_leads(self) -> bool:
        """Whether the best so far is a warm configuration, or one that the model chose: then knowing where to look is
        worth more than looking everywhere, and the two take turns."""
        good = {row: values for row, values in self._values.items() if values is not None}
        if not self._warm or len(good) < 2 or any(row in self._queue for row in self._warm):
            return False
        return min(good, key=lambda row: good[row]) not in self._filling

    def _most_promising(self) -> int:
        """The free candidate of the largest expected improvement."""
        costs = self._costs()
        centre, scale = float(np.mean(list(costs.values()))), float(np.std(list(costs.values()))) or 1.0
        standard = {row: (cost - centre) / scale for row, cost in costs.items()}
        posterior = self._updated(standard)
        y = [standard[r] if r in standard else (self._guesses[r] - centre) / scale for r in self._in_model]
        mean, deviation = posterior.predict(np.nan_to_num(np.array(y)))
        self._improvement = log_expected_improvement(mean, deviation, min(standard.values()))
        best = int(np.argmax(np.where(self.free[self._candidates], np.nan_to_num(self._improvement), -np.inf)))
        row = int(self._candidates[best])
        self._guesses[row] = float(mean[best]) * scale + centre
        return row

    def _costs(self) -> dict[int, float]:
        """The cost of each row that has been told."""
        good = [row for row, values in self._values.items() if values is not None]
        table = np.array([self._values[row] for row in good])
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
        failed = float(np.percentile(costs, FAILED_AT))
        known = dict(zip(good, costs.tolist(), strict=True))
        return {row: known.get(row, failed) for row in self._values}

    def _updated(self, costs: Mapping[int, float]) -> Posterior:
        """The posterior given all that has been told or is outstanding, fitted anew where it is time."""
        missing = [row for row in (*costs, *self._guesses) if row not in self._considered]
        due = len(costs) >= max(self._fitted_at + 2, 1.1 * self._fitted_at)
        posterior = self._posterior
        if posterior is None or due or posterior.room < len(missing) or not self.free[self._candidates].any():
            if due:
                self._fit(costs)
            return self._rebuilt(costs)
        for row in missing:
            posterior.add(self._covariance.encoding.one_hot(np.array([row])))
            self._in_model.append(row)
        self._considered.update(missing)
        return posterior

    def _fit(self, costs: Mapping[int, float]) -> None:
        """Hyperparameters by what has been told; from those of the last fit."""
        rows = self._part(costs, FITTED)
        y = np.array([costs[row] for row in rows])
        iterations = ITERATIONS_EARLY if len(costs) <= EARLY else ITERATIONS
        self._theta = self._covariance.fit(np.array(rows), y, self._theta, iterations)
        self._fitted_at = len(costs)

    def _rebuilt(self, costs: Mapping[int, float]) -> Posterior:
        """The posterior from nothing, over candidates drawn again."""
        self._in_model = self._part(costs, CONDITIONED) + list(self._guesses)
        self._considered = {*costs, *self._guesses}
        self._candidates = self._drawn(costs)
        one_hot = self._covariance.encoding.one_hot
        assert self._theta is not None
        self._posterior = Posterior(
            self._covariance,
            self._theta,
            one_hot(self._candidates),
            one_hot(np.array(self._in_model)),
            len(self._in_model) + max(2, math.ceil(0.1 * len(costs))) + ROOM,
        )
        return self._posterior

    def _part(self, costs: Mapping[int, float], most: int) -> list[int]:
        """At most `most` of the rows told: the best half of that number, and others at random."""
        rows = sorted(costs, key=costs.__getitem__)
        if len(rows) <= most:
            return rows
        return [*rows[: most // 2], *self._rng.choice(rows[most // 2 :], most - most // 2, replace=False).tolist()]

    def _drawn(self, costs: Mapping[int, float]) -> Array:
        """The rows whose improvement is computed: all that are free, or some at random and the neighbours of the best.

        A neighbour differs in one or two parameters.
        """
        free = np.flatnonzero(self.free)
        most = min(CANDIDATES, max(2 * DRAWN, CELLS // self._covariance.encoding.width))
        if len(free) <= most:
            return free
        near = np.zeros(len(self.pool), dtype=bool)
        for row in sorted(costs, key=costs.__getitem__)[:PARENTS]:
            near |= np.count_nonzero(self.pool.rows != self.pool.rows[row], axis=1) <= 2
        near = np.flatnonzero(near & self.free)
        if len(near) > most - DRAWN:
            near = self._rng.choice(near, most - DRAWN, replace=False)
        return np.union1d(near, self._rng.choice(free, DRAWN, replace=False))
