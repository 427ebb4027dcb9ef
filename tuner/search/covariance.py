"""How alike two configurations are: the covariance of the Gaussian process, and the fit of its hyperparameters.

Every parameter has few values, so all that the covariance needs of a pair of configurations is in small tables over
values, one for each dimension. The tables of all dimensions are blocks of one matrix, and a configuration is a one-hot
vector over all values: sums over dimensions are matrix products.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_solve, cholesky
from scipy.optimize import minimize

from tuner.search.pool import Pool
from tuner.space.model import Value

Array = NDArray[Any]

LEVELS = 32  # of the dimension that is added for the threads of a block
ROOT5 = math.sqrt(5.0)


class Encoding:
    """A pool's configurations as the covariance sees them.

    Dimensions are the parameters with more than one value in the pool and, last, where `block` names at least two of
    these, the logarithm of their product: the threads of a block. `codes` is (configurations, dimensions), the
    position of each value; `squared` and `differs` are (values, values) over the values of all dimensions, zero
    outside the blocks: squared distances in units of a dimension's range, and whether two values of a parameter differ.
    """

    def __init__(self, pool: Pool, block: Sequence[str] = ()) -> None:
        columns: list[Array] = []
        tables: list[Array] = []
        for column, values in enumerate(pool.values):
            present, codes = np.unique(pool.rows[:, column], return_inverse=True)
            if len(present) > 1:
                columns.append(codes)
                tables.append(_squared_distances([values[i] for i in present]))
        self.parameters = len(columns)
        threads = _threads(pool, block)
        if threads is not None:
            present, codes = np.unique(np.round(threads * LEVELS), return_inverse=True)
            columns.append(codes)
            tables.append((present[:, None] - present[None, :]) ** 2 / LEVELS**2)
        self.dimensions = len(columns)
        self.codes = np.stack(columns, axis=1).astype(pool.rows.dtype) if columns else pool.rows[:, :0]
        self.starts = np.concatenate([[0], np.cumsum([len(table) for table in tables])]).astype(np.intp)
        self.width = int(self.starts[-1])
        self.squared = np.zeros((self.width, self.width))
        self.differs = np.zeros((self.width, self.width))
        for i, table in enumerate(tables):
            block_ = slice(self.starts[i], self.starts[i + 1])
            self.squared[block_, block_] = table
            if i < self.parameters:
                self.differs[block_, block_] = 1.0 - np.eye(len(table))

    def one_hot(self, rows: Array, dtype: type = np.float32) -> Array:
        """(rows, values) with a one for each dimension's value."""
        made: Array = np.zeros((len(rows), self.width), dtype=dtype)
        np.put_along_axis(made, self.codes[rows].astype(np.intp) + self.starts[:-1], 1.0, axis=1)
        return made

    def spread(self, per_dimension: Array) -> Array:
        """A number for each dimension, repeated for each of its values: (values, 1)."""
        return np.repeat(per_dimension, np.diff(self.starts))[:, None]

    def sums(self, table: Array) -> Array:
        """The sum of each dimension's block of a (values, values) table that is zero outside the blocks."""
        return np.add.reduceat(table.sum(axis=1), self.starts[:-1])


def _squared_distances(values: Sequence[Value]) -> Array:
    """Between the values of a parameter: of numbers, by the mean of rank and logarithm, each scaled to [0, 1].

    Words and truth values have no order, so all of them are one apart.
    """
    if any(isinstance(v, bool) or not isinstance(v, int | float) for v in values):
        return 1.0 - np.eye(len(values))
    numbers = np.array(values, dtype=float)
    rank = np.argsort(np.argsort(numbers)) / (len(numbers) - 1)
    if numbers.min() > 0:
        numbers = np.log(numbers)
    elif numbers.min() == 0:
        numbers = np.log1p(numbers)
    numbers = (numbers - numbers.min()) / (numbers.max() - numbers.min())
    coordinates = (rank + numbers) / 2
    return np.asarray((coordinates[:, None] - coordinates[None, :]) ** 2)


def _threads(pool: Pool, block: Sequence[str]) -> Array | None:
    """The logarithm of the product of the parameters `block`, scaled to [0, 1]: (configurations,)."""
    logarithms = []
    for name in dict.fromkeys(block):
        values = pool.values[pool.names.index(name)] if name in pool.names else ()
        if len(values) > 1 and all(isinstance(v, int | float) and v > 0 for v in values):
            logarithms.append(np.log(np.array(values, dtype=float))[pool.rows[:, pool.names.index(name)]])
    if len(logarithms) < 2:
        return None
    total = np.sum(logarithms, axis=0)
    extent = np.ptp(total)
    return None if extent == 0 else np.asarray((total - total.min()) / extent)


@dataclass(frozen=True)
class Prior:
    """Independent normal priors on the hyperparameters, and the box that the fit stays in."""

    mean: Array
    deviation: Array
    low: Array
    high: Array


class Covariance:
    """Of two configurations x and x', with d over dimensions and D of them:

        w1 matern(sqrt(sum_d s_d / l_d^2)) + w2 sum_d matern(s_d / l_d) / D + w3 exp(-sum_d h_d [x_d != x'_d])

    where s_d is the squared distance in dimension d, matern the Matern function of smoothness 5/2, and the weights w
    add up to one. It is one at x = x'; the output's scale is profiled out, and `noise` is relative to it. The first
    part is a smooth function of all dimensions together, the second a sum of functions of one, the third knows no
    order. (Rasmussen and Williams, Gaussian Processes for Machine Learning, 2006, chapters 4 and 5; sums of kernels:
    Duvenaud, Nickisch, Rasmussen, Additive Gaussian Processes, 2011; Hamming: Hutter and others, 2014.)

    Hyperparameters are a vector theta: log l (dimensions), log h (parameters), log noise, three logits of w.
    """

    def __init__(self, encoding: Encoding) -> None:
        self.encoding = encoding
        d, p = encoding.dimensions, encoding.parameters
        self._lengths, self._h, self._noise, self._logits = slice(d), slice(d, d + p), d + p, slice(d + p + 1, None)

        def row(length: float, h: float, noise: float, logit: float) -> Array:
            return np.concatenate([np.full(d, length), np.full(p, h), [noise], np.full(3, logit)])

        self.prior = Prior(
            mean=row(math.log(0.7), math.log(0.3), math.log(1e-3), 0.0),
            deviation=row(1.0, 1.0, 1.5, 1.5),
            low=row(-4.0, -8.0, -12.0, -6.0),
            high=row(5.0, 4.0, 0.0, 6.0),
        )

    def noise(self, theta: Array) -> float:
        """The variance of the noise, relative to that of the function."""
        return math.exp(theta[self._noise])

    def between(self, theta: Array, a: Array, b: Array) -> Array:
        """The covariances (len(a), len(b)) of configurations in one-hot form, without noise."""
        together, alone, differing = (table.astype(a.dtype) for table in self._tables(theta))
        weights = _softmax(theta[self._logits]).astype(a.dtype)
        made: Array = (a @ together) @ b.T
        np.maximum(made, 0.0, out=made)
        np.sqrt(made, out=made)
        made *= -a.dtype.type(ROOT5)  # -root5 r
        polynomial = made * made
        polynomial /= 3
        polynomial -= made
        polynomial += 1  # 1 + root5 r + 5/3 r^2
        np.exp(made, out=made)
        made *= polynomial
        made *= weights[0]
        made += (a @ (weights[1] * alone)) @ b.T
        np.matmul(-(a @ differing), b.T, out=polynomial)
        np.exp(polynomial, out=polynomial)
        polynomial *= weights[2]
        made += polynomial
        return made

    def _tables(self, theta: Array) -> tuple[Array, Array, Array]:
        """The three sums over dimensions as tables over values: the part together, alone, and differing."""
        encoding = self.encoding
        scaled = encoding.squared * encoding.spread(np.exp(-2 * theta[self._lengths]))
        alone = np.where(_blocks(encoding), _matern(scaled)[0], 0.0) / max(1, encoding.dimensions)
        return scaled, alone, encoding.differs * self._per_value(theta)

    def _per_value(self, theta: Array) -> Array:
        """h for each value; zero for the dimension that is no parameter."""
        h = np.zeros(self.encoding.dimensions)
        h[: self.encoding.parameters] = np.exp(theta[self._h])
        return self.encoding.spread(h)

    def loss(self, theta: Array, x: Array, y: Array) -> tuple[float, Array]:
        """The negative logarithm of the posterior density of theta, up to a constant, and its gradient.

        `x` is (n, values) one-hot in float64, `y` (n,) standardised. The output's scale is at its best value,
        y' K^-1 y / n.
        """
        encoding, n = self.encoding, len(y)
        scaled, alone, differing = self._tables(theta)
        weights, noise = _softmax(theta[self._logits]), self.noise(theta)
        product, slope = _matern(np.maximum(x @ scaled @ x.T, 0.0))
        additive = x @ alone @ x.T
        hamming = np.exp(-(x @ differing @ x.T))
        covariance = weights[0] * product + weights[1] * additive + weights[2] * hamming
        factor = cholesky(covariance + noise * np.eye(n), lower=True, check_finite=False)
        inverse = cho_solve((factor, True), np.eye(n), check_finite=False)
        solved = inverse @ y
        fit = max(float(y @ solved), 1e-12)
        off = (theta - self.prior.mean) / self.prior.deviation
        value = 0.5 * n * math.log(fit) + float(np.log(np.diag(factor)).sum()) + 0.5 * float(off @ off)

        by_covariance = 0.5 * inverse - (0.5 * n / fit) * np.outer(solved, solved)
        gradient = off / self.prior.deviation
        together = x.T @ (by_covariance * slope) @ x * (weights[0] * -2.0)
        apart = x.T @ by_covariance @ x * (weights[1] * -2.0 / max(1, encoding.dimensions))
        gradient[self._lengths] += encoding.sums((together + apart * _matern(scaled)[1]) * scaled)
        unequal = x.T @ (by_covariance * hamming) @ x * -weights[2]
        gradient[self._h] += encoding.sums(unequal * differing)[: encoding.parameters]
        gradient[self._noise] += noise * float(np.trace(by_covariance))
        parts = np.array([float(np.vdot(by_covariance, part)) for part in (product, additive, hamming)])
        gradient[self._logits] += weights * (parts - float(weights @ parts))
        return value, np.asarray(gradient)

    def fit(self, rows: Array, y: Array, start: Array | None, iterations: int) -> Array:
        """The most probable theta for values `y` (n,), standardised, of the configurations at `rows` (n,)."""
        x = self.encoding.one_hot(rows, np.float64)
        found = minimize(
            self.loss,
            self.prior.mean if start is None else start,
            args=(x, y),
            jac=True,
            method="L-BFGS-B",
            bounds=list(zip(self.prior.low, self.prior.high, strict=True)),
            options={"maxiter": iterations},
        )
        return np.asarray(found.x)


def _matern(squared: Array) -> tuple[Array, Array]:
    """The Matern function of smoothness 5/2 of a distance, from its square, and the derivative by that square."""
    distance = ROOT5 * np.sqrt(squared)
    decay = np.exp(-distance)
    return (1.0 + distance + distance * distance / 3.0) * decay, (-5.0 / 6.0) * (1.0 + distance) * decay


def _blocks(encoding: Encoding) -> Array:
    """Where a (values, values) table belongs to one dimension."""
    dimension = np.repeat(np.arange(encoding.dimensions), np.diff(encoding.starts))
    return np.asarray(dimension[:, None] == dimension[None, :])


def _softmax(logits: Array) -> Array:
    weights = np.exp(logits - logits.max())
    return np.asarray(weights / weights.sum())
