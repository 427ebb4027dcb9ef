"""A matrix product on the caller's arrays, as a vendor's library may run it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

# Takes the arrays C, A, B, a stream or None, alpha and beta.
ProductLaunch = Callable[[Sequence[Any], Any, float, float], None]


class Matrices(NamedTuple):
    """The row-major matrices that one array holds: elements from one row to the next, and from one matrix of the batch
    to the next; `is_transposed` if the product takes their transposes."""

    leading: int
    stride: int
    is_transposed: bool = False

    @staticmethod
    def packed(rows: int, columns: int, is_transposed: bool = False) -> Matrices:
        """Those of a contiguous array of so many rows and columns each."""
        return Matrices(columns, rows * columns, is_transposed)


class MatrixProduct(NamedTuple):
    """C = alpha * A B + beta * C for each matrix of a batch: C is M x N, and the depth of the sums is K. `dtypes` are
    the names of the types of A, B and C."""

    M: int
    N: int
    K: int
    batch: int
    dtypes: tuple[str, str, str]
    C: Matrices
    A: Matrices
    B: Matrices


class Tiles(NamedTuple):
    """How a library cuts a product: into so many tiles, counted with the parts of split sums; how many these would be
    without rounding up; the blocks that it launches, some of which may have no tile; how many of these a multiprocessor
    runs at once; a number for its algorithm; and the rows and columns of a tile, and the parts of a sum."""

    there: float
    whole: float
    blocks: float
    at_once: float
    algorithm: int
    cut: tuple[float, float, int]

    def dealt(self, units: int) -> float:
        """The tiles as they are dealt among so many multiprocessors. Where all blocks run at once, one without a tile
        takes the place of another; else the next block takes its place."""
        return self.blocks if self.blocks <= units * self.at_once else self.there
