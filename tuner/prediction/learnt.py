"""The learned state of a time model, and how uncertainty lengthens its predicted times."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tuner.prediction.amounts import Array, Indices, Mask

# All of these are in units of log time: 0.1 lengthens a time by about 10 %.
DISTANCE_PENALTY = 0.1  # for a kernel without any training size nearby; in proportion to the distance, if there is one
# The same where the library is a candidate, in proportion to the squared distance, so that it costs little where tables
# are dense: a kernel is not chosen in place of the library far from where it was measured.
LIBRARY_PENALTY = 0.3
# Factor on the time if even the nearest training size is less similar than LEAST_NEAR: there, the sum of cost terms
# may be wrong by as much. With 0.15 in place of 0.3, two of 182 fresh sizes got a kernel that took 1.45 and 1.7 times
# as long as the library, where it was predicted to take half.
STRANGE, LEAST_NEAR = 3.0, 0.3
# By how much a time is longer per unit of the expected prediction error; that of the library is shorter by as much. So
# a kernel is chosen only where it is faster by a pessimistic prediction than the library by an optimistic one.
RISK = 0.5
PRIOR_ERROR, PRIOR_WEIGHT = 0.1, 0.3  # prior of the expected error, and the number of sizes that the prior counts as


class Learnt(NamedTuple):
    """The learned state of a time model, as arrays.

    A pair is an entry at one of its training sizes; the pairs of an entry are consecutive. `traits`, [3, entries], has
    the rows of `Traits`. `factors`, [entries, terms], are the coefficients of the cost terms. `unseen`, [entries, terms
    of unaligned rows], marks terms that were 0 at every training size. `counts`, [entries], is the number of pairs of
    each entry. `sizes`, [pairs], are the indices of the pairs' sizes; `shared`, [sizes, columns], are the features of
    the sizes and `own`, [pairs, 6], those of the pairs (see `Features`). `weights`, [pairs], are the weights of the
    Gaussian process, `errors`, [pairs], the squared errors of leave-out predictions of log time. `caution` is the share
    by which a kernel must be predicted to beat the library. `regret` is the mean regret in cross-validation, NaN if the
    model must not be used; `kernels_regret` is the same without the library.
    """

    traits: Array
    factors: Array
    unseen: Mask
    counts: Indices
    sizes: Indices
    shared: Array
    own: Array
    weights: Array
    errors: Array
    caution: Array
    regret: Array
    kernels_regret: Array

    @property
    def places(self) -> Array:
        """The features of the pairs, [pairs, columns]."""
        columns = self.shared.shape[1]
        places = np.empty((len(self.sizes), columns + self.own.shape[1]), np.float32)
        np.take(self.shared.astype(np.float32), self.sizes, axis=0, out=places[:, :columns], mode="clip")
        places[:, columns:] = self.own
        return places


def risks(is_kernel: Mask) -> Array:
    """RISK for each entry, with its sign."""
    return np.where(is_kernel, RISK, -RISK)


def distance_penalties(nearest: Array, is_kernel: Mask, has_library: bool) -> Array:
    """The penalties of entries whose nearest training sizes are this similar, from 0 to 1."""
    away = 1 - nearest
    penalties: Array = is_kernel * away * (DISTANCE_PENALTY + LIBRARY_PENALTY * has_library * away)
    return penalties


def cautious(times: Array, caution: Array | float, is_kernel: Mask) -> Array:
    """Lengthen the times of kernels by the share `caution`, so that a kernel must beat the library by that much."""
    return np.where(is_kernel, times * (1 + caution), times)


def expected_errors(squares: Array, weights: Array) -> Array:
    """Expected prediction errors of log time, from the weighted sums of squared errors and the sums of their weights.

    A prior of PRIOR_ERROR takes over where the weights are small.
    """
    expected: Array = np.sqrt((squares + PRIOR_WEIGHT * PRIOR_ERROR**2) / (weights + PRIOR_WEIGHT))
    return expected
