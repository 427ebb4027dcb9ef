"""The numbers by which the parts of a time count: those with the least squares of relative errors."""

from __future__ import annotations

import numpy as np

from tuner.prediction.amounts import LOAD, PARTS, Array, Mask

SPARING = 32.0  # the weight of the other parts of a time than its load, over the third power of the number of sizes
ROUNDS = 100  # of the search for the numbers


def relative_to(parts: Array, times: Array) -> tuple[Mask, Array]:
    """What is known, and the parts over the times, 0 where they are not. `parts` are by size, entry and part, `times`
    in ms by size and entry, not a number where there is none."""
    known = ~np.isnan(times) & np.isfinite(parts).all(axis=2)
    return known, np.where(known[:, :, None], parts / times[:, :, None], 0.0)


def fitted(known: Mask, relative: Array, among: Array) -> Array:
    """The factors, by choice, entry and part, as each of the choices of sizes tells: `known` and `relative` are what
    `relative_to` gives, and `among` has the weight of each size, by choice."""
    by_entry = relative.transpose(1, 2, 0)
    squares = np.array([(by_entry * each) @ by_entry.transpose(0, 2, 1) for each in among])
    sums, counts = np.einsum("as,sep->aep", among, relative), np.einsum("as,se->ae", among, known)
    return _nonnegative(squares, sums, counts)


def sums(parts: Array, factors: Array, unseen: Mask) -> Array:
    """The times in ms that factors give, without the last axis of `parts`; infinite where there is none, or where rows
    are not aligned and such rows were `unseen`, by entry and part of such rows."""
    found: Array = np.vecdot(parts, factors)
    untold = np.vecdot(parts[..., PARTS:], unseen)
    found[~(found > 0) | (untold > 0)] = np.inf
    return found


def _nonnegative(squares: Array, sums: Array, counts: Array) -> Array:
    """The numbers x that are not negative with the least |A x - 1|, one after the other improved, for many A at once:
    `squares` are A^T A, `sums` A^T 1, `counts` the rows of A. What few sizes tell is thought to be load (A. N.
    Tikhonov's regularisation)."""
    diagonal = np.einsum("...ii->...i", squares)
    penalty = SPARING * diagonal / np.maximum(counts, 1)[..., None] ** 3
    penalty[..., LOAD] = 0.0
    parts = sums.shape[-1]
    squares = squares + penalty[..., None] * np.eye(parts)
    scale = np.where(diagonal > 0, diagonal + penalty, 1.0)
    # The parts come first, and all A as the other axis: each step is of whole rows.
    rows = np.ascontiguousarray(np.moveaxis((squares / scale[..., None]).reshape(-1, parts, parts), 0, 2))
    wanted = np.ascontiguousarray((sums / scale).reshape(-1, parts).T)
    x = np.zeros_like(wanted)
    order = [LOAD, *(part for part in range(parts) if part != LOAD)]
    for _ in range(ROUNDS):
        for part in order:
            x[part] = np.maximum(0.0, x[part] + wanted[part] - np.einsum("jb,jb->b", rows[part], x))
    return x.T.reshape(sums.shape)
