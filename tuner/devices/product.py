"""A matrix product (GEMM) on the caller's arrays, and the tiling that a vendor library chooses for it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


class ProductLaunch(NamedTuple):
    """Enqueues a product.

    `on_arrays` takes the arrays C, A and B; a stream or None; alpha; beta. `at` takes a tuple of the addresses of C, A
    and B, the handle of a stream, alpha and beta: its caller has checked the arrays.
    """

    on_arrays: Callable[[Sequence[Any], Any, float, float], None]
    at: Callable[[tuple[Any, ...]], None]


class Matrices(NamedTuple):
    """The layout of the row-major matrices in one array.

    `leading` is the leading dimension and `stride` the distance between consecutive matrices of the batch, both in
    elements. `is_transposed` if the product uses the transposed matrices.
    """

    leading: int
    stride: int
    is_transposed: bool = False

    @staticmethod
    def packed(rows: int, columns: int, is_transposed: bool = False) -> Matrices:
        """The layout of a contiguous array [batch, rows, columns]."""
        return Matrices(columns, rows * columns, is_transposed)


class MatrixProduct(NamedTuple):
    """C = alpha * A B + beta * C for each matrix of a batch: C is [M, N], and the inner dimension is K. `dtypes` are
    the names of the dtypes of A, B and C."""

    M: int
    N: int
    K: int
    batch: int
    dtypes: tuple[str, str, str]
    C: Matrices
    A: Matrices
    B: Matrices

    @staticmethod
    def packed(
        sizes: tuple[int, int, int, int], dtypes: tuple[str, str, str], transposed: Collection[str]
    ) -> MatrixProduct:
        """The product of these sizes M, N, K and batch on packed arrays; those of A and B in `transposed` are stored
        transposed."""
        M, N, K, batch = sizes
        left, right = (
            Matrices.packed(*(extents[::-1] if name in transposed else extents), name in transposed)
            for name, extents in (("A", (M, K)), ("B", (K, N)))
        )
        return MatrixProduct(M, N, K, batch, dtypes, Matrices.packed(M, N), left, right)


class HostTimes(NamedTuple):
    """The host's time in ms of a call that launches one kernel, of one that runs the vendor library, and of one that
    launches a graph of several steps, as calls of kernels with several steps do once they are repeated."""

    kernel_ms: float
    library_ms: float
    graph_ms: float

    def of_steps(self, counts: NDArray[np.int_]) -> NDArray[np.float64]:
        """Those of calls of kernels with so many steps."""
        times: NDArray[np.float64] = np.minimum(counts * self.kernel_ms, self.graph_ms)
        return times

    def of_library(self, tiles: Tiles | None) -> float:
        """That of a library call. One that splits sums launches a second kernel, which adds up the parts."""
        return self.library_ms + (self.kernel_ms if tiles is not None and tiles.cut[2] > 1 else 0.0)


class Tiles(NamedTuple):
    """How a library tiles a product. Each part of a split-K sum counts as a tile of its own."""

    tile_count: float
    whole: float  # tiles without rounding up: the product's elements divided by a tile's
    blocks: float  # that are launched; swizzling leaves some without a tile
    at_once: float  # resident blocks per multiprocessor
    algorithm: int  # identifies the library's algorithm
    cut: tuple[float, float, int]  # rows and columns of a tile, and parts of a split-K sum

    def dealt(self, units: int) -> float:
        """The number of tiles to distribute over `units` multiprocessors. If all blocks are resident at once, a block
        without a tile occupies a slot and counts; otherwise the next block takes its slot immediately."""
        return self.blocks if self.blocks <= units * self.at_once else self.tile_count
