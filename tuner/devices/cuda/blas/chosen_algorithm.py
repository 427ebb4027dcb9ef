"""Products by the algorithm that cuBLASLt expects to be fastest, chosen once, by ctypes.

cuBLAS chooses an algorithm at each call, which takes 2 us of the host's time. It takes the one that cuBLASLt names
first for the same workspace: on an H200, the times of both were within 1.5 % at 162 of 163 sizes.
"""

from __future__ import annotations

import ctypes
import functools
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any

from tuner.devices.cuda.blas import gemm
from tuner.devices.cuda.blas.gemm import SUMMED_32F, SUMMED_64F, TYPES
from tuner.devices.cuda.blas.shared_library import shared_library
from tuner.devices.cuda.driver.context import Context
from tuner.devices.product import Matrices, MatrixProduct

WORKSPACE = 32 << 20  # bytes, as cuBLAS has on an H100 and an H200
MOST_OFFERED = 32  # algorithms, of which a configuration of `compiler: cublaslt` names one by its number
ALIGNED = 256  # bytes; no algorithm requires a higher alignment
_TRANSPOSED = 1  # cublasOperation_t
_TRANSPOSE_LEFT, _TRANSPOSE_RIGHT = 3, 4  # cublasLtMatmulDescAttributes_t
_BATCH, _STRIDE = 5, 6  # cublasLtMatrixLayoutAttribute_t
_WORKSPACE_BYTES, _SCHEMES, _ALIGNMENTS = 1, 3, (5, 6, 7, 8)  # cublasLtMatmulPreferenceAttributes_t


class Offer(ctypes.Structure):
    """cublasLtMatmulHeuristicResult_t, which begins with the algorithm."""

    _fields_ = (
        ("algorithm", ctypes.c_uint64 * 8),
        ("workspace", ctypes.c_size_t),
        ("state", ctypes.c_int),
        ("waves", ctypes.c_float),
        ("reserved", ctypes.c_int * 4),
    )


@functools.cache
def handle_of(context: int) -> ctypes.c_void_p | None:
    """The handle of the current context, with this number, which lives as long as the process; None if there is none,
    or if cuBLASLt is not installed. Threads share it."""
    cublas_lt, handle = shared_library("cublasLt"), ctypes.c_void_p()
    if cublas_lt is None or cublas_lt.cublasLtCreate(ctypes.byref(handle)):
        return None
    return handle


class _Made:
    """What cuBLASLt makes, and destroys when this object dies: a description, a layout or a preference."""

    def __init__(self, cublas_lt: Any, what: str, *about: Any) -> None:
        """Raises ValueError if cuBLASLt does not make it."""
        self._lt, self._what, self.handle = cublas_lt, what, ctypes.c_void_p()
        if getattr(cublas_lt, f"cublasLt{what}Create")(ctypes.byref(self.handle), *about):
            raise ValueError(f"cuBLASLt makes no {what} of {about}")

    def set(self, attribute: int, value: Any) -> None:
        """Set an attribute. Raises ValueError if cuBLASLt does not take the value."""
        change = getattr(self._lt, f"cublasLt{self._what}SetAttribute")
        if change(self.handle, attribute, ctypes.byref(value), ctypes.c_size_t(ctypes.sizeof(value))):
            raise ValueError(f"cuBLASLt does not take {value} as attribute {attribute} of a {self._what}")

    def __del__(self, is_exiting: Callable[[], bool] = sys.is_finalizing) -> None:
        if self.handle and not is_exiting():  # at exit, the library may already be gone
            getattr(self._lt, f"cublasLt{self._what}Destroy")(self.handle)


@functools.cache
def _description(cublas_lt: Any, is_double: bool, left: bool, right: bool) -> _Made:
    """Products in float64 or float32, whose operands are transposed or not. All of a kind share one."""
    sums, scale = (SUMMED_64F, TYPES["float64"]) if is_double else (SUMMED_32F, TYPES["float32"])
    made = _Made(cublas_lt, "MatmulDesc", ctypes.c_int(sums), ctypes.c_int(scale))
    for attribute, is_transposed in ((_TRANSPOSE_LEFT, left), (_TRANSPOSE_RIGHT, right)):
        if is_transposed:
            made.set(attribute, ctypes.c_int32(_TRANSPOSED))
    return made


def _preference(cublas_lt: Any, c: str) -> _Made:
    """What algorithms may use for results of this dtype."""
    made = _Made(cublas_lt, "MatmulPreference")
    made.set(_WORKSPACE_BYTES, ctypes.c_uint64(WORKSPACE))
    made.set(_SCHEMES, ctypes.c_uint32(gemm.schemes(c)))
    return made


_shared_preference = functools.cache(_preference)


class Described:
    """A product as cuBLASLt describes it."""

    def __init__(self, product: MatrixProduct, handle: ctypes.c_void_p) -> None:
        """Raises ValueError if cuBLASLt cannot describe the product."""
        self._lt: Any = shared_library("cublasLt")
        self._handle, is_double = handle, product.dtypes[2] == "float64"
        self.kind: Any = ctypes.c_double if is_double else ctypes.c_float
        # cuBLASLt is column-major: the row-major C = A B is its C' = B' A'.
        self._description = _description(self._lt, is_double, product.B.is_transposed, product.A.is_transposed)
        a, b, c = (TYPES[dtype] for dtype in product.dtypes)
        M, N, K, batch = product.M, product.N, product.K, product.batch
        self._layouts = (
            self._layout(b, N, K, product.B, batch),
            self._layout(a, K, M, product.A, batch),
            self._layout(c, N, M, product.C, batch),
        )
        self._preference = _shared_preference(self._lt, product.dtypes[2])

    def asked(self) -> Offer | None:
        """The algorithm that is named first, by what is preferred; None if there is none."""
        return next(iter(self.offers(1)), None)

    def offers(self, most: int) -> list[Offer]:
        """At most so many algorithms that can run, in the order in which they are named."""
        offers, count = (Offer * most)(), ctypes.c_int()
        left, right, result = (layout.handle for layout in self._layouts)
        status = self._lt.cublasLtMatmulAlgoGetHeuristic(
            self._handle, self._description.handle, left, right, result, result, self._preference.handle, most, offers,
            ctypes.byref(count),
        )  # fmt: skip
        return [] if status else [offer for offer in offers[: count.value] if not offer.state]

    def bound(self, offer: Offer, arrays: Sequence[Any], stream: Any, factors: Sequence[Any]) -> Callable[[], int]:
        """The call that runs an algorithm, which returns a status. `arrays` are the addresses of C, A, B and of a
        workspace of WORKSPACE bytes, and `factors` those of alpha and beta, all as ctypes passes them."""
        pointer, nbytes = ctypes.c_void_p.from_param, WORKSPACE if offer.workspace else 0
        c, a, b, workspace = arrays
        alpha, beta = factors
        left, right, result = map(pointer, (layout.handle.value for layout in self._layouts))
        return functools.partial(
            self._lt.cublasLtMatmul, pointer(self._handle.value), pointer(self._description.handle.value), alpha, b,
            left, a, right, beta, c, result, c, result, ctypes.byref(offer), workspace,
            ctypes.c_size_t.from_param(nbytes), stream,
        )  # fmt: skip

    def number(self, offer: Offer, attribute: int) -> int:
        """An attribute of an algorithm, of cublasLtMatmulAlgoConfigAttributes_t. Raises ValueError if it has none."""
        value, written = ctypes.c_uint32(), ctypes.c_size_t()
        size = ctypes.c_size_t(ctypes.sizeof(value))
        read = self._lt.cublasLtMatmulAlgoConfigGetAttribute
        if read(ctypes.byref(offer), attribute, ctypes.byref(value), size, ctypes.byref(written)):
            raise ValueError(f"an algorithm of cuBLASLt has no attribute {attribute}")
        return value.value

    def _layout(self, kind: int, rows: int, columns: int, matrices: Matrices, batch: int) -> _Made:
        extents = (columns, rows) if matrices.is_transposed else (rows, columns)
        numbers = (*map(ctypes.c_uint64, extents), ctypes.c_int64(matrices.leading))
        layout = _Made(self._lt, "MatrixLayout", ctypes.c_int(kind), *numbers)
        # The stride is set for a single matrix, too: the choice may depend on its alignment.
        layout.set(_BATCH, ctypes.c_int32(batch))
        layout.set(_STRIDE, ctypes.c_int64(matrices.stride))
        return layout


class ChosenAlgorithm(Described):
    """A product whose algorithm is chosen, once for each alignment of its addresses: the one that is named first, or
    the one with a number, for which all addresses must be multiples of ALIGNED."""

    def __init__(self, product: MatrixProduct, handle: ctypes.c_void_p, number: int = 0) -> None:
        """Raises ValueError if cuBLASLt cannot describe the product."""
        super().__init__(product, handle)
        self._preference, self._number = _preference(self._lt, product.dtypes[2]), number
        self._offers: dict[tuple[int, ...], Offer | None] = {}
        self._asking = threading.Lock()  # the preference is of one question at a time

    def call(
        self, addresses: Sequence[int], stream: int, factors: Sequence[float], workspace: Callable[[], int]
    ) -> Callable[[], int] | None:
        """The call for C, A and B at these addresses, which returns a status; None if there is no algorithm.

        `workspace` returns the address of WORKSPACE bytes for this stream, and is called if the algorithm needs any.
        """
        offer = self._offer(_alignments(addresses))
        if offer is None:
            return None
        pointer = ctypes.c_void_p.from_param
        arrays = [*map(pointer, addresses), pointer(workspace() if offer.workspace else None)]
        return self.bound(offer, arrays, pointer(stream), [ctypes.byref(self.kind(factor)) for factor in factors])

    def offers_at(self, addresses: Sequence[int], most: int) -> list[Offer]:
        """At most so many algorithms for C, A and B at these addresses."""
        with self._asking:
            return self._offers_of(_alignments(addresses), most)

    def _offer(self, alignments: tuple[int, ...]) -> Offer | None:
        """The algorithm for addresses with these alignments in bytes."""
        with self._asking:
            if alignments not in self._offers:
                number = self._number if min(alignments) == ALIGNED else 0
                offers = self._offers_of(alignments, MOST_OFFERED if number else 1)
                self._offers[alignments] = next(iter([*offers[number:], *offers]), None)
            return self._offers[alignments]

    def _offers_of(self, alignments: tuple[int, ...], most: int) -> list[Offer]:
        for attribute, alignment in zip(_ALIGNMENTS, alignments, strict=True):
            self._preference.set(attribute, ctypes.c_uint32(alignment))
        return self.offers(most)


def _alignments(addresses: Sequence[int]) -> tuple[int, ...]:
    """The alignments in bytes of C, A and B at these addresses, in the order of _ALIGNMENTS."""
    at_c, at_a, at_b = addresses
    return tuple(min(ALIGNED, address & -address) for address in (at_b, at_a, at_c, at_c))


def of(product: MatrixProduct, context: Context, number: int = 0) -> ChosenAlgorithm | None:
    """The product in this context, by the algorithm with this number; None if cuBLASLt cannot describe it, or is not
    installed."""
    with context.apart_from_capture(), context.active():
        handle = handle_of(context.handle.value or 0)
    try:
        return None if handle is None else ChosenAlgorithm(product, handle, number)
    except ValueError:
        return None
