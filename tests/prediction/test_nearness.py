"""The algebra of Gaussian processes."""

from __future__ import annotations

import numpy as np

from tuner.prediction.nearness import inverse, matvec, solve


def test_an_inverse_of_many_sizes_near_one_another_is_exact() -> None:
    """What rounding leaves must not grow with each halving."""
    rng = np.random.default_rng(1)
    places, vector = rng.normal(size=900), rng.normal(size=900)
    near = np.exp(-np.abs(places[:, None] - places)) + 0.03 * np.eye(900)
    found = inverse(near)
    assert np.abs(found @ near - np.eye(900)).max() < 1e-9
    assert np.allclose(solve(near, vector), matvec(found, vector))
