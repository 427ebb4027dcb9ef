"""Access to a GPU through PyCUDA."""

import atexit
import contextlib
import functools
from typing import Any

import pycuda.driver as cuda

from tuner.devices.cuda.driver.context import initialise
from tuner.devices.cuda.gpu import Gpu
from tuner.errors import DeviceError


class PycudaGpu(Gpu):
    """A GPU through PyCUDA. Its primary context is on PyCUDA's stack, so that PyCUDA can allocate arrays there."""

    package = "pycuda"

    @staticmethod
    def count() -> int:
        initialise()  # PyCUDA would block other threads meanwhile
        try:
            cuda.init()
            return int(cuda.Device.count())
        except cuda.Error:
            return 0

    @staticmethod
    def driver_version() -> int:
        return int(cuda.get_driver_version())

    def __init__(self, number: int) -> None:
        self._number, self._device = number, cuda.Device(number)

    @property
    def name(self) -> str:
        return str(self._device.name())

    @property
    def compute_capability(self) -> tuple[int, int]:
        major, minor = self._device.compute_capability()
        return major, minor

    @property
    def bus_id(self) -> str:
        return str(self._device.pci_bus_id())

    def attribute(self, name: str) -> int:
        return int(self._device.get_attribute(getattr(cuda.device_attribute, name)))

    def primary_context(self) -> int:
        return int(_primary(self._number).handle)

    def make_primary_current(self) -> None:
        _push(self._number)


@functools.cache
def _primary(number: int) -> Any:
    """PyCUDA's object of the primary context, which releases the context when it is deleted; cached until the process
    ends."""
    try:
        return cuda.Device(number).retain_primary_context()
    except cuda.Error as error:
        raise DeviceError(f"device cuda:{number}: {error}") from None


@functools.cache
def _push(number: int) -> None:
    """Push the primary context on PyCUDA's stack, since PyCUDA needs it there to allocate arrays."""
    _primary(number).push()
    atexit.register(_pop)


def _pop() -> None:
    """Pop the context, because PyCUDA aborts the process if its stack is not empty at exit."""
    with contextlib.suppress(cuda.Error):
        cuda.Context.pop()
