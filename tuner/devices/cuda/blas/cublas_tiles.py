"""Derives the tiling that cuBLAS would choose for a product from cuBLASLt's heuristic, without running anything.

cuBLAS runs the algorithm that cuBLASLt's heuristic ranks first, and that algorithm determines the grid, which
`benchmarks/library_grids.py` compares with a profiler. The heuristic does not report two details of CUTLASS's routines.
To swizzle tiles, they round the number of tiles along N up to a multiple of 2, 4 or 8, so that some blocks have no tile
(CUTLASS's `GemmIdentityThreadblockSwizzle<8>`). And with split-K, each part of a sum begins at an aligned element.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from tuner.devices.cuda import driver
from tuner.devices.cuda.blas import gemm
from tuner.devices.cuda.blas.cublas import version_text
from tuner.devices.product import MatrixProduct, Tiles
from tuner.space.dtypes import DTYPES

WORKSPACE = 32 << 20  # bytes of cuBLAS's default workspace on recent GPUs
FEW_ROWS = 16  # assumed rows of a tile of a matrix-vector routine, which reports no tile
MOST_SPLITS = 1 << 16  # no routine splits sums into more parts; a larger number means "unknown"
MOST_ALGORITHMS = 1 << 16  # exceeds all algorithm numbers, so that number + variant * this is unique
CUTLASS = (20, 23, 24)  # numbers of CUTLASS's algorithms
PERSISTENT = (66,)  # algorithms with one block per multiprocessor, whose waves ignore splits and batch
SWIZZLES = {5: 8, 2: 4, 1: 2, 0: 1}  # more tiles along N than the key are rounded up to a multiple of the value
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
    """The tiling on a device with `units` multiprocessors. None if nvmath-python or cuBLAS is not installed, or if
    cuBLASLt has no algorithm for the product. A context must be current."""
    plan = heuristic(product)
    return None if plan is None else tiles(product, plan, units)


def heuristic(product: MatrixProduct) -> Heuristic | None:
    """The algorithm that cuBLASLt's heuristic ranks first; None as for `of`. A context must be current."""
    cublasLt = _bindings()
    if cublasLt is None or not gemm.has(*product.dtypes):
        return None
    try:
        return _query(product, cublasLt)
    except (cublasLt.cuBLASLtError, RuntimeError, LookupError, ValueError):  # no algorithm, or an error of the bindings
        return None


def version() -> str:
    """The library with its version; empty if it is not installed."""
    cublasLt = _bindings()
    return "" if cublasLt is None else f"cuBLASLt {version_text(cublasLt.get_version())}"


@functools.cache
def _bindings() -> Any:
    """The Python bindings of cuBLASLt; None if they or cuBLAS are missing."""
    try:
        from nvmath.bindings import cublasLt
    except (ImportError, RuntimeError):
        return None
    return cublasLt


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


def _query(product: MatrixProduct, cublasLt: Any) -> Heuristic | None:
    offer, found = np.zeros(1, cublasLt.matmul_heuristic_result_dtype), ctypes.c_int32()
    address = offer.ctypes.data
    handle, preference = _handle_of(driver.current_context() or 0)
    description = _description(product.B.is_transposed, product.A.is_transposed, product.dtypes[2])
    with _layouts(product, cublasLt) as (left, right, result):
        cublasLt.matmul_algo_get_heuristic(
            handle, description, left, right, result, result, preference, 1, address, ctypes.addressof(found)
        )
    if not found.value or offer["state"][0]:
        return None
    names, value, written = cublasLt.MatmulAlgoConfigAttribute, ctypes.c_uint32(), ctypes.c_size_t()

    def number(attribute: int) -> int:
        """The value of an attribute of the algorithm."""
        cublasLt.matmul_algo_config_get_attribute(
            address, attribute, ctypes.addressof(value), ctypes.sizeof(value), ctypes.addressof(written)
        )
        return value.value

    tile, splits, algorithm = _tile(number(names.TILE_ID)), number(names.SPLITK_NUM), number(names.ID)
    splits = splits if 0 < splits < MOST_SPLITS else 1
    return Heuristic(algorithm, tile, splits, float(offer["waves_count"][0]), number(names.CUSTOM_OPTION))


@functools.cache
def _tile(number: int) -> tuple[int, int] | None:
    """The columns and rows of the tile with this id in cuBLASLt; None if the id stands for no tile."""
    lengths = _bindings().MatmulTile(number).name.removeprefix("TILE_").split("x")
    return (int(lengths[0]), int(lengths[1])) if len(lengths) == 2 else None


@functools.cache
def _handle_of(context: int) -> tuple[int, int]:
    """A cuBLASLt handle and a preference for the current context. They live as long as the process."""
    from nvmath.bindings import cublasLt

    preference, most = cublasLt.matmul_preference_create(), ctypes.c_uint64(WORKSPACE)
    gemm.set_attribute(
        cublasLt.matmul_preference_set_attribute,
        preference,
        cublasLt.MatmulPreferenceAttribute.MAX_WORKSPACE_BYTES,
        most,
    )
    return cublasLt.create(), preference


@functools.cache
def _description(left: bool, right: bool, result: str) -> int:
    """The descriptor of a product: whether the left and the right operand are transposed, and the result's dtype."""
    from nvmath import CudaDataType
    from nvmath.bindings import cublas, cublasLt

    is_double = result == "float64"
    kind = cublas.ComputeType.COMPUTE_64F if is_double else cublas.ComputeType.COMPUTE_32F
    made = cublasLt.matmul_desc_create(kind, CudaDataType.CUDA_R_64F if is_double else CudaDataType.CUDA_R_32F)
    names = cublasLt.MatmulDescAttribute
    for name, is_transposed in ((names.TRANSA, left), (names.TRANSB, right)):
        gemm.set_attribute(cublasLt.matmul_desc_set_attribute, made, name, ctypes.c_int32(is_transposed))
    return int(made)


@contextlib.contextmanager
def _layouts(product: MatrixProduct, cublasLt: Any) -> Iterator[list[int]]:
    """The layouts of both operands and the result. cuBLAS is column-major: the row-major C = A B is its C' = B' A'."""
    from nvmath import CudaDataType

    a, b, c = (CudaDataType[gemm.TYPES[dtype]] for dtype in product.dtypes)
    names, made = cublasLt.MatrixLayoutAttribute, list[int]()
    try:
        for kind, rows, columns, matrices in (
            (b, product.N, product.K, product.B),
            (a, product.K, product.M, product.A),
            (c, product.N, product.M, product.C),
        ):
            extents = (columns, rows) if matrices.is_transposed else (rows, columns)
            made.append(cublasLt.matrix_layout_create(kind, *extents, matrices.leading))
            # The stride is set for a single matrix, too: cuBLASLt's choice may depend on its alignment.
            gemm.set_attribute(
                cublasLt.matrix_layout_set_attribute, made[-1], names.BATCH_COUNT, ctypes.c_int32(product.batch)
            )
            stride = ctypes.c_int64(matrices.stride)
            gemm.set_attribute(cublasLt.matrix_layout_set_attribute, made[-1], names.STRIDED_BATCH_OFFSET, stride)
        yield made
    finally:
        for layout in made:
            cublasLt.matrix_layout_destroy(layout)
