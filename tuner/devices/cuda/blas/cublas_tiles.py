"""Derives the tiling that cuBLAS would choose for a product from cuBLASLt's heuristic, without running anything.

cuBLAS runs the algorithm that cuBLASLt's heuristic ranks first, and that algorithm determines the grid, which
`benchmarks/library_grids.py` compares with a profiler. The heuristic does not report two details of CUTLASS's routines.
To swizzle tiles, they round the number of tiles along N up to a multiple of 2, 4 or 8, so that some blocks have no tile
(CUTLASS's `GemmIdentityThreadblockSwizzle<8>`). And with split-K, each part of a sum begins at an aligned element.
"""

from __future__ import annotations

import ctypes
import functools
import math
from typing import Any, NamedTuple

from tuner.devices.cuda.blas import gemm
from tuner.devices.cuda.blas.chosen_algorithm import Described, handle_of
from tuner.devices.cuda.blas.shared_library import shared_library, version_text
from tuner.devices.cuda.driver.context import current_context
from tuner.devices.product import MatrixProduct, Tiles
from tuner.space.dtypes import DTYPES

FEW_ROWS = 16  # assumed rows of a tile of a matrix-vector routine, which reports no tile
MOST_SPLITS = 1 << 16  # no routine splits sums into more parts; a larger number means "unknown"
MOST_ALGORITHMS = 1 << 16  # exceeds all algorithm numbers, so that number + variant * this is unique
CUTLASS = (20, 23, 24)  # numbers of CUTLASS's algorithms
PERSISTENT = (66,)  # algorithms with one block per multiprocessor, whose waves ignore splits and batch
SWIZZLES = {5: 8, 2: 4, 1: 2, 0: 1}  # more tiles along N than the key are rounded up to a multiple of the value
_ID, _TILE, _SPLITS, _VARIANT = 0, 1, 2, 5  # of cublasLtMatmulAlgoConfigAttributes_t
_FIRST_TILES = (  # those of cublasLtMatmulTile_t that follow no rule; the others are in `_tiles`
    (8, 8), (8, 16), (16, 8), (8, 32), (16, 16), (32, 8), (8, 64), (16, 32), (32, 16), (64, 8), (32, 32), (32, 64),
    (64, 32), (32, 128), (64, 64), (128, 32), (64, 128), (128, 64), (64, 256), (128, 128), (256, 64), (64, 512),
    (128, 256), (256, 128), (512, 64), (64, 96), (96, 64), (96, 128), (128, 160), (160, 128), (192, 128), (128, 192),
    (128, 96), (32, 256), (256, 32),
)  # fmt: skip
_LAST_TILES = (256, 512), (256, 1024), (512, 512), (512, 1024)
_LONGEST = 768
VECTOR, LINE = 16, 128  # bytes: parts of a sum begin at multiples of LINE if all rows do, else of VECTOR


class Heuristic(NamedTuple):
    """The algorithm that cuBLASLt's heuristic ranks first for a product.

    `tile` is (columns, rows), None if the algorithm has no tiles. `splits` is the number of parts of a split-K sum,
    `waves` the number of waves of blocks, a fraction.
    """

    algorithm: int
    tile: tuple[int, int] | None
    splits: int
    waves: float
    variant: int = 0


def of(product: MatrixProduct, units: int) -> Tiles | None:
    """The tiling on a device with `units` multiprocessors. None if cuBLAS is not installed, or if cuBLASLt has no
    algorithm for the product. A context must be current."""
    plan = heuristic(product)
    return None if plan is None else tiles(product, plan, units)


def heuristic(product: MatrixProduct) -> Heuristic | None:
    """The algorithm that cuBLASLt's heuristic ranks first; None as for `of`. A context must be current."""
    handle = handle_of(current_context() or 0) if gemm.has(*product.dtypes) else None
    try:
        return None if handle is None else _asked(Described(product, handle))
    except (LookupError, ValueError):  # cuBLASLt cannot describe it, or names a tile that is not known here
        return None


def version() -> str:
    """The library with its version; empty if it is not installed."""
    cublas_lt: Any = shared_library("cublasLt")
    if cublas_lt is None:
        return ""
    cublas_lt.cublasLtGetVersion.restype = ctypes.c_size_t
    return f"cuBLASLt {version_text(cublas_lt.cublasLtGetVersion())}"


def tiles(product: MatrixProduct, plan: Heuristic, units: int) -> Tiles:
    """The tiling of a product by an algorithm. For an algorithm without tiles, each block counts as a tile and is
    assumed to fill a multiprocessor."""
    M, N, K, batch, (algorithm, tile, splits, waves, variant) = product.M, product.N, product.K, product.batch, plan
    if tile is None:  # variants have blocks of other shapes
        algorithm += MOST_ALGORITHMS * variant
        blocks, rows = max(1, math.ceil(waves * units)), min(M, FEW_ROWS)
        return Tiles(blocks, blocks, blocks, 1.0, algorithm, (rows, M * N * batch * splits / blocks / rows, splits))
    columns, rows = tile
    launched = along_n = math.ceil(N / columns)
    along_m, at_once = math.ceil(M / rows), 1.0
    if waves > 0 and algorithm not in PERSISTENT:
        at_once = max(1.0, along_m * along_n * splits * batch / (waves * units))
    if algorithm in CUTLASS:
        swizzle = next(multiple for most, multiple in SWIZZLES.items() if along_n > most)
        launched = math.ceil(along_n / swizzle) * swizzle
        splits = _parts(K, splits, DTYPES[product.dtypes[0]].itemsize)
    each = along_m * splits * batch
    whole = M / rows * N / columns * splits * batch
    return Tiles(along_n * each, whole, launched * each, at_once, algorithm, (rows, columns, splits))


def _parts(depth: int, splits: int, itemsize: int) -> int:
    """The number of parts of a split-K sum over `depth` elements, if each of `splits` parts is rounded up to an
    aligned length."""
    step = (VECTOR if depth * itemsize % LINE else LINE) // itemsize
    return splits if splits < 2 else math.ceil(depth / (math.ceil(depth / splits / step) * step))


def _asked(product: Described) -> Heuristic | None:
    """The algorithm that is named first. Raises LookupError if its tile is unknown, ValueError as `number` does."""
    if (offer := product.asked()) is None:
        return None
    algorithm, tile, splits, variant = (product.number(offer, each) for each in (_ID, _TILE, _SPLITS, _VARIANT))
    splits = splits if 0 < splits < MOST_SPLITS else 1
    return Heuristic(algorithm, _tiles()[tile - 1] if tile else None, splits, offer.waves, variant)


@functools.cache
def _tiles() -> list[tuple[int, int]]:
    """The columns and rows of the tiles of cublasLtMatmulTile_t, from 1 on; 0 stands for no tile."""
    made = dict.fromkeys(_FIRST_TILES)
    for step, step_of_rows, most in ((8, 64, 49152), (64, 8, 65536)):
        for columns in range(step, _LONGEST + 1, step):
            for rows in range(step_of_rows, min(_LONGEST, most // columns) + 1, step_of_rows):
                made[columns, rows] = None
    return [*made, *_LAST_TILES]
