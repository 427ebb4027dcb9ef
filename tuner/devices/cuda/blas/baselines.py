"""cuBLAS by its default algorithm, and the algorithms of cuBLASLt, as baselines for kernels on certain arrays."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

from tuner.devices.base import Buffer, Library, RoutineCall
from tuner.devices.cuda.blas import chosen_algorithm, cublas_tiles, gemm, products
from tuner.devices.cuda.blas.chosen_algorithm import MOST_OFFERED, WORKSPACE
from tuner.devices.cuda.blas.shared_library import shared_library
from tuner.devices.cuda.driver.context import Context
from tuner.devices.product import MatrixProduct
from tuner.errors import DeviceError, LaunchError, OutOfMemory
from tuner.space.routines import ROUTINES


def default(context: Context, call: RoutineCall) -> Library | None:
    """The routine by cuBLAS. None if an argument is missing, if cuBLAS does not
    support the routine or the dtypes, or if it is not installed. Raises OutOfMemory."""
    product = _product(call)
    if product is None or shared_library("cublas") is None:
        return None
    try:
        handle = products.handle_at(0, context)
    except OutOfMemory:
        raise
    except DeviceError:
        return None
    addresses, factors = _given(call)
    name = f"cuBLAS {products.version(handle)}"
    return _Call(name, products.by_default(product, addresses, handle, factors))


def algorithms(context: Context, call: RoutineCall, allocate: Callable[[int], Buffer]) -> list[Library]:
    """At most MOST_OFFERED algorithms, the most promising first. They share a workspace from `allocate`. Empty if
    `default` would be None, or if cuBLASLt has no algorithm for the product."""
    product = _product(call)
    described = None if product is None else chosen_algorithm.of(product, context)
    if described is None:
        return []
    addresses, factors = _given(call)
    offers = described.offers_at(addresses, MOST_OFFERED)
    if not offers:
        return []
    workspace, pointer = allocate(WORKSPACE), ctypes.c_void_p.from_param
    arrays = [*map(pointer, addresses), pointer(int(workspace.handle))]
    scales = [ctypes.byref(described.kind(factor)) for factor in factors]
    name, kept = f"{cublas_tiles.version()} (best of {MOST_OFFERED})", (described, workspace)
    return [_Call(name, described.bound(offer, arrays, pointer(0), scales), kept) for offer in offers]


class _Call:
    """A call of the library, which returns a status, as a baseline. `kept` owns what the call refers to."""

    def __init__(self, name: str, call: Callable[[], int], kept: object = None) -> None:
        self.name, self._call, self._kept = name, call, kept

    def __call__(self) -> None:
        if status := self._call():
            raise LaunchError(f"{self.name}: status {status}")


def _product(call: RoutineCall) -> MatrixProduct | None:
    """The product C = alpha * A B + beta * C of packed arrays. None if an argument is missing, or if cuBLAS does not
    support the product."""
    about = ROUTINES["gemm"]
    is_complete = call.arguments.keys() >= {*about.arrays, *about.sizes}
    if call.routine != "gemm" or not is_complete or "C" in call.transposed:
        return None
    values = {**about.defaults, **call.arguments}
    M, N, K, batch = (int(values[name]) for name in (*about.sizes, "batch"))
    a, b, c = (call.dtypes[name] for name in "ABC")
    product = MatrixProduct.packed((M, N, K, batch), (a, b, c), call.transposed)
    return product if gemm.has(a, b, c) and gemm.fits(product) else None


def _given(call: RoutineCall) -> tuple[list[int], list[float]]:
    """The addresses of C, A and B, and the factors alpha and beta."""
    values = {**ROUTINES["gemm"].defaults, **call.arguments}
    return [int(values[name]) for name in "CAB"], [float(values[name]) for name in ("alpha", "beta")]
