"""What a model of times has learnt, and how doubts make predicted times longer."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tuner.prediction.amounts import Array, Mask, Rows

DOUBT = 0.1  # by which what was measured nowhere near is thought to take longer
# And how many times as long where even the nearest size is less near than that: sums of parts may be off by as much.
STRANGE, LEAST_NEAR = 3.0, 0.15
RISK = 0.5  # of the errors of the logarithms, as sizes nearby show them: by that much it is thought to take longer
UNKNOWN, FEW = 0.1, 0.3  # such an error where nothing is near, and how many sizes that counts as


class Learnt(NamedTuple):
    """What was learnt, as arrays: traits, by entry the last axis; by entry and part the factors; of the parts of rows
    that are not aligned, which were `unseen`; of each entry how many pairs with a size it has, their places (see
    `Nearness`), with their scales and centre; of each pair what it counts, and the square of its error. And the
    caution, and the regret, which is not a number where the model is not to be trusted."""

    traits: Array
    factors: Array
    unseen: Mask
    counts: Rows
    places: Array
    scales: Array
    centre: Array
    weights: Array
    errors: Array
    caution: Array
    regret: Array


def cautious(times: Array, caution: Array | float, is_kernel: Mask) -> Array:
    """The times with which kernels must beat the library."""
    return np.where(is_kernel, times * (1 + caution), times)


def risks(squares: Array, weights: Array) -> Array:
    """The errors to be expected, by the sums of their squares and of the weights of these."""
    expected: Array = np.sqrt((squares + FEW * UNKNOWN**2) / (weights + FEW))
    return expected
