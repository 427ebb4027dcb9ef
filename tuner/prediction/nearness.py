"""How near sizes lie to one another, for a Gaussian process over them, and the algebra of one.

Matrices are taken to pieces for which BLAS and LAPACK take no threads. These wait for one another, on a busy machine
a hundred times as long as the work takes.
"""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np

from tuner.prediction.amounts import Array, Mask, Position, Rows

MOST_ROWS, PIECE = 96, 64  # of a matrix that is inverted at once, and of what is multiplied at once
MOST_ELEMENTS = 8192  # of a matrix that is multiplied by a vector at once


class Scales(NamedTuple):
    """How much what is left open changes with the logarithms of sizes, the alignment of rows, the logarithms of blocks
    and of the work of each, those of waves, that of what whole steps add to the depth, and what a library tells."""

    sizes: float
    alignments: float
    blocks: float
    waves: float
    rounding: float
    library: float


KERNEL = Scales(sizes=0.27, alignments=0.35, blocks=0.67, waves=0.6, rounding=2.0, library=0.0)
# A library that tells its tiles, and one that does not.
TILED = Scales(sizes=0.12, alignments=0.1, blocks=0.15, waves=0.0, rounding=0.0, library=0.25)
UNTILED = Scales(sizes=0.67, alignments=1.0, blocks=0.0, waves=0.0, rounding=0.0, library=0.0)


class Pairs:
    """What is known of an entry at a size is a pair; pairs of an entry follow one another, in the order of sizes. How
    alike what is left open is at two of them, their distance tells: `places` has where they lie, scaled and about a
    centre, by pair and column; `scales` those by entry and column; `counts` the pairs of each entry."""

    def __init__(self, is_kernel: Mask, has_tiles: bool, sizes: Position, known: Mask) -> None:
        """`sizes` are all that a model knows, `known` tells by size and entry what is a pair."""
        self._kinds = is_kernel.astype(int)
        scales = [_by_column(each, sizes) for each in (TILED if has_tiles else UNTILED, KERNEL)]
        shared = sizes.shared
        self._shared = [shared * each[: shared.shape[1]] for each in scales]
        self.scales = np.array(scales)[self._kinds]
        entries, self._rows = np.nonzero(known.T)
        own = sizes.own[self._rows, entries]
        self._own = own * self.scales[entries, shared.shape[1] :]
        self.counts = known.sum(axis=0)
        self._pairs = np.split(np.arange(len(entries)), self.counts.cumsum()[:-1])
        places = np.concatenate([shared[self._rows], own], axis=1)
        self.centre = places.sum(axis=0) / max(1, len(places))  # choices are computed in float32, which has few digits
        self.places = ((places - self.centre) * self.scales[entries]).astype(np.float32)

    def rows(self, entry: int) -> Rows:
        """The sizes at which an entry is known."""
        return self._rows[self._pairs[entry]]

    def near_one_another(self, entry: int) -> Array:
        """How near the sizes at which an entry is known are to one another."""
        shared, own = self._shared[self._kinds[entry]][self.rows(entry)], self._own[self._pairs[entry]]
        places = np.concatenate([shared, own], axis=1)
        near: Array = np.exp(-np.sqrt(squares_apart(places, places)))
        return near


class Nearness:
    """How near a size is to those of pairs, as each choice asks. Of each pair's place p there is (p, p², 1), whose
    product with (-2q, 1, q²) is the square of its distance from q."""

    def __init__(self, is_kernel: Mask, counts: Rows, places: Array, scales: Array, centre: Array) -> None:
        """See `Pairs`. Columns that do not count for any library, or any kernel, are left out for these."""
        self._kinds, self._scales, self._centre = [*map(int, is_kernel)], scales, centre
        self._counts = counts
        counting = [(scales[is_kernel == kind] != 0).any(axis=0) for kind in range(2)]
        self._columns = [np.flatnonzero([*columns, True, True]) for columns in counting]
        ends = np.ones((2, len(places)), np.float32)
        np.einsum("pc,pc->p", places, places, out=ends[0])
        rows = np.concatenate([places.T, ends])
        self._pieces: list[list[Array]] = []
        for kind, pairs in zip(self._kinds, np.split(np.arange(len(places)), counts.cumsum()[:-1]), strict=True):
            columns = self._columns[kind]
            most = max(1, MOST_ELEMENTS // len(columns))
            self._pieces.append([rows[np.ix_(columns, pairs[at : at + most])] for at in range(0, len(pairs), most)])

    def near(self, entries: Rows, here: Position) -> Array:
        """How near, from 0 to 1, a size is to each pair of these entries, which follow one another. `here` is where it
        lies, for these entries. All of it is computed in float32, since each choice waits for it."""
        (shared,), (own,), columns = here.shared, here.own, len(self._centre)
        place = np.empty((len(entries), columns))
        place[:, : len(shared)], place[:, len(shared) :] = shared, own
        place -= self._centre
        place *= self._scales[entries]
        lines = np.ones((len(entries), columns + 2), np.float32)
        lines[:, :columns], lines[:, -1] = -2 * place, np.vecdot(place, place)
        by_kind = [lines[:, columns] for columns in self._columns]
        near, end = np.empty(self._counts[entries].sum(), np.float32), 0
        for entry, *both in zip(entries.tolist(), *by_kind, strict=True):
            line = both[self._kinds[entry]]
            for piece in self._pieces[entry]:
                start, end = end, end + piece.shape[1]
                np.dot(line, piece, out=near[start:end])
        np.maximum(near, 0.0, out=near)
        np.sqrt(near, out=near)
        np.negative(near, out=near)
        return np.exp(near, out=near)


def _by_column(scales: Scales, sizes: Position) -> Array:
    """The scale of each column, of what is shared and of what is an entry's own."""
    columns = scales.sizes, scales.alignments, scales.library, scales.blocks, scales.waves, scales.rounding
    return np.repeat(columns, (*sizes.lengths, 2, 3, 1))


def squares_apart(ones: Array, others: Array) -> Array:
    """The squares of the distances of some places from others."""
    centre = ones.mean(axis=0) if len(ones) else 0.0  # the less is lost to rounding
    ones, others = ones - centre, others - centre
    squares = _multiplied(-2 * ones, others.T)
    squares += np.einsum("pc,pc->p", ones, ones)[:, None]
    squares += np.einsum("pc,pc->p", others, others)
    return np.maximum(squares, 0.0, out=squares)


def product(matrix: Array, vector: Array) -> Array:
    """The same without BLAS."""
    product: Array = np.einsum("ij,j->i", matrix, vector)
    return product


def solution(matrix: Array, vector: Array) -> Array:
    """The x with this product of a symmetric matrix and x."""
    if len(matrix) <= MOST_ROWS:
        return np.asarray(np.linalg.solve(matrix, vector), float)
    return product(inverse(matrix), vector)


def inverse(matrix: Array) -> Array:
    """The inverse of a symmetric matrix by those of its halves (T. Banachiewicz)."""
    if len(matrix) <= MOST_ROWS:
        return np.asarray(np.linalg.inv(matrix), float)
    half = len(matrix) // 2
    beside = matrix[:half, half:]
    first = inverse(matrix[:half, :half])
    across = _multiplied(first, beside)
    rest = matrix[half:, half:] - _multiplied(beside.T, across)
    second = inverse((rest + rest.T) / 2)  # or halves of halves would multiply what rounding leaves
    corner = _multiplied(across, second)
    return np.block([[first + _multiplied(corner, across.T), -corner], [-corner.T, second]])


def _multiplied(one: Array, other: Array) -> Array:
    """A product of matrices in pieces, for which BLAS takes no threads."""
    (rows, depth), columns = one.shape, other.shape[1]
    product = np.zeros((rows, columns))
    for row, column in itertools.product(range(0, rows, PIECE), range(0, columns, PIECE)):
        piece = product[row : row + PIECE, column : column + PIECE]
        for start in range(0, depth, PIECE):
            piece += (
                one[row : row + PIECE, start : start + PIECE] @ other[start : start + PIECE, column : column + PIECE]
            )
    return product
