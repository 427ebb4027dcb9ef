"""How near sizes lie to one another, for a Gaussian process over them, and the algebra of one.

Matrices are taken to pieces for which BLAS and LAPACK take no threads. These wait for one another, on a busy machine
a hundred times as long as the work takes.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tuner.space.lockless import cached_property
from tuner.store.amounts import Array, Mask, Position, Rows

MOST_ROWS, MOST_PRODUCTS = 96, 1 << 18  # of a matrix that is inverted at once, and of a product
BLOCK = 64  # pairs that lie beside one another in memory


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


class Nearness:
    """Where sizes lie, by entry: how alike what is left open is at two of them, their distance tells. What is known of
    an entry at a size is a pair; pairs of an entry follow one another, in the order of sizes. A choice finds them in
    blocks of one entry each, the last of which is filled up."""

    def __init__(self, is_kernel: Mask, has_tiles: bool, sizes: Position, known: Mask) -> None:
        """`sizes` are all that a model knows, `known` tells by size and entry what is a pair."""
        self._kinds = is_kernel.astype(int)
        scales, lengths = (TILED if has_tiles else UNTILED, KERNEL), [p.shape[1] for p in self._parts(sizes)]
        self._scales = [np.repeat([each.sizes, each.alignments, each.library], lengths) for each in scales]
        own_scales = np.array([[each.blocks] * 2 + [each.waves] * 3 + [each.rounding] for each in scales])
        self._own_scales = own_scales[self._kinds]
        self._shared = [self._places(sizes) * scale for scale in self._scales]
        entries, self._rows = np.nonzero(known.T)
        self._own = sizes.own[self._rows, entries] * self._own_scales[entries]
        counts = known.sum(axis=0)
        self._pairs = np.split(np.arange(len(entries)), counts.cumsum()[:-1])

        self._blocks = -(-counts // BLOCK)
        self._entries = np.repeat(np.arange(len(counts)), self._blocks)
        filled = BLOCK * self._blocks - counts
        self._in_blocks = np.arange(len(entries)) + np.repeat(filled.cumsum() - filled, counts)
        self._block_rows = self.in_blocks(self._rows + self._kinds[entries] * len(known))
        own = self._own.astype(np.float32).T
        self._block_own = np.stack([self.in_blocks(column, fill=np.inf) for column in own], axis=1)
        self._telling = [np.flatnonzero(scale) for scale in self._scales]
        columns = [places.T[telling] for places, telling in zip(self._shared, self._telling, strict=True)]
        self._columns = [each.astype(np.float32) for each in columns]

    def in_blocks(self, pairs: np.ndarray[Any, Any], fill: float = 0) -> np.ndarray[Any, Any]:
        """Of all pairs the same, by block and place in it."""
        found = np.full(BLOCK * len(self._entries), fill, pairs.dtype)
        found[self._in_blocks] = pairs
        return found.reshape(-1, BLOCK)

    def rows(self, entry: int) -> Rows:
        """The sizes at which an entry is known."""
        return self._rows[self._pairs[entry]]

    @cached_property
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

    def near(self, entries: Rows, here: Position) -> tuple[Rows, Rows, Array]:
        """The blocks of these entries, which are sorted; the first one of each among them; and by block how near, from
        0 to 1, a size is to each pair. `here` is where it lies, for these entries. All of it is computed in float32,
        since each choice waits for it."""
        is_asked = np.zeros(len(self._kinds), bool)
        is_asked[entries] = True
        blocks = np.flatnonzero(is_asked[self._entries])
        (place,), counts = self._places(here), self._blocks[entries]
        own = (here.own[0] * self._own_scales[entries]).astype(np.float32).repeat(counts, axis=0)
        shared = np.empty((len(self._columns), len(self._shared[0])), np.float32)
        for kind, (columns, scale, telling) in enumerate(zip(self._columns, self._scales, self._telling, strict=True)):
            apart = columns - (place * scale)[telling].astype(np.float32)[:, None]
            np.einsum("ds,ds->s", apart, apart, out=shared[kind])
        apart = self._block_own[blocks] - own[:, :, None]
        squares = shared.take(self._block_rows[blocks]) + np.einsum("bdp,bdp->bp", apart, apart)
        return blocks, counts.cumsum() - counts, np.exp(-np.sqrt(squares))

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
