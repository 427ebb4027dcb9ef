"""Reads addresses and streams of arrays of PyCUDA, CuPy, torch, and any library with the CUDA array interface.

The interface alone would suffice, but these three libraries rebuild it at each access, which takes longer than the rest
of a launch. So the fast readers compare only the attributes that matter. If an attribute differs, the slow reader reads
the interface: it accepts the array, or reports the problem.
"""

import operator
import sys
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from tuner.devices.arguments import ArrayLayout, ArraySpec
from tuner.errors import ArgumentError
from tuner.space import dtypes

Addresses = Callable[[Sequence[Any]], Sequence[int]]
Stream = Callable[[Any], int]


class PlacedArray:
    """The address of an array whose layout, type and device its user has checked, and the stream of a launch."""

    __slots__ = ("address", "stream")

    def __init__(self, address: int, stream: int) -> None:
        self.address, self.stream = address, stream


class Readers(dict[type, tuple[Addresses, Stream]]):
    """Maps the type of the first array to two functions: one checks all arrays and returns their addresses, the other
    returns the handle of the current stream. An entry is created when a type first occurs."""

    def __init__(
        self, specs: Sequence[ArraySpec], number: int, is_ours: Callable[[Iterable[int]], bool] | None, slow: Addresses
    ) -> None:
        """Readers for the GPU with this number. `is_ours` tells whether all addresses are on this GPU; None if there is
        only one GPU. `slow` reads the arrays that a fast reader rejects: it returns addresses or raises ArgumentError.
        """
        super().__init__()
        self._specs, self._number, self._is_ours, self._slow = specs, number, is_ours, slow

    def __missing__(self, kind: type) -> tuple[Addresses, Stream]:
        if kind is PlacedArray:
            return self.setdefault(kind, (_addresses_of, current_stream(kind, self._number)))
        readers = {"pycuda": self._pycuda, "cupy": self._cupy, "torch": self._torch}
        are_plain = all(spec.is_contiguous for spec in self._specs)  # fast readers check contiguity, not strides
        factory = readers.get(_library(kind)) if are_plain else None
        entry = self[kind] = (factory or self._other)(), current_stream(kind, self._number)
        return entry

    def _pycuda(self) -> Addresses:
        slow, is_ours, driver = self._slow, self._is_ours, sys.modules["pycuda.driver"]
        expected = [(spec.shape, spec.dtype, spec.strides) for spec in self._specs]
        # Reading the addresses, and with several GPUs querying the driver for their GPU, takes longer than all the
        # rest. An allocation never moves, so the last addresses remain valid while the arrays have the same
        # allocations. An allocation that the caller frees explicitly goes unnoticed.
        reference, fixed = weakref.ref, {driver.DeviceAllocation, driver.PooledDeviceAllocation}
        last: tuple[list[weakref.ref[Any]], list[int]] = [], []

        def addresses(arrays: Sequence[Any]) -> Sequence[int]:
            nonlocal last
            try:
                if [(array.shape, array.dtype, array.strides) for array in arrays] == expected:
                    allocations = [reference(array.gpudata) for array in arrays]  # a dead reference equals no other
                    last_allocations, values = last
                    if allocations == last_allocations:
                        return values
                    memory = [array.gpudata for array in arrays]
                    values = [allocation.__int__() for allocation in memory]  # int() takes longer
                    if is_ours is None or is_ours(values):
                        if fixed.issuperset(map(type, memory)):
                            last = allocations, values
                        return values
            except (AttributeError, TypeError):  # an array of another library, or without an allocation
                pass
            return slow(arrays)

        return addresses

    def _cupy(self) -> Addresses:
        slow = self._slow
        expected = [(spec.shape, spec.dtype, True, self._number) for spec in self._specs]

        def addresses(arrays: Sequence[Any]) -> Sequence[int]:
            try:  # `flags`, the public way to contiguity, creates an object each time
                if [(a.shape, a.dtype, a._c_contiguous, a.data.device_id) for a in arrays] == expected:
                    return [array.data.ptr for array in arrays]
            except AttributeError:
                pass
            return slow(arrays)

        return addresses

    def _torch(self) -> Addresses:
        slow, torch, every = self._slow, sys.modules["torch"], range(len(self._specs))
        if not every:
            return slow
        names: dict[str, Any] = {"slow": slow, "number": self._number}
        for at, spec in enumerate(self._specs):
            names |= {f"shape{at}": spec.shape, f"dtype{at}": getattr(torch, spec.dtype.name, None)}
        # Generated code, because every launch runs it: to compare lists of facts takes 0.6 us longer for three tensors.
        facts = [
            f"t{at}.shape == shape{at} and t{at}.dtype == dtype{at} and t{at}.is_contiguous() and t{at}.is_cuda "
            f"and t{at}.get_device() == number and not t{at}.requires_grad"
            for at in every
        ]
        text = (
            "def addresses(tensors):\n"
            "    try:\n"
            f"        {''.join(f't{at}, ' for at in every)} = tensors\n"
            f"        if {' and '.join(facts)}:\n"
            f"            return [{', '.join(f't{at}.data_ptr()' for at in every)}]\n"
            "    except (AttributeError, RuntimeError, TypeError, ValueError):\n"  # RuntimeError: without memory
            "        pass\n"
            "    return slow(tensors)\n"
        )
        exec(text, names)  # noqa: S102  # the text has only numbers and the words above
        found: Addresses = names["addresses"]
        return found

    def _other(self) -> Addresses:
        slow, is_ours = self._slow, self._is_ours
        # Arrays that were accepted once are accepted again while their interfaces are equal. The interfaces are copied,
        # because a library may change its dictionary in place.
        last: tuple[list[dict[str, Any]] | None, Sequence[int]] = None, ()

        def addresses(arrays: Sequence[Any]) -> Sequence[int]:
            nonlocal last
            interfaces = None
            try:
                interfaces = [array.__cuda_array_interface__ for array in arrays]
                if interfaces == last[0] and (is_ours is None or is_ours(last[1])):
                    return last[1]
            except (AttributeError, KeyError, TypeError, RuntimeError, ValueError):  # ValueError: from masked arrays
                pass
            values = slow(arrays)
            if interfaces is not None:
                last = [dict(interface) for interface in interfaces], values
            return values

        return addresses


def _addresses_of(arrays: Sequence[Any]) -> list[int]:
    return [array.address for array in arrays]


def _library(kind: type) -> str:
    """The library of an array type: pycuda, cupy, torch, or "" for any other."""
    for name, module, arrays in (
        ("pycuda", "pycuda.gpuarray", "GPUArray"), ("cupy", "cupy", "ndarray"), ("torch", "torch", "Tensor")
    ):  # fmt: skip
        array_type = getattr(sys.modules.get(module), arrays, None)
        if array_type is not None and issubclass(kind, array_type):
            return name
    return ""


def interface_of(array: Any) -> dict[str, Any]:
    """The CUDA array interface of an array. Raises AttributeError, KeyError, TypeError or RuntimeError if it has none.

    torch has none for its float8 types, which the interface cannot express, and earlier versions have none for
    bfloat16. For these, the interface of an integer view of the tensor is used.
    """
    try:
        interface: dict[str, Any] = array.__cuda_array_interface__
    except (KeyError, TypeError):
        torch = sys.modules.get("torch")
        bits = torch and {1: torch.uint8, 2: torch.int16}.get(array.element_size())
        dtype = dtypes.DTYPES.get(str(array.dtype).rpartition(".")[2])
        if bits is None or dtype is None or not dtype.foreign:
            raise
        interface = {**array.view(bits).__cuda_array_interface__, "typestr": dtype.typestrs[0]}
    return interface


def current_stream(kind: type, number: int) -> Stream:
    """A function that takes an array of type `kind` and returns the handle of its library's current stream on the GPU
    with this number."""
    if kind is PlacedArray:
        return operator.attrgetter("stream")
    match _library(kind):
        case "pycuda":
            return lambda array: 0  # its current stream is always the default stream
        case "cupy":
            current = sys.modules["cupy"].cuda.get_current_stream
            return lambda array: current(number).ptr
        case "torch":
            torch = sys.modules["torch"]
            return lambda tensor: torch._C._cuda_getCurrentRawStream(number)  # the public way creates an object
    return lambda array: array.__cuda_array_interface__.get("stream") or 0


class CurrentStreams(dict[type, Stream]):
    """Maps a type of array to a function that returns the handle of its library's current stream. An entry is created
    when a type first occurs."""

    def __init__(self, number: int) -> None:
        """For the GPU with this number."""
        super().__init__()
        self._number = number

    def __missing__(self, kind: type) -> Stream:
        return self.setdefault(kind, current_stream(kind, self._number))


def stream_of(array: Any, number: int) -> Any:
    """The current stream of the library of `array`, for `stream_handle`. For CuPy it is CuPy's stream object, because
    CuPy destroys a stream without references."""
    if _library(type(array)) == "cupy":
        return sys.modules["cupy"].cuda.get_current_stream(number)
    return current_stream(type(array), number)(array)


def stream_handle(stream: Any) -> int:
    """The handle of a stream of any library. Raises ArgumentError if `stream` is neither a stream nor a handle."""
    if hasattr(stream, "__cuda_stream__"):
        handle = stream.__cuda_stream__()[1]
    else:  # torch, CuPy, PyCUDA
        handle = next((getattr(stream, n) for n in ("cuda_stream", "ptr", "handle") if hasattr(stream, n)), stream)
    try:
        number = -1 if isinstance(handle, bool) else operator.index(handle)
    except TypeError:
        number = -1
    if number < 0:
        raise ArgumentError(
            f"stream: of type {type(stream).__name__}; pass a stream of PyCUDA, CuPy or torch, or its handle"
        )
    return number


def interface_for(spec: ArraySpec, array: Any) -> dict[str, Any]:
    """The array's `__cuda_array_interface__`. Raises ArgumentError if it has none."""
    name = spec.argument.name
    try:
        return interface_of(array)
    except (AttributeError, KeyError, TypeError, RuntimeError):
        if getattr(array, "requires_grad", False):
            raise ArgumentError(f"{name}: requires grad, which a launch does not track; pass .detach()") from None
        kind = type(array).__name__
        raise ArgumentError(f"{name}: of type {kind}, which is not on the GPU; pass an array on the GPU") from None


def layout_of(spec: ArraySpec, interface: dict[str, Any]) -> ArrayLayout:
    """The layout that an array's interface describes."""
    typestr, strides = interface["typestr"], interface.get("strides")
    dtype = spec.dtype if typestr in spec.element.typestrs else np.dtype(typestr)
    return ArrayLayout(tuple(interface["shape"]), dtype, strides and tuple(strides), not interface["data"][1])
