"""The posterior of the Gaussian process at the candidates, extended by one row per new training point."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cholesky, solve_triangular
from scipy.linalg.blas import strsm
from scipy.special import erfcx, ndtr

from tuner.search.covariance import Covariance

Array = NDArray[Any]


class Posterior:
    """Mean and deviation at each of m candidates, given n training points.

    K is the covariance of the training points with noise, and K = L L'. This stores L [n, n] in double precision and
    V = L^-1 K(training, candidates) [n, m] in single precision. Neither depends on the values of the training points,
    so these may change from one prediction to the next.
    """

    def __init__(self, covariance: Covariance, theta: Array, candidates: Array, training: Array, capacity: int) -> None:
        """`candidates` [m, values] and `training` [n, values] are one-hot, float32. At most `capacity` training points
        fit."""
        self._covariance, self._theta, self._candidates = covariance, theta, candidates
        self._noise = covariance.noise(theta)
        n, m = len(training), len(candidates)
        self._size, capacity = n, max(capacity, n + 1)
        self._x = np.empty((capacity, candidates.shape[1]), dtype=np.float32)
        self._x[:n] = training
        within = covariance.between(theta, training.astype(float), training.astype(float)) + self._noise * np.eye(n)
        self._factor = np.zeros((capacity, capacity))
        self._factor[:n, :n] = cholesky(within, lower=True, check_finite=False)
        self._v = np.empty((capacity, m), dtype=np.float32)
        self._v[:n] = covariance.between(theta, training, candidates)
        # V' = K' L^-T, solved in place: row-major V is column-major V', which BLAS expects.
        strsm(1.0, self._factor[:n, :n].astype(np.float32), self._v[:n].T, side=1, lower=1, trans_a=1, overwrite_b=1)
        self._reduction = np.einsum("ij,ij->j", self._v[:n], self._v[:n])

    @property
    def room(self) -> int:
        """How many more training points can be added."""
        return len(self._x) - self._size

    def add(self, point: Array) -> None:
        """Add a training point in one-hot form [1, values]."""
        n, theta = self._size, self._theta
        cross = self._covariance.between(theta, self._x[:n].astype(float), point.astype(float))[:, 0]
        row = solve_triangular(self._factor[:n, :n], cross, lower=True, check_finite=False)
        diagonal = math.sqrt(max(1.0 + self._noise - float(row @ row), self._noise))
        self._factor[n, :n], self._factor[n, n] = row, diagonal
        v = self._covariance.between(theta, point, self._candidates)[0]
        v -= row.astype(np.float32) @ self._v[:n]
        v /= np.float32(diagonal)
        self._v[n], self._x[n] = v, point[0]
        self._reduction += v * v
        self._size += 1

    def keep(self, places: Array) -> None:
        """Drop all candidates but those at `places`, an array of positions."""
        self._candidates, self._reduction = self._candidates[places], self._reduction[places]
        v = np.empty((len(self._v), len(places)), dtype=np.float32)
        np.take(self._v[: self._size], places, axis=1, out=v[: self._size])
        self._v = v

    def predict(self, y: Array) -> tuple[Array, Array]:
        """Mean and standard deviation [m] of the function at the candidates, for training values `y` [n] of mean 0."""
        n = self._size
        z = solve_triangular(self._factor[:n, :n], y, lower=True, check_finite=False)
        scale = math.sqrt(max(float(z @ z) / n, 1e-12))
        mean = z.astype(np.float32) @ self._v[:n]
        return mean, scale * np.sqrt(np.maximum(1.0 - self._reduction, 1e-6))


def log_expected_improvement(mean: Array, deviation: Array, best: float) -> Array:
    """The logarithm of the expected improvement on `best` when minimising.

    If the mean is more than one deviation above `best`, it uses the scaled complementary error function, which does
    not underflow (Ament and others, Unexpected Improvements to Expected Improvement, 2023).
    """
    u = ((best - mean) / deviation).astype(float)
    density = -0.5 * u * u - 0.5 * math.log(2 * math.pi)
    near = u > -1.0
    value = np.empty_like(u)
    value[near] = np.log(np.exp(density[near]) + u[near] * ndtr(u[near]))
    far = u[~near]
    ratio = np.maximum(1.0 + far * math.sqrt(math.pi / 2) * erfcx(-far / math.sqrt(2)), 1e-300)
    value[~near] = density[~near] + np.log(np.maximum(ratio, 1.0 / (4.0 + 2.0 * far * far)))
    return np.asarray(value + np.log(deviation))
