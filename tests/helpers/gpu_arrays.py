"""Arrays on a GPU that belong to no library, for programs that import nothing else."""

from __future__ import annotations

from typing import Any

import numpy as np

from tuner.devices import Device


class Own:
    """A copy of an array in a GPU's memory, which begins `offset` bytes into an allocation."""

    def __init__(self, device: Device, array: np.ndarray[Any, Any], offset: int = 0) -> None:
        self._device, self._like = device, array
        self._memory = device.allocate(array.nbytes + offset, guard=0)
        self._address = self._memory.handle + offset
        device.write(self._address, array)
        self.__cuda_array_interface__ = {
            "shape": array.shape, "typestr": array.dtype.str, "data": (self._address, False), "version": 3
        }  # fmt: skip

    def get(self) -> np.ndarray[Any, Any]:
        values = np.empty_like(self._like)
        self._device.read(self._address, values)
        return values
