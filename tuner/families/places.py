"""Where arrays lie: the device of the first array of a call, whichever library it is of."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from tuner import devices
from tuner.errors import ArgumentError

Place = Callable[[Any], int | str]  # of an array: the number of a GPU, negative on the host, or a device's name


class Places(dict[type, Place]):
    """By the type of an array: a function that tells where one lies. An entry is created when its type first occurs."""

    def __init__(self, fixed: str | None = None) -> None:
        """With `fixed`, all lie on the device of this name."""
        super().__init__()
        self._fixed = fixed

    def __missing__(self, kind: type) -> Place:
        entry = self[kind] = _place(kind) if self._fixed is None else functools.partial(_always, self._fixed)
        return entry


def _place(kind: type) -> Place:
    """Raises ArgumentError for a type of no library's arrays."""
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
    """The device at a place."""
    if isinstance(place, str):
        return place
    return f"cuda:{place}" if place >= 0 else "host:0"


def _always(place: str, array: Any) -> str:
    return place


def _host(array: Any) -> int:
    return -1


def _of_opencl(array: Any) -> str:
    from tuner.devices.opencl import device

    return f"opencl:{device.number_of(array.context)}"


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
    from tuner.devices.cuda import driver

    return driver.device_of(_address(array)) or 0


def _address(array: Any) -> int:
    """Where it begins in the memory of a GPU. Raises ArgumentError for what is no array."""
    try:
        address: int = array.__cuda_array_interface__["data"][0]
    except (AttributeError, TypeError, KeyError):
        kind = type(array).__name__
        raise ArgumentError(f"an array of type {kind}: pass arrays of NumPy, pyopencl, PyCUDA, CuPy or torch") from None
    return address
