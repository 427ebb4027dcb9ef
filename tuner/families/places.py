"""Find the device of a call's first array, whichever array library it is from."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from tuner import devices
from tuner.errors import ArgumentError

Place = Callable[[Any], int | str]  # returns an array's CUDA device number (-1: the host) or a device's name


class Places(dict[type, Place]):
    """Maps an array type to the function that returns its device. An entry is created when its type first occurs."""

    def __init__(self, fixed: str | None = None) -> None:
        """With `fixed`, every array is taken to be on the device of this name."""
        super().__init__()
        self._fixed = fixed

    def __missing__(self, kind: type) -> Place:
        entry = self[kind] = _place(kind) if self._fixed is None else functools.partial(_always, self._fixed)
        return entry


def _place(kind: type) -> Place:
    """The function for arrays of this type. A type of no known array library gets one that raises ArgumentError."""
    if issubclass(kind, np.ndarray):
        return _host
    for module, name, place in (
        ("torch", "Tensor", _of_torch), ("cupy", "ndarray", _of_cupy), ("pyopencl.array", "Array", _of_opencl)
    ):  # fmt: skip
        array_type = getattr(sys.modules.get(module), name, None)
        if array_type is not None and issubclass(kind, array_type):
            return _first_gpu if place is _of_cupy and devices.count("cuda") == 1 else place
    if devices.count("cuda") > 1:
        return _of_address
    is_array = hasattr(kind, "__cuda_array_interface__") or kind.__module__.startswith("pycuda")
    return _first_gpu if is_array else _of_interface


def device_name(place: int | str) -> str:
    """The name of the device that a `Place` function returned."""
    if isinstance(place, str):
        return place
    return f"cuda:{place}" if place >= 0 else "host:0"


def _always(place: str, array: Any) -> str:
    return place


def _host(array: Any) -> int:
    return -1


def _of_opencl(array: Any) -> str:
    from tuner.devices.opencl import platforms

    return f"opencl:{platforms.number_of(array.context)}"


def _first_gpu(array: Any) -> int:
    return 0


def _of_torch(tensor: Any) -> int:
    number: int = tensor.get_device()
    return number


def _of_cupy(array: Any) -> int:
    number: int = array.data.device_id
    return number


def _of_interface(array: Any) -> int:
    _address(array)
    return 0


def _of_address(array: Any) -> int:
    from tuner.devices.cuda.driver.addresses import device_of

    return device_of(_address(array)) or 0


def _address(array: Any) -> int:
    """The address of an array in GPU memory. Raises ArgumentError if it lacks the CUDA array interface."""
    try:
        address: int = array.__cuda_array_interface__["data"][0]
    except (AttributeError, TypeError, KeyError):
        kind = type(array).__name__
        raise ArgumentError(f"an array of type {kind}: pass arrays of NumPy, pyopencl, PyCUDA, CuPy or torch") from None
    return address
