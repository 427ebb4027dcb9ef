"""The covariance of sizes for the Gaussian process over residuals, and its linear algebra.

Matrices are processed in blocks so small that BLAS and LAPACK start no threads. On a busy machine, these threads may
wait for one another a hundred times longer than the work takes.
"""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np

from tuner.prediction.amounts import Array, Features, Indices, Mask
from tuner.prediction.learnt import Learnt

MOST_ROWS, BLOCK = 96, 64  # rows of a matrix that LAPACK inverts at once; edge of the blocks that BLAS multiplies
MOST_ELEMENTS = 8192  # of a matrix that BLAS multiplies by a vector at once


class Scales(NamedTuple):
    """Inverse length scales of the Gaussian process, by group of features (see `Features`); 0 ignores a group.

    `blocks` is for the logarithms of the tiles and of the work of a tile, `rounding` for that of the depth.
    """

    sizes: float
    alignments: float
    blocks: float
    waves: float
    rounding: float
    library: float


KERNEL = Scales(sizes=0.27, alignments=0.35, blocks=0.67, waves=0.6, rounding=2.0, library=0.0)
# For a library that reports its tiles, and for one that does not.
TILED = Scales(sizes=0.12, alignments=0.1, blocks=0.15, waves=0.0, rounding=0.0, library=0.25)
UNTILED = Scales(sizes=0.67, alignments=1.0, blocks=0.0, waves=0.0, rounding=0.0, library=0.0)


def of_errors(near: Array, has_tiles: bool) -> Array:
    """How alike the errors of a library's routine are at two sizes, from the covariance `near` of its residuals.

    A library that reports its tiles may choose other ones at sizes that hardly differ, so its errors are alike at fewer
    sizes than its residuals. With one covariance for both, the squared errors of cuBLAS at sizes left out were three
    times the variances that the model gave; with this one, 0.7 and 0.8 times (16-bit products).
    """
    return np.square(np.square(near)) if has_tiles else near


class Pairs:
    """The training data as pairs of an entry and a size, with their features.

    The pairs of an entry are consecutive, in the order of sizes. `counts`, [entries], is the number of pairs; `sizes`,
    [pairs], are the indices of their sizes; `features`, [pairs, 6], are those that differ by entry.
    """

    def __init__(self, is_kernel: Mask, has_tiles: bool, sizes: Features, known: Mask) -> None:
        """`sizes` has the features of all training sizes; `known`, [sizes, entries], marks the pairs."""
        self._kinds = is_kernel.astype(int)
        scales = scales_of(has_tiles, sizes.widths)
        shared = sizes.shared
        self._shared = [shared * each[: shared.shape[1]] for each in scales]
        entries, self.sizes = np.nonzero(known.T)
        self.features = sizes.own[self.sizes, entries]
        self._own = self.features * scales[self._kinds][entries, shared.shape[1] :]
        self.counts = known.sum(axis=0)
        self._pairs = np.split(np.arange(len(entries)), self.counts.cumsum()[:-1])

    def rows(self, entry: int) -> Indices:
        """Indices of the training sizes of an entry."""
        return self.sizes[self._pairs[entry]]

    def covariance(self, entry: int) -> Array:
        """The covariance matrix of an entry's training sizes, with ones on the diagonal: [pairs, pairs]."""
        shared, own = self._shared[self._kinds[entry]][self.rows(entry)], self._own[self._pairs[entry]]
        places = np.concatenate([shared, own], axis=1)
        covariance: Array = np.exp(-np.sqrt(squared_distances(places, places)))
        return covariance


class Nearness:
    """Computes how near a new size is to the training sizes: the Gaussian process's covariance, from 0 to 1.

    For the features p of each pair it stores (p, p^2, 1), whose product with (-2q, 1, q^2) is the squared distance of p
    from q.
    """

    def __init__(self, is_kernel: Mask, learnt: Learnt, scales: Array) -> None:
        """`scales`, [2, columns], are those of the library and of kernels; columns whose scale is 0 are skipped."""
        self._kinds, self._scales = [*map(int, is_kernel)], scales[is_kernel.astype(int)]
        self._learnt, self._ends, self._centre = learnt, learnt.counts.cumsum().tolist(), learnt.centre()
        self._columns = [np.flatnonzero([*(each != 0), True, True]) for each in scales]
        self._blocks: list[list[Array] | None] = [None] * len(self._kinds)

    def _blocks_of(self, entry: int) -> list[Array]:
        """The pairs of an entry, [columns, pairs], in blocks that BLAS multiplies at once. A prediction needs those of
        few entries, so each is made when it is first needed."""
        end, count, columns = self._ends[entry], int(self._learnt.counts[entry]), self._columns[self._kinds[entry]]
        places = self._learnt.places(slice(end - count, end)) - self._centre.astype(np.float32)
        places *= self._scales[entry].astype(np.float32)
        rows = np.ones((places.shape[1] + 2, count), np.float32)
        rows[:-2] = places.T
        np.einsum("cp,cp->p", rows[:-2], rows[:-2], out=rows[-2])
        most = max(1, MOST_ELEMENTS // len(columns))
        blocks = self._blocks[entry] = [rows[columns, at : at + most] for at in range(0, count, most)]
        return blocks

    def near(self, entries: Indices, size: Features) -> Array:
        """The covariance of one size with each pair of these entries: [pairs of these entries].

        `size` has the features of the size for these entries. Computed in float32, because every prediction waits for
        it.
        """
        (shared,), (own,), columns = size.shared, size.own, len(self._centre)
        place = np.empty((len(entries), columns))
        place[:, : len(shared)], place[:, len(shared) :] = shared, own
        place -= self._centre
        place *= self._scales[entries]
        queries = np.ones((len(entries), columns + 2), np.float32)
        queries[:, :columns], queries[:, -1] = -2 * place, np.vecdot(place, place)
        by_kind = [queries[:, columns] for columns in self._columns]
        near, end = np.empty(self._learnt.counts[entries].sum(), np.float32), 0
        for row, entry in enumerate(entries.tolist()):
            query = by_kind[self._kinds[entry]][row]
            for block in self._blocks[entry] or self._blocks_of(entry):
                start, end = end, end + block.shape[1]
                query.dot(block, near[start:end])  # np.dot takes longer
        np.maximum(near, 0.0, out=near)
        np.sqrt(near, out=near)
        np.negative(near, out=near)
        return np.exp(near, out=near)


def scales_of(has_tiles: bool, widths: tuple[int, int, int]) -> Array:
    """The scale of each column of features, shared ones first, of the library and of kernels: [2, columns].

    `has_tiles`: whether the library reports its tiles; `widths` are those of `Features`.
    """
    columns = [
        (each.sizes, each.alignments, each.library, each.blocks, each.waves, each.rounding)
        for each in (TILED if has_tiles else UNTILED, KERNEL)
    ]
    return np.repeat(np.array(columns), (*widths, 2, 3, 1), axis=1)


def squared_distances(ones: Array, others: Array) -> Array:
    """The squared Euclidean distances between the rows of two arrays: [ones, others]."""
    centre = ones.mean(axis=0) if len(ones) else 0.0  # reduces cancellation
    ones, others = ones - centre, others - centre
    squares = _multiplied(-2 * ones, others.T)
    squares += np.einsum("pc,pc->p", ones, ones)[:, None]
    squares += np.einsum("pc,pc->p", others, others)
    return np.maximum(squares, 0.0, out=squares)


def matvec(matrix: Array, vector: Array) -> Array:
    """The product of a matrix and a vector, without BLAS."""
    product: Array = np.einsum("ij,j->i", matrix, vector)
    return product


def solve(matrix: Array, vector: Array) -> Array:
    """The x with matrix @ x = vector, for a symmetric matrix."""
    if len(matrix) <= MOST_ROWS:
        return np.asarray(np.linalg.solve(matrix, vector), float)
    return matvec(inverse(matrix), vector)


def inverse(matrix: Array) -> Array:
    """The inverse of a symmetric matrix, by recursive block inversion with the Schur complement (T. Banachiewicz)."""
    if len(matrix) <= MOST_ROWS:
        return np.asarray(np.linalg.inv(matrix), float)
    half = len(matrix) // 2
    off_diagonal = matrix[:half, half:]
    first = inverse(matrix[:half, :half])
    across = _multiplied(first, off_diagonal)
    schur = matrix[half:, half:] - _multiplied(off_diagonal.T, across)
    second = inverse((schur + schur.T) / 2)  # symmetric again, or the recursion would amplify rounding errors
    corner = _multiplied(across, second)
    return np.block([[first + _multiplied(corner, across.T), -corner], [-corner.T, second]])


def _multiplied(left: Array, right: Array) -> Array:
    """The product of two matrices, in blocks so small that BLAS starts no threads."""
    (rows, depth), columns = left.shape, right.shape[1]
    product = np.zeros((rows, columns))
    for row, column in itertools.product(range(0, rows, BLOCK), range(0, columns, BLOCK)):
        block = product[row : row + BLOCK, column : column + BLOCK]
        for start in range(0, depth, BLOCK):
            block += (
                left[row : row + BLOCK, start : start + BLOCK] @ right[start : start + BLOCK, column : column + BLOCK]
            )
    return product
