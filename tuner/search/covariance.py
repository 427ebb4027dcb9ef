"""The covariance of the Gaussian process, and the fit of its hyperparameters.

Every parameter has few values, so the covariance is computed from small tables over the values of each dimension. The
tables are blocks of one matrix, and a configuration is a one-hot vector over all values. Sums over dimensions are then
matrix products.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cholesky
from scipy.linalg.lapack import dpotri
from scipy.optimize import minimize

from tuner.classes import dataclass
from tuner.search.pool import Pool
from tuner.space.config import Value

Array = NDArray[Any]

LEVELS = 32  # of the extra dimension, threads per block
CACHED = 2**16  # elements of a matrix that stays in the processor's cache
ROOT5 = math.sqrt(5.0)


class Encoding:
    """A pool's configurations in the form that the covariance reads.

    The dimensions are the parameters with more than one value in the pool. If `block` names at least two of these, a
    last dimension is the logarithm of their product, the threads per block.

    `codes` [dimensions, configurations] holds the position of each value. The tables over the values of all dimensions
    are [values, values]: `within` marks the block of each dimension; the other tables are zero outside it. `squared`
    holds squared distances, in units of a dimension's range; `differs` is 1 if two values of a parameter differ.
    """

    def __init__(self, pool: Pool, block: Sequence[str] = ()) -> None:
        columns: list[Array] = []
        tables: list[Array] = []
        for column, values in zip(pool.rows.T, pool.values, strict=True):
            occurs = np.bincount(column, minlength=len(values)) > 0
            if np.count_nonzero(occurs) > 1:
                columns.append((np.cumsum(occurs) - 1).astype(pool.rows.dtype)[column])
                tables.append(_squared_distances([value for value, is_in in zip(values, occurs, strict=True) if is_in]))
        self.parameters = len(columns)
        threads = _threads_per_block(pool, block)
        if threads is not None:
            levels, codes = np.unique(np.round(threads * LEVELS), return_inverse=True)
            columns.append(codes.astype(pool.rows.dtype))
            tables.append((levels[:, None] - levels[None, :]) ** 2 / LEVELS**2)
        self.dimensions = len(columns)
        self.codes = np.stack(columns) if columns else pool.rows.T[:0]
        self._counts = [len(table) for table in tables]
        self.starts = np.concatenate([[0], np.cumsum(self._counts)]).astype(np.intp)
        self.width = int(self.starts[-1])
        self.within = np.zeros((self.width, self.width), dtype=bool)
        self.squared = np.zeros((self.width, self.width))
        self.differs = np.zeros((self.width, self.width))
        for i, table in enumerate(tables):
            part = slice(self.starts[i], self.starts[i + 1])
            self.within[part, part] = True
            self.squared[part, part] = table
            if i < self.parameters:
                self.differs[part, part] = 1.0 - np.eye(len(table))

    def one_hot(self, rows: Array, dtype: type = np.float32) -> Array:
        """The configurations at `rows` [n] as one-hot vectors [n, values]."""
        vectors: Array = np.zeros((len(rows), self.width), dtype=dtype)
        places = self.codes[:, rows].T + self.starts[:-1]
        vectors[np.arange(len(rows))[:, None], places] = 1.0
        return vectors

    def near(self, row: int, distance: int) -> Array:
        """Whether each configuration differs from the one at `row` in at most `distance` parameters."""
        differences = np.zeros(self.codes.shape[1], dtype=np.uint16)
        for codes in self.codes[: self.parameters]:
            differences += codes != codes[row]
        return differences <= distance

    def per_value(self, per_dimension: Array) -> Array:
        """Repeat the number of each dimension once for each value that the dimension has: [values, 1]."""
        return np.repeat(per_dimension, self._counts)[:, None]

    def block_sums(self, table: Array) -> Array:
        """The sum of each dimension's block in a [values, values] table that is zero outside: [dimensions]."""
        return np.add.reduceat(table.sum(axis=1), self.starts[:-1])


def _squared_distances(values: Sequence[Value]) -> Array:
    """The squared distances between the values of a parameter.

    A number's coordinate is the mean of its rank and its logarithm, each scaled to 0 to 1. Strings and booleans have
    no order: any two have distance 1.
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
    places = (rank + numbers) / 2
    return np.asarray((places[:, None] - places[None, :]) ** 2)


def _threads_per_block(pool: Pool, block: Sequence[str]) -> Array | None:
    """The logarithm of the product of the parameters `block`, scaled to 0 to 1: [configurations].

    None if fewer than two of these vary, or their product is constant.
    """
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
    """Independent normal priors on the hyperparameters, and the bounds of the fit."""

    mean: Array
    deviation: Array
    low: Array
    high: Array


class Covariance:
    """The covariance of two configurations x and x', with d over the D dimensions:

        w1 matern(sqrt(sum_d s_d / l_d^2)) + w2 sum_d matern(sqrt(s_d) / l_d) / D + w3 exp(-sum_d h_d [x_d != x'_d])

    s_d is the squared distance in dimension d, matern the Matern function of smoothness 5/2, and the weights w sum to
    1. The joint term is a smooth function of all dimensions together. The additive term is a sum of smooth functions of
    one dimension each. The Hamming term ignores the order of values. Sources: Rasmussen and Williams, Gaussian
    Processes for Machine Learning, 2006, chapters 4 and 5; for sums of kernels Duvenaud, Nickisch and Rasmussen,
    Additive Gaussian Processes, 2011; for the Hamming term Hutter and others, 2014.

    The covariance is 1 at x = x'. The output scale is profiled out, and the noise is relative to it. The
    hyperparameters are a vector theta: log l (dimensions), log h (parameters), log noise, three logits of w.
    """

    def __init__(self, encoding: Encoding) -> None:
        self.encoding = encoding
        d, p = encoding.dimensions, encoding.parameters
        self._lengths, self._h, self._noise, self._logits = slice(d), slice(d, d + p), d + p, slice(d + p + 1, None)

        def theta(length: float, h: float, noise: float, logit: float) -> Array:
            return np.concatenate([np.full(d, length), np.full(p, h), [noise], np.full(3, logit)])

        self.prior = Prior(
            mean=theta(math.log(0.7), math.log(0.3), math.log(1e-3), 0.0),
            deviation=theta(1.0, 1.0, 1.5, 1.5),
            low=theta(-4.0, -8.0, -12.0, -6.0),
            high=theta(5.0, 4.0, 0.0, 6.0),
        )

    def noise(self, theta: Array) -> float:
        """The variance of the noise, relative to that of the function."""
        return math.exp(theta[self._noise])

    def between(self, theta: Array, a: Array, b: Array) -> Array:
        """The covariances [len(a), len(b)] of configurations in one-hot form, without noise."""
        joint, additive, hamming = (table.astype(a.dtype) for table in self._tables(theta))
        weights, number = _softmax(theta[self._logits]).astype(a.dtype), a.dtype.type
        logarithms = np.log(weights)
        # Factors that are constant are multiplied into the tables: the matrices below are much larger.
        joint, additive, hamming = a @ (number(5) * joint), a @ (weights[1] * additive), a @ -hamming
        total = np.empty((len(a), len(b)), dtype=a.dtype)
        step = max(1, CACHED // max(1, len(a)))  # columns at a time, so that all intermediate results stay in the cache
        for start in range(0, len(b), step):
            columns = b[start : start + step].T
            squared: Array = joint @ columns  # 5 r^2
            term = np.sqrt(squared)
            squared *= number(1 / 3)
            squared += term
            squared += 1  # 1 + root5 r + 5/3 r^2
            np.subtract(logarithms[0], term, out=term)
            np.exp(term, out=term)
            term *= squared
            np.matmul(additive, columns, out=squared)
            term += squared
            np.matmul(hamming, columns, out=squared)
            squared += logarithms[2]
            np.exp(squared, out=squared)
            np.add(term, squared, out=total[:, start : start + step])
        return total

    def _tables(self, theta: Array) -> tuple[Array, Array, Array]:
        """The sums over dimensions in the joint, the additive and the Hamming term, as tables [values, values]."""
        encoding = self.encoding
        scaled = encoding.squared * encoding.per_value(np.exp(-2 * theta[self._lengths]))
        additive = np.where(encoding.within, _matern(scaled)[0], 0.0) / max(1, encoding.dimensions)
        h = np.zeros(encoding.dimensions)  # zero for the threads per block, which are not a parameter
        h[: encoding.parameters] = np.exp(theta[self._h])
        return scaled, additive, encoding.differs * encoding.per_value(h)

    def loss(self, theta: Array, x: Array, y: Array) -> tuple[float, Array]:
        """The negative logarithm of the posterior density of theta, up to a constant, and its gradient.

        `x` is [n, values], one-hot in float64; `y` [n] is standardised. The output scale has its best value,
        y' K^-1 y / n.
        """
        encoding, n = self.encoding, len(y)
        scaled, additive_table, hamming_table = self._tables(theta)
        weights, noise = _softmax(theta[self._logits]), self.noise(theta)
        joint, slope = _matern(x @ scaled @ x.T)
        additive = x @ additive_table @ x.T
        hamming = np.exp(-(x @ hamming_table @ x.T))
        covariance = weights[0] * joint + weights[1] * additive + weights[2] * hamming
        covariance[np.diag_indices(n)] += noise
        factor = cholesky(covariance, lower=True, check_finite=False)
        inverse = _inverse(factor)
        solution = inverse @ y
        quadratic = max(float(y @ solution), 1e-12)
        z = (theta - self.prior.mean) / self.prior.deviation
        value = 0.5 * n * math.log(quadratic) + float(np.log(np.diag(factor)).sum()) + 0.5 * float(z @ z)

        by_covariance = 0.5 * inverse - (0.5 * n / quadratic) * np.outer(solution, solution)
        gradient = z / self.prior.deviation
        by_joint = x.T @ (by_covariance * slope) @ x * (weights[0] * -2.0)
        by_additive = x.T @ by_covariance @ x * (weights[1] * -2.0 / max(1, encoding.dimensions))
        gradient[self._lengths] += encoding.block_sums((by_joint + by_additive * _matern(scaled)[1]) * scaled)
        by_hamming = x.T @ (by_covariance * hamming) @ x * -weights[2]
        gradient[self._h] += encoding.block_sums(by_hamming * hamming_table)[: encoding.parameters]
        gradient[self._noise] += noise * float(np.trace(by_covariance))
        by_weight = np.array([float(np.vdot(by_covariance, term)) for term in (joint, additive, hamming)])
        gradient[self._logits] += weights * (by_weight - float(weights @ by_weight))
        return value, np.asarray(gradient)

    def fit(self, rows: Array, y: Array, start: Array | None, iterations: int) -> Array:
        """The most probable theta for the standardised values `y` [n] of the configurations at `rows` [n]."""
        optimum = minimize(
            self.loss,
            self.prior.mean if start is None else start,
            args=(self.encoding.one_hot(rows, np.float64), y),
            jac=True,
            method="L-BFGS-B",
            bounds=list(zip(self.prior.low, self.prior.high, strict=True)),
            options={"maxiter": iterations},
        )
        return np.asarray(optimum.x)


def _matern(squared: Array) -> tuple[Array, Array]:
    """The Matern function of smoothness 5/2 at the distance sqrt(`squared`), and its derivative by `squared`."""
    distance = ROOT5 * np.sqrt(squared)
    decay = np.exp(-distance)
    return (1.0 + distance + distance * distance / 3.0) * decay, (-5.0 / 6.0) * (1.0 + distance) * decay


def _inverse(factor: Array) -> Array:
    """The inverse of L L', given the lower triangle L."""
    lower, _ = dpotri(factor, lower=1)  # zero above the diagonal, as L
    inverse = lower + lower.T
    inverse[np.diag_indices(len(inverse))] /= 2
    return np.asarray(inverse)


def _softmax(logits: Array) -> Array:
    weights = np.exp(logits - logits.max())
    return np.asarray(weights / weights.sum())
