"""Algorithms of cuBLASLt as programs of a device, launched as kernels are (see `algorithm_compiler`)."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence

from tuner.devices.cuda.blas.algorithm_compiler import ARRAYS, PARAMETERS, Algorithm
from tuner.devices.cuda.blas.chosen_algorithm import MOST_OFFERED, Described, Offer, handle_of
from tuner.devices.cuda.driver.context import Context, current_context
from tuner.devices.product import MatrixProduct
from tuner.errors import LaunchError
from tuner.space.step import Geometry

_Sizes = tuple[int, int, int, int]  # M, N, K, batch


class AlgorithmProgram:
    """An algorithm in a context. It stands in the place of a module, and of its kernel."""

    programmatic = False

    def __init__(self, context: Context, binary: bytes) -> None:
        self._context, self._algorithm = context, Algorithm.read(binary)
        self._calls: dict[_Sizes, tuple[Described, Offer]] = {}

    def function(self, entry: str, kernel: str, geometry: Geometry) -> AlgorithmProgram:
        """The algorithm itself."""
        return self

    def symbol(self, name: str) -> tuple[int, int] | None:
        """There are no global variables."""
        return None

    def routine(self, cells: Sequence[int], stream: ctypes.c_void_p) -> Callable[[], int]:
        """A call that enqueues the product on this stream and returns a status. `cells` are the addresses of the cells
        with the arguments. Raises LaunchError if cuBLASLt does not offer the algorithm for the product."""
        if len(cells) != len(PARAMETERS):
            raise LaunchError(f"an algorithm of cuBLASLt has the arguments {', '.join(PARAMETERS)}")
        arrays = [ctypes.c_void_p.from_address(cell) for cell in cells[: len(ARRAYS) + 1]]
        sizes = [ctypes.c_int32.from_address(cell) for cell in cells[len(ARRAYS) + 1 : -2]]
        factors = [ctypes.c_void_p(cell) for cell in cells[-2:]]
        M, N, K, batch = (size.value for size in sizes)
        described, offer = self._offered((M, N, K, batch))
        enqueue = described.bound(offer, arrays, stream, factors)

        def call() -> int:
            if current_context() == self._context.handle.value:
                status = enqueue()
            else:
                with self._context.active(stay=self._context.number == 0):
                    status = enqueue()
            if status:
                raise LaunchError(f"launching cuBLASLt: status {status}")
            return 0

        return call

    def _offered(self, sizes: _Sizes) -> tuple[Described, Offer]:
        if sizes not in self._calls:
            product = MatrixProduct.packed(sizes, self._algorithm.dtypes, self._algorithm.transposed)
            with self._context.apart_from_capture(), self._context.active():
                self._calls[sizes] = self._asked(product)
        return self._calls[sizes]

    def _asked(self, product: MatrixProduct) -> tuple[Described, Offer]:
        handle = handle_of(self._context.handle.value or 0)
        if handle is None:
            raise LaunchError("cuBLASLt is not installed, or has no memory")
        try:
            described = Described(product, handle)
        except ValueError as error:
            raise LaunchError(str(error)) from None
        offers = described.offers(MOST_OFFERED)
        if self._algorithm.number >= len(offers):
            raise LaunchError(
                f"cuBLASLt offers {len(offers)} algorithms for this product, so none has the number "
                f"{self._algorithm.number}",
                "no such algorithm",
            )
        return described, offers[self._algorithm.number]
