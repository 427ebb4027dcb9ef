"""Launches cuBLAS on the caller's arrays by ctypes, since Python bindings take longer than the driver's launch."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import threading
from collections.abc import Callable, Sequence
from typing import Any

from tuner.devices import forking
from tuner.devices.arguments import ArraySpec, address_check
from tuner.devices.cuda.arrays import Readers, stream_handle
from tuner.devices.cuda.blas import chosen_algorithm, gemm
from tuner.devices.cuda.blas.chosen_algorithm import WORKSPACE, ChosenAlgorithm
from tuner.devices.cuda.blas.gemm import SUMMED_32F, SUMMED_64F, TYPES
from tuner.devices.cuda.blas.repeated_calls import MOST_NODES, RepeatedCall, launch_of
from tuner.devices.cuda.blas.shared_library import shared_library, version_text
from tuner.devices.cuda.driver.context import Context, context_reader
from tuner.devices.cuda.driver.resources import Stream
from tuner.devices.product import Matrices, MatrixProduct, ProductLaunch
from tuner.errors import DeviceError, LaunchError, OutOfMemory

_KIND = "cuda"
_DEFAULT = -1  # cublasGemmAlgo_t
_ALLOC_FAILED = 3  # cublasStatus_t
# Operations from which on cuBLAS chooses at each call: nobody waits for its 2 us of the host any more, and its choice
# may be better. At 5582^3 in float32, an H200 took 12 % longer with the algorithm that cuBLASLt names first.
_LONG = 1 << 36
_PLAIN, _TRANSPOSED = 0, 1  # cublasOperation_t
_SUMS_AS_COMPUTED = 16  # CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION: no split sum is added up in 16 bits
PER_THREAD = 2  # CU_STREAM_PER_THREAD: stands for a different stream in each thread
MOST_KEPT = 256  # prepared calls per thread: sets of addresses with a stream and factors


def launch(
    product: MatrixProduct,
    specs: Sequence[ArraySpec],
    readers: Readers,
    context: Context,
    algorithm_number: int | None = None,
) -> ProductLaunch | None:
    """What enqueues `product` in `context` on arrays that meet `specs` and that `readers` read, by the algorithm with
    this number among those that cuBLASLt offers, or by one that the library chooses. It accumulates in float32, or in
    float64 for doubles. None if cuBLAS does not support these dtypes and sizes, or is not
    installed."""
    if not gemm.has(*product.dtypes) or not gemm.fits(product) or shared_library("cublas") is None:
        return None
    is_long = 2 * product.M * product.N * product.K * product.batch >= _LONG
    is_chosen_later = is_long and algorithm_number is None
    algorithm = None if is_chosen_later else chosen_algorithm.of(product, context, algorithm_number or 0)
    handles = _handles(context.handle.value or 0)
    if algorithm is None:
        try:
            handles.at(0, context)
        except DeviceError:
            return None
    return _call(product, algorithm, address_check(specs), readers, context, handles)


def _call(
    product: MatrixProduct,
    algorithm: ChosenAlgorithm | None,
    check: Callable[[Sequence[int]], None],
    readers: Readers,
    context: Context,
    handles: _PerStream,
) -> ProductLaunch:
    threads, live, number = _Prepared(), forking.live(_KIND), context.handle.value
    workspaces = _workspaces(number or 0)

    def prepare(key: tuple[Any, ...]) -> Callable[[], int]:
        """The call for these addresses, stream and factors in this thread, whose arguments are checked once."""
        *addresses, stream, alpha, beta = key
        check(addresses)
        if len(threads.calls) >= MOST_KEPT:
            threads.calls.clear()
        prepared: Callable[[], int] | None = None
        if algorithm is not None:
            with contextlib.suppress(LaunchError):  # there is no memory for a workspace
                workspace = functools.partial(workspaces.at, stream, context)
                on_stream = functools.partial(algorithm.call, addresses, factors=(alpha, beta), workspace=workspace)
                if (call := on_stream(stream)) is not None:
                    # If a part of a chain failed, the library would do all of it again, and add `beta * C` twice.
                    captured = functools.partial(_captured, on_stream, stream, context, 1 if beta else MOST_NODES)
                    replace = functools.partial(threads.calls.__setitem__, key)
                    prepared = RepeatedCall(call, captured, replace)
        if prepared is None:
            prepared = by_default(product, addresses, handles.at(stream, context), (alpha, beta))
        threads.calls[key] = prepared
        return prepared

    def on_arrays(arrays: Sequence[Any], stream: Any, alpha: float, beta: float) -> None:
        if not live:
            raise forking.forked(_KIND)
        first = arrays[0]
        read, current = readers[first.__class__]
        key = (*read(arrays), current(first) if stream is None else stream_handle(stream), alpha, beta)
        enqueue = threads.calls.get(key) or prepare(key)
        # As `at`, of which a call takes 0.1 us.
        status = enqueue() if threads.current_context() == number else elsewhere(enqueue)
        if status:
            raise LaunchError(f"launching cuBLAS: status {status}")

    def at(key: tuple[Any, ...]) -> None:
        if not live:
            raise forking.forked(_KIND)
        enqueue = threads.calls.get(key) or prepare(key)
        status = enqueue() if threads.current_context() == number else elsewhere(enqueue)
        if status:
            raise LaunchError(f"launching cuBLAS: status {status}")

    def elsewhere(enqueue: Callable[[], int]) -> int:
        """The status of a call in a thread that has another current context, or none."""
        with context.active(stay=True):
            return enqueue()

    return ProductLaunch(on_arrays, at)


def _captured(
    on_stream: Callable[[int], Callable[[], int] | None], stream: int, context: Context, most: int
) -> Callable[[], int] | None:
    """The kernels and memsets of a call on `stream`, without the library; None if they are more than `most`, or no
    chain. `on_stream` returns the call on any stream, with the workspace of `stream`."""
    with contextlib.suppress(LaunchError):
        apart = _APART.at(context)
        call = on_stream(apart.handle.value or 0)
        return None if call is None else launch_of(context, apart, call, stream, most)
    return None


def by_default(
    product: MatrixProduct, addresses: Sequence[int], handle: int, factors: Sequence[float]
) -> Callable[[], int]:
    """The call for C, A and B at these addresses, for which cuBLAS chooses an algorithm each time."""
    cublas: Any = shared_library("cublas")
    # Arguments in ctypes' own form, which it passes on as they are. Objects such as c_int(1) take 0.4 us more in all.
    pointer, integer, stride = ctypes.c_void_p.from_param, ctypes.c_int.from_param, ctypes.c_longlong.from_param
    kind: Any = ctypes.c_double if product.dtypes[2] == "float64" else ctypes.c_float
    has_batch = product.batch > 1

    def matrix(address: int, dtype: str, matrices: Matrices) -> list[Any]:
        strides = [stride(matrices.stride)] if has_batch else []
        return [pointer(address), integer(TYPES[dtype]), integer(matrices.leading), *strides]

    at_c, at_a, at_b = addresses
    of_a, of_b, of_c = product.dtypes
    alpha, beta = (ctypes.byref(kind(factor)) for factor in factors)
    # cuBLAS is column-major: the row-major C = A B is its C' = B' A'.
    sizes = _operation(product.B), _operation(product.A), product.N, product.M, product.K
    count = [integer(product.batch)] if has_batch else []
    sums = SUMMED_64F if kind is ctypes.c_double else SUMMED_32F
    return functools.partial(
        cublas.cublasGemmStridedBatchedEx if has_batch else cublas.cublasGemmEx,
        pointer(handle), *map(integer, sizes), alpha, *matrix(at_b, of_b, product.B), *matrix(at_a, of_a, product.A),
        beta, *matrix(at_c, of_c, product.C), *count, integer(sums), integer(_DEFAULT),
    )  # fmt: skip


class _Prepared(threading.local):
    """The prepared calls of one thread, and its own way to ask for its current context."""

    def __init__(self) -> None:
        self.calls: dict[tuple[Any, ...], Callable[[], int]] = {}
        self.current_context = context_reader()


class _Apart(threading.local):
    """A stream of each context for captures, by thread."""

    def __init__(self) -> None:
        self._streams: dict[int, Stream] = {}

    def at(self, context: Context) -> Stream:
        """This thread's stream of a context. Raises LaunchError."""
        number = context.handle.value or 0
        if number not in self._streams:
            with context.apart_from_capture():
                self._streams[number] = Stream(context)
        return self._streams[number]


_APART = _Apart()


def _operation(matrices: Matrices) -> int:
    return _TRANSPOSED if matrices.is_transposed else _PLAIN


class _Kept(dict[int, int]):
    """What one thread uses, by stream. When the thread ends, it moves to `free`, for the next thread that uses its
    streams: it holds device memory, and to free it would synchronise with the device."""

    def __init__(self, free: dict[int, list[int]]) -> None:
        super().__init__()
        self.free = free

    def __del__(self) -> None:
        for stream, each in self.items():
            if stream != PER_THREAD:
                self.free.setdefault(stream, []).append(each)


class _PerStream(threading.local):
    """cuBLAS handles or workspaces in one context, by thread and stream: two streams must not use a workspace at once.
    They live as long as the process."""

    def __init__(self, make: Callable[[int, Context], int], free: dict[int, list[int]]) -> None:
        self._make, self._kept = make, _Kept(free)

    def at(self, stream: int, context: Context) -> int:
        """This thread's one for a stream. Raises as `make` does."""
        found = self._kept.get(stream)
        if found is None:
            try:
                found = self._kept.free[stream].pop()
            except LookupError:
                found = self._make(stream, context)
            self._kept[stream] = found
        return found


def _new_handle(stream: int, context: Context) -> int:
    """A cuBLAS handle. Raises DeviceError if cuBLAS cannot create one: OutOfMemory if it has too little memory."""
    cublas: Any = shared_library("cublas")
    handle = ctypes.c_void_p()
    with context.apart_from_capture(), context.active():
        status = cublas.cublasCreate_v2(ctypes.byref(handle))
        status = status or cublas.cublasSetStream_v2(handle, ctypes.c_void_p(stream))
        status = status or cublas.cublasSetMathMode(handle, ctypes.c_int(_SUMS_AS_COMPUTED))
    if status:
        kind = OutOfMemory if status == _ALLOC_FAILED else DeviceError
        raise kind(
            f"cuda:{context.number}: cuBLAS creates no handle (status {status}); end other programs on the device, or "
            "try a smaller size"
        )
    return handle.value or 0


def handle_at(stream: int, context: Context) -> int:
    """This thread's cuBLAS handle for a stream. Raises as `_new_handle` does."""
    return _handles(context.handle.value or 0).at(stream, context)


def version(handle: int) -> str:
    """The version of cuBLAS, such as `13.1.0`."""
    cublas: Any = shared_library("cublas")
    number = ctypes.c_int()
    cublas.cublasGetVersion_v2(ctypes.c_void_p(handle), ctypes.byref(number))
    return version_text(number.value)


def _new_workspace(stream: int, context: Context) -> int:
    """The address of a workspace of cuBLASLt. Raises LaunchError if there is too little memory."""
    address = ctypes.c_uint64()
    with context.apart_from_capture():
        context.call("allocating", "cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(WORKSPACE))
    return address.value


@functools.cache
def _handles(context: int) -> _PerStream:
    return _PerStream(lambda *about: _new_handle(*about), {})


@functools.cache
def _workspaces(context: int) -> _PerStream:
    return _PerStream(lambda *about: _new_workspace(*about), {})
