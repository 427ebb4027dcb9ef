"""How near sizes lie to one another, for a Gaussian process over them, and the algebra of one.

Matrices are taken to pieces for which BLAS and LAPACK take no threads. These wait for one another, on a busy machine
a hundred times as long as the work takes.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np

from tuner.store.grids import Array, Mask
from tuner.store.loads import Position

MOST_ROWS, MOST_PRODUCTS = 96, 1 << 18  # of a matrix that is inverted at once, and of a product
Rows = np.ndarray[Any, np.dtype[np.intp]]


class Scales(NamedTuple):
    """How much what is left open changes with the logarithms of sizes, the alignment of rows, the logarithms of blocks
    and of the work of each, those of waves, and with what a library tells."""

    sizes: float
    alignments: float
    blocks: float
    waves: float
    library: float


KERNEL = Scales(sizes=0.27, alignments=0.35, blocks=0.67, waves=0.6, library=0.0)
TILED = Scales(sizes=0.12, alignments=0.06, blocks=0.15, waves=0.0, library=0.25)  # a library that tells its tiles
UNTILED = Scales(sizes=0.67, alignments=1.0, blocks=0.0, waves=0.0, library=0.0)


class Nearness:
    """Where sizes lie, by entry: how alike what is left open is at two of them, their distance tells. What is known of
    an entry at a size is a pair; pairs of an entry follow one another, in the order of sizes."""

    def __init__(self, is_kernel: Mask, has_tiles: bool, sizes: Position, known: Mask) -> None:
        """`sizes` are all that a model knows, `known` tells by size and entry what is a pair."""
        self._kinds = is_kernel.astype(int)
        scales, lengths = (TILED if has_tiles else UNTILED, KERNEL), [p.shape[1] for p in self._parts(sizes)]
        self._scales = [np.repeat([each.sizes, each.alignments, each.library], lengths) for each in scales]
        own_scales = np.array([[each.blocks] * 2 + [each.waves] * 3 for each in scales])
        self._own_scales = own_scales[self._kinds]
        self._shared = [self._places(sizes) * scale for scale in self._scales]
        self._lengths = [(places**2).sum(axis=1) for places in self._shared]
        entries, self._rows = np.nonzero(known.T)
        self._own = sizes.own[self._rows, entries] * self._own_scales[entries]
        self._single = self._own.astype(np.float32)
        ends = known.sum(axis=0).cumsum()
        self._pairs = np.split(np.arange(len(entries)), ends[:-1])

    def rows(self, entry: int) -> Rows:
        """The sizes at which an entry is known."""
        return self._rows[self._pairs[entry]]

    @functools.cached_property
    def _apart(self) -> list[Array]:
        """The squares of the distances of sizes to one another, but for what is an entry's own. What has been learnt
        asks for none."""
        return [squares_apart(places) for places in self._shared]

    @staticmethod
    def _parts(sizes: Position) -> tuple[Array, ...]:
        return sizes.sizes, sizes.alignments, sizes.library

    def _places(self, sizes: Position) -> Array:
        """What all libraries share, and all kernels, by size."""
        return np.concatenate(self._parts(sizes), axis=1)

    def near(self, entries: Rows, here: Position) -> tuple[Rows, Array]:
        """All pairs of these entries, and how near, from 0 to 1, a size is to each. It is computed in float32, since
        each choice waits for it."""
        pairs = np.concatenate([self._pairs[entry] for entry in entries])
        counts = [len(self._pairs[entry]) for entry in entries]
        (place,), own = self._places(here), here.own[0, entries] * self._own_scales[entries]
        apart = [
            lengths + ((place * scale) ** 2).sum() - 2 * np.einsum("sd,d->s", places, place * scale)
            for lengths, places, scale in zip(self._lengths, self._shared, self._scales, strict=True)
        ]
        offsets = np.repeat(self._kinds[entries] * len(self._shared[0]), counts)
        squares = np.maximum(np.array(apart, np.float32), 0.0).take(self._rows.take(pairs) + offsets)
        differences = self._single.take(pairs, axis=0) - np.repeat(own.astype(np.float32), counts, axis=0)
        for column in differences.T:
            squares += column**2
        near: Array = np.exp(-np.sqrt(squares))
        return pairs, near

    def near_one_another(self, entry: int) -> Array:
        """How near the sizes at which an entry is known are to one another."""
        rows, own = self.rows(entry), self._own[self._pairs[entry]]
        squares = self._apart[self._kinds[entry]][np.ix_(rows, rows)] + squares_apart(own)
        near: Array = np.exp(-np.sqrt(squares))
        return near


def squares_apart(places: Array) -> Array:
    """The squares of the distances of places to one another."""
    squares: Array = np.zeros((len(places), len(places)))
    for column in places.T[places.any(axis=0)]:
        squares += (column[:, None] - column) ** 2
    return squares


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
    product = np.empty((rows, columns))
    for row in range(0, rows, MOST_ROWS):
        left = one[row : row + MOST_ROWS]
        width = max(1, MOST_PRODUCTS // (len(left) * depth))
        for column in range(0, columns, width):
            product[row : row + MOST_ROWS, column : column + width] = left @ other[:, column : column + width]
    return product
