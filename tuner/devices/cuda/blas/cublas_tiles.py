"""What cuBLAS would run for a product: it takes what cuBLASLt's heuristics name first, and these run nothing.

What they name tells the grid: `benchmarks/library_grids.py` compares it with what a profiler sees. Of two things cuBLAS
says nothing. CUTLASS's routines round the tiles along N up to a multiple of 2, 4 or 8, to swizzle them (CUTLASS's
`GemmIdentityThreadblockSwizzle<8>`): some blocks have no tile. And they begin the parts of sums at aligned elements.
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
from tuner.devices.product import MatrixProduct, Tiles
from tuner.space.dtypes import DTYPES

WORKSPACE = 32 << 20  # bytes that cuBLAS has by default on recent GPUs
FEW_ROWS = 16  # of a tile of a routine for vectors, which names none
MOST_SPLITS = 1 << 16  # no routine splits sums further: it means that it does not tell
MOST_ALGORITHMS = 1 << 16  # whose numbers are told apart from variants of one
CUTLASS = (20, 23, 24)  # the algorithms that are CUTLASS's
PERSISTENT = (66,)  # those with a block per multiprocessor, whose waves count neither splits nor batch
SWIZZLES = {5: 8, 2: 4, 1: 2, 0: 1}  # more tiles than this along N are rounded up to a multiple
VECTOR, LINE = 16, 128  # bytes: parts of a sum begin at multiples of one, or of the other where all rows do


class Told(NamedTuple):
    """What cuBLASLt says of a product: the number of its algorithm, the columns and rows of a tile, if it has any, the
    parts of a sum, how often all multiprocessors must be filled to run its blocks, and the algorithm's variant."""

    algorithm: int
    tile: tuple[int, int] | None
    splits: int
    waves: float
    variant: int = 0


def of(product: MatrixProduct, units: int) -> Tiles | None:
    """The tiles on a device of so many multiprocessors; None where nvmath-python or cuBLAS is not installed, or
    cuBLASLt has nothing for the product. A context must be current."""
    plan = told(product)
    return None if plan is None else tiles(product, plan, units)


def told(product: MatrixProduct) -> Told | None:
    """What cuBLASLt says of the algorithm that it names first; None as `of` gives it. A context must be current."""
    cublasLt = _bindings()
    if cublasLt is None or not gemm.has(*product.dtypes):
        return None
    try:
        return _asked(product, cublasLt)
    except (cublasLt.cuBLASLtError, RuntimeError, LookupError, ValueError):  # it has nothing, or errors of its own
        return None


@functools.cache
def _bindings() -> Any:
    """The module that calls cuBLASLt; None where it or cuBLAS is not there."""
    try:
        from nvmath.bindings import cublasLt
    except (ImportError, RuntimeError):
        return None
    return cublasLt


def tiles(product: MatrixProduct, plan: Told, units: int) -> Tiles:
    """How an algorithm cuts a product. Of one without tiles, blocks are counted as though each filled a
    multiprocessor."""
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
    """The parts of sums of this depth that are to be so many."""
    step = (VECTOR if depth * itemsize % LINE else LINE) // itemsize
    return splits if splits < 2 else math.ceil(depth / (math.ceil(depth / splits / step) * step))


def _asked(product: MatrixProduct, cublasLt: Any) -> Told | None:
    offer, found = np.zeros(1, cublasLt.matmul_heuristic_result_dtype), ctypes.c_int32()
    address = offer.ctypes.data
    handle, preference = _begun(driver.current_context() or 0)
    description = _described(product.B.is_transposed, product.A.is_transposed, product.dtypes[2])
    with _layouts(product, cublasLt) as (left, right, result):
        cublasLt.matmul_algo_get_heuristic(
            handle, description, left, right, result, result, preference, 1, address, ctypes.addressof(found)
        )
    if not found.value or offer["state"][0]:
        return None
    names, value, written = cublasLt.MatmulAlgoConfigAttribute, ctypes.c_uint32(), ctypes.c_size_t()

    def number(attribute: int) -> int:
        """What the algorithm says of itself."""
        cublasLt.matmul_algo_config_get_attribute(
            address, attribute, ctypes.addressof(value), ctypes.sizeof(value), ctypes.addressof(written)
        )
        return value.value

    tile, splits, algorithm = _tile(number(names.TILE_ID)), number(names.SPLITK_NUM), number(names.ID)
    splits = splits if 0 < splits < MOST_SPLITS else 1
    return Told(algorithm, tile, splits, float(offer["waves_count"][0]), number(names.CUSTOM_OPTION))


@functools.cache
def _tile(number: int) -> tuple[int, int] | None:
    """The columns and rows of a tile that goes by a number; None where the number stands for none."""
    lengths = _bindings().MatmulTile(number).name.removeprefix("TILE_").split("x")
    return (int(lengths[0]), int(lengths[1])) if len(lengths) == 2 else None


@functools.cache
def _begun(context: int) -> tuple[int, int]:
    """A handle in the current context, and a preference, which live as long as the process."""
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
def _described(left: bool, right: bool, result: str) -> int:
    """A product of operands that are transposed, or not, with a result of this type."""
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
            # The stride is told of a single matrix, too: cuBLASLt may choose by how it is aligned.
            gemm.set_attribute(
                cublasLt.matrix_layout_set_attribute, made[-1], names.BATCH_COUNT, ctypes.c_int32(product.batch)
            )
            stride = ctypes.c_int64(matrices.stride)
            gemm.set_attribute(cublasLt.matrix_layout_set_attribute, made[-1], names.STRIDED_BATCH_OFFSET, stride)
        yield made
    finally:
        for layout in made:
            cublasLt.matrix_layout_destroy(layout)
