"""What cuBLAS would run for a product: it takes what cuBLASLt's heuristics name first, and these run nothing."""

from __future__ import annotations

import contextlib
import ctypes
import functools
from collections.abc import Iterator

import numpy as np

from tuner.devices.cuda import driver, gemm
from tuner.devices.product import MatrixProduct, Tiles

WORKSPACE = 32 << 20  # bytes that cuBLAS has by default on recent GPUs
VECTOR = 16, 256  # rows and columns that stand for the tile of a routine for vectors, which names none
MOST_SPLITS = 1 << 16  # no routine splits sums further: it means that it does not tell


def of(product: MatrixProduct) -> Tiles | None:
    """The tiles; None where nvmath-python or cuBLAS is not installed, or cuBLASLt has nothing for the product. A
    context must be current."""
    if not gemm.is_installed() or not gemm.has(*product.dtypes):
        return None
    try:
        from nvmath.bindings import cublasLt
    except (ImportError, RuntimeError):  # cuBLAS is not there
        return None
    try:
        return _asked(product)
    except (cublasLt.cuBLASLtError, RuntimeError, LookupError, ValueError):  # it has nothing, or errors of its own
        return None


def _asked(product: MatrixProduct) -> Tiles | None:
    from nvmath.bindings import cublasLt

    offer, found = np.zeros(1, cublasLt.matmul_heuristic_result_dtype), ctypes.c_int32()
    address = offer.ctypes.data
    handle, preference = _begun(driver.current_context() or 0)
    description = _described(product.B.is_transposed, product.A.is_transposed, product.dtypes[2])
    with _layouts(product) as (left, right, result):
        cublasLt.matmul_algo_get_heuristic(
            handle, description, left, right, result, result, preference, 1, address, ctypes.addressof(found)
        )
    if not found.value or offer["state"][0]:
        return None
    names = cublasLt.MatmulAlgoConfigAttribute
    tile = cublasLt.MatmulTile(_number(address, names.TILE_ID)).name.removeprefix("TILE_").split("x")
    columns, rows = map(int, tile) if len(tile) == 2 else reversed((min(product.M, VECTOR[0]), VECTOR[1]))
    splits = _number(address, names.SPLITK_NUM)
    splits = splits if 0 < splits < MOST_SPLITS else 1
    return Tiles.of(product, rows, columns, splits, float(offer["waves_count"][0]), _number(address, names.ID))


def _number(algorithm: int, attribute: int) -> int:
    """What the algorithm at an address says of itself."""
    from nvmath.bindings import cublasLt

    value, written = ctypes.c_uint32(), ctypes.c_size_t()
    cublasLt.matmul_algo_config_get_attribute(
        algorithm, attribute, ctypes.addressof(value), ctypes.sizeof(value), ctypes.addressof(written)
    )
    return value.value


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
def _layouts(product: MatrixProduct) -> Iterator[list[int]]:
    """The layouts of both operands and the result. cuBLAS is column-major: the row-major C = A B is its C' = B' A'."""
    from nvmath import CudaDataType
    from nvmath.bindings import cublasLt

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
