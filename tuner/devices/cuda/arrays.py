"""Arrays and streams of PyCUDA, CuPy and torch, and of whatever else has the CUDA array interface.

The interface alone would do. But it is made anew whenever it is asked for, which costs more than all the rest of a
launch; so arrays of these three are asked for just what is to be compared. One that does not compare equal is then
looked at through the interface, which says what is wrong with it, or that it will do after all.
"""

from __future__ import annotations

import operator
import sys
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from tuner.devices.arguments import Wanted
from tuner.errors import ArgumentError

Addresses = Callable[[Sequence[Any]], Sequence[int]]
Stream = Callable[[Any], int]


class Readers(dict[type, tuple[Addresses, Stream]]):
    """By the type of the first array: what checks all arrays and gives their addresses, and what gives the current
    stream. Made when a type is first met."""

    def __init__(
        self, wanted: Sequence[Wanted], number: int, is_ours: Callable[[Iterable[int]], bool] | None, slow: Addresses
    ) -> None:
        """For the GPU with this number; `is_ours` says whether addresses lie on it, where there are several. What is
        not plainly as wanted is left to `slow`, which raises ArgumentError or gives the addresses."""
        super().__init__()
        self._wanted, self._number, self._is_ours, self._slow = wanted, number, is_ours, slow

    def __missing__(self, kind: type) -> tuple[Addresses, Stream]:
        reader = {"pycuda": self._pycuda, "cupy": self._cupy, "torch": self._torch}.get(_library(kind))
        made = self[kind] = reader() if reader else self._slow, current_stream(kind, self._number)
        return made

    def _pycuda(self) -> Addresses:
        slow, is_ours, driver = self._slow, self._is_ours, sys.modules["pycuda.driver"]
        expected = [(one.shape, one.dtype, one.strides) for one in self._wanted]
        # To ask for the addresses, and where there are several GPUs for the one they are on, which these arrays do not
        # know, costs more than to compare the rest. An allocation never moves, so what was last found holds while the
        # arrays lie in the same ones; unless the caller frees one by hand, which cannot be seen.
        reference, fixed = weakref.ref, {driver.DeviceAllocation, driver.PooledDeviceAllocation}
        last: tuple[list[weakref.ref[Any]], list[int]] = [], []

        def addresses(arrays: Sequence[Any]) -> Sequence[int]:
            nonlocal last
            try:
                if [(array.shape, array.dtype, array.strides) for array in arrays] == expected:
                    allocations = [reference(array.gpudata) for array in arrays]  # a dead one equals no other
                    known, found = last
                    if allocations == known:
                        return found
                    memory = [array.gpudata for array in arrays]
                    found = [one.__int__() for one in memory]  # int() takes longer
                    if is_ours is None or is_ours(found):
                        if fixed.issuperset(map(type, memory)):
                            last = allocations, found
                        return found
            except (AttributeError, TypeError):  # one of another library among them, or no allocation
                pass
            return slow(arrays)

        return addresses

    def _cupy(self) -> Addresses:
        slow = self._slow
        expected = [(one.shape, one.dtype, True, self._number) for one in self._wanted]

        def addresses(arrays: Sequence[Any]) -> Sequence[int]:
            try:  # `flags`, the public way to contiguity, makes an object each time
                if [(a.shape, a.dtype, a._c_contiguous, a.data.device_id) for a in arrays] == expected:
                    return [array.data.ptr for array in arrays]
            except AttributeError:
                pass
            return slow(arrays)

        return addresses

    def _torch(self) -> Addresses:
        slow, torch = self._slow, sys.modules["torch"]
        expected = [
            (one.shape, getattr(torch, one.dtype.name, None), True, True, self._number, False) for one in self._wanted
        ]

        def addresses(tensors: Sequence[Any]) -> Sequence[int]:
            try:
                facts = [
                    (t.shape, t.dtype, t.is_contiguous(), t.is_cuda, t.get_device(), t.requires_grad) for t in tensors
                ]
                if facts == expected:
                    return [tensor.data_ptr() for tensor in tensors]
            except (AttributeError, RuntimeError):  # a RuntimeError is of tensors without memory of their own
                pass
            return slow(tensors)

        return addresses


def _library(kind: type) -> str:
    """The library that makes arrays of this type: pycuda, cupy, torch, or none that is known."""
    for name, module, arrays in (
        ("pycuda", "pycuda.gpuarray", "GPUArray"), ("cupy", "cupy", "ndarray"), ("torch", "torch", "Tensor")
    ):  # fmt: skip
        known = getattr(sys.modules.get(module), arrays, None)
        if known is not None and issubclass(kind, known):
            return name
    return ""


def current_stream(kind: type, number: int) -> Stream:
    """What gives the handle of the stream that the library of an array works in just now, on the GPU with this
    number."""
    match _library(kind):
        case "pycuda":
            return lambda array: 0  # it has no current one but the default stream
        case "cupy":
            current = sys.modules["cupy"].cuda.get_current_stream
            return lambda array: current(number).ptr
        case "torch":
            torch = sys.modules["torch"]
            return lambda tensor: torch._C._cuda_getCurrentRawStream(number)  # the public way makes an object
    return lambda array: array.__cuda_array_interface__.get("stream") or 0


def kept_stream(array: Any, number: int) -> Any:
    """The stream that the library of `array` works in just now, for `stream_handle`. CuPy destroys one of its own that
    nobody holds; this holds it."""
    if _library(type(array)) == "cupy":
        return sys.modules["cupy"].cuda.get_current_stream(number)
    return current_stream(type(array), number)(array)


def stream_handle(stream: Any) -> int:
    """The handle of a stream of any library. Raises ArgumentError for anything else."""
    found = stream
    if hasattr(stream, "__cuda_stream__"):
        found = stream.__cuda_stream__()[1]
    else:  # torch, CuPy, PyCUDA
        found = next((getattr(stream, n) for n in ("cuda_stream", "ptr", "handle") if hasattr(stream, n)), stream)
    try:
        handle = -1 if isinstance(found, bool) else operator.index(found)
    except TypeError:
        handle = -1
    if handle < 0:
        kind = type(stream).__name__
        raise ArgumentError(
            f"stream: of type {kind}, which is none; pass a stream of PyCUDA, CuPy or torch, or its handle"
        )
    return handle
