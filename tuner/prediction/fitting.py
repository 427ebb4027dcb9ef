"""Fit the coefficients of the cost terms: non-negative least squares of relative errors."""

from __future__ import annotations

import numpy as np

from tuner.prediction.amounts import LOAD, TERMS, Array, Mask

PENALTY = 32.0  # weight of the penalty on every coefficient but the load's, divided by the third power of the sizes
ROUNDS = 100  # of coordinate descent


def relative_to(terms: Array, times: Array) -> tuple[Mask, Array]:
    """Which times are known, [sizes, entries], and the terms over the times, [sizes, entries, terms], 0 if unknown.

    `terms` are [sizes, entries, terms]; `times` in ms are [sizes, entries], NaN if not measured.
    """
    known = ~np.isnan(times) & np.isfinite(terms).all(axis=2)
    return known, np.where(known[:, :, None], terms / times[:, :, None], 0.0)


def fitted(known: Mask, relative: Array, weights: Array, floors: Array | float = 0.0) -> Array:
    """Fit the coefficients once for each row of `weights`: [fits, entries, terms].

    `known` and `relative` are the results of `relative_to`; `weights`, [fits, sizes], weighs the sizes in each fit.
    The first coefficient, of a launch, is at least that of `floors`, [entries], in ms.
    """
    by_entry = relative.transpose(1, 2, 0)
    squares = np.array([(by_entry * each) @ by_entry.transpose(0, 2, 1) for each in weights])
    rest = 1 - floors * relative[..., 0]  # what is left of a time without the least launch, over the time
    sums, counts = np.einsum("as,sep->aep", weights, relative * rest[..., None]), np.einsum("as,se->ae", weights, known)
    coefficients = _nonnegative(squares, sums, counts)
    coefficients[..., 0] += floors
    return coefficients


def sums(terms: Array, coefficients: Array, unseen: Mask) -> Array:
    """Times in ms: the sums of the terms times their coefficients over the last axis of `terms`.

    Infinite if a time is unknown, or if a term of unaligned rows is positive that was `unseen`, [entries, terms of
    unaligned rows], in training.
    """
    times: Array = np.vecdot(terms, coefficients)
    untrained = np.vecdot(terms[..., TERMS:], unseen)
    times[~(times > 0) | (untrained > 0)] = np.inf
    return times


def _nonnegative(squares: Array, sums: Array, counts: Array) -> Array:
    """The non-negative x with the least |A x - 1| for many A at once, by coordinate descent.

    `squares` are A^T A, `sums` A^T 1, `counts` the rows of A. Tikhonov regularisation of all coefficients but the
    load's makes the load explain the times if there are few sizes.
    """
    diagonal = np.einsum("...ii->...i", squares)
    penalty = PENALTY * diagonal / np.maximum(counts, 1)[..., None] ** 3
    penalty[..., LOAD] = 0.0
    terms = sums.shape[-1]
    squares = squares + penalty[..., None] * np.eye(terms)
    scale = np.where(diagonal > 0, diagonal + penalty, 1.0)
    # Terms are the first axis and all A the last, so that each step works on contiguous rows.
    rows = np.ascontiguousarray(np.moveaxis((squares / scale[..., None]).reshape(-1, terms, terms), 0, 2))
    target = np.ascontiguousarray((sums / scale).reshape(-1, terms).T)
    x, product, sum_of_products = np.zeros_like(target), np.empty_like(target), np.empty_like(target[0])
    order = [LOAD, *(term for term in range(terms) if term != LOAD)]
    # A term that is zero everywhere keeps the coefficient 0. With few A, allocating arrays would take half of the time.
    steps = [(x[term], target[term], rows[term]) for term in order if rows[term].any()]
    for _ in range(ROUNDS):
        before = x.copy()
        for own, own_target, row in steps:
            np.add.reduce(np.multiply(row, x, out=product), axis=0, out=sum_of_products)
            np.maximum(0.0, own + own_target - sum_of_products, out=own)
        if np.array_equal(x, before):
            break
    return x.T.reshape(sums.shape)
