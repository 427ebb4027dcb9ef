"""The learned state of a time model, and how uncertainty lengthens its predicted times."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tuner.prediction.amounts import Array, Indices, Mask

# All of these but LEAST_NEAR are in units of log time: 0.1 lengthens a time by about 10 %.
# A kernel precedes the library if its time is shorter even when it counts as longer by as many standard deviations of
# the ratio of both times as the model's caution says, less LOSS, a loss that nobody minds. Kernels that are compared
# with each other count as one standard deviation longer.
LOSS = 0.03
# Of a log time that was measured at the same size. Had that one the expected error, too, 773 of 4,038 table sizes would
# get a configuration that was not measured there; of 524 of these, 91 were over 10 % slower than the best that was.
LEAST_DEVIATION = 0.02
# If the nearest training size is less similar than FAR, the sum of cost terms extrapolates. At 161 such sizes of two
# lists of the 16-bit products, predictions were off by twice the deviation that errors elsewhere suggest. Per unit of
# the distance from FAR, the deviation grows by FAR_DEVIATION.
FAR, FAR_DEVIATION = 0.6, 0.3
# Below LEAST_NEAR, it grows further, by STRANGE per unit, for kernels. Most of these were measured at no such size, so
# errors at sizes left out do not tell how wrong the shortest of their predictions is. Without it, three of 111 fresh
# sizes got one that took 1.1 to 2.1 times as long as the library, where 0.7 was predicted. With a factor of 3 in its
# place, sgemm3x lost sizes at which all kernels are far, and take 0.3 times as long as the library.
LEAST_NEAR, STRANGE = 0.3, 3.0
# Of the library's log time over a kernel's, where times of another type of the same width are used: cuBLAS may run
# other algorithms. Of float16 and bfloat16, at 775 sizes with aligned rows, and at 213 others (H200).
LENT_DEVIATION, LENT_DEVIATION_UNALIGNED = 0.045, 0.14
PRIOR_ERROR, PRIOR_WEIGHT = 0.1, 0.3  # prior of the expected error, and the number of sizes that the prior counts as


class Learnt(NamedTuple):
    """The learned state of a time model, as arrays.

    A pair is an entry at one of its training sizes; the pairs of an entry are consecutive. `traits`, [3, entries], has
    the rows of `Traits`. `factors`, [entries, terms], are the coefficients of the cost terms. `unseen`, [entries, terms
    of unaligned rows], marks terms that were 0 at every training size. `counts`, [entries], is the number of pairs of
    each entry. `sizes`, [pairs], are the indices of the pairs' sizes; `shared`, [sizes, columns], are the features of
    the sizes and `own`, [pairs, 6], those of the pairs (see `Features`). `weights`, [pairs], are the weights of the
    Gaussian process, `errors`, [pairs], the squared errors of leave-out predictions of log time. `caution` is the
    number of standard deviations by which a kernel must be predicted to beat the library. `regret` is the mean regret
    in cross-validation, NaN if the model must not be used; `kernels_regret` is the same without the library.
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

    def places(self, pairs: slice) -> Array:
        """The features of these pairs: [pairs, columns], the shared ones, then the own ones."""
        places: Array = np.concatenate([self.shared[self.sizes[pairs]], self.own[pairs]], axis=1, dtype=np.float32)
        return places

    def centre(self) -> Array:
        """The means of the features of all pairs: [columns]."""
        times = np.bincount(self.sizes, minlength=len(self.shared))
        total = np.concatenate([times @ self.shared.astype(float), self.own.sum(axis=0, dtype=float)])
        mean: Array = total / max(1, len(self.sizes))
        return mean


def variances(errors: Array | float, nearest: Array | float, is_kernel: Mask | bool) -> Array:
    """The variances of predicted log times. `errors` are the expected ones, and `nearest` is the similarity of each
    entry's nearest training size, from 0 to 1."""
    unlike = np.maximum(1 - nearest**4, 0.0)  # the share of the squared error that remains: none at a training size
    far = FAR_DEVIATION * np.maximum(FAR - nearest, 0.0)
    far += STRANGE * is_kernel * np.maximum(LEAST_NEAR - nearest, 0.0)
    squares: Array = errors**2 * unlike + LEAST_DEVIATION**2 + far**2
    return squares


UNSEEN = float(np.exp(np.sqrt(variances(PRIOR_ERROR, 0.0, True))))  # factor on times of which no residual was predicted


def beside_library(
    times: Array, is_kernel: Mask, own: Array, caution: Array | float, library: Array | float, of_library: Array | float
) -> Array:
    """The times as they are compared where the library is a candidate. `own` are the variances of their logarithms;
    `library` and `of_library` are the library's time and its variance.

    The caution decides which kernels precede the library, one deviation decides among these. At 15 fresh sizes and
    types at which the order by caution began with another kernel, it took 1.03 times as long on average (H200).
    """
    cautious = times * np.exp(is_kernel * (caution * np.sqrt(own + of_library) - LOSS))
    expected = times * np.exp(is_kernel * np.sqrt(own))
    compared: Array = np.where(cautious < library, np.minimum(expected, cautious), cautious)
    return compared


def expected_errors(squares: Array, weights: Array) -> Array:
    """Expected prediction errors of log time, from the weighted sums of squared errors and the sums of their weights.

    A prior of PRIOR_ERROR takes over where the weights are small.
    """
    expected: Array = np.sqrt((squares + PRIOR_WEIGHT * PRIOR_ERROR**2) / (weights + PRIOR_WEIGHT))
    return expected
