"""Access to a GPU through cuda-bindings, NVIDIA's Python package, which needs a driver but no CUDA toolkit."""

import functools
from typing import Any

from cuda.bindings import driver as cuda

from tuner.devices.cuda.gpu import Gpu
from tuner.errors import DeviceError

_LONGEST = 256  # bytes of a text buffer


class BindingsGpu(Gpu):
    """A GPU through cuda-bindings. Its primary context is used without PyCUDA's context stack."""

    package = "cuda-bindings"

    @staticmethod
    def count() -> int:
        try:
            _ok(cuda.cuInit(0))
            return int(_ok(cuda.cuDeviceGetCount()))
        except DeviceError:
            return 0

    @staticmethod
    def driver_version() -> int:
        return int(_ok(cuda.cuDriverGetVersion()))

    def __init__(self, number: int) -> None:
        self._number, self._device = number, _ok(cuda.cuDeviceGet(number))

    @property
    def name(self) -> str:
        return _text(_ok(cuda.cuDeviceGetName(_LONGEST, self._device)))

    @property
    def compute_capability(self) -> tuple[int, int]:
        return self.attribute("COMPUTE_CAPABILITY_MAJOR"), self.attribute("COMPUTE_CAPABILITY_MINOR")

    @property
    def bus_id(self) -> str:
        return _text(_ok(cuda.cuDeviceGetPCIBusId(_LONGEST, self._device)))

    def attribute(self, name: str) -> int:
        attribute = getattr(cuda.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}")
        return int(_ok(cuda.cuDeviceGetAttribute(attribute, self._device)))

    def primary_context(self) -> int:
        return _primary(self._number)

    def make_primary_current(self) -> None:
        _ok(cuda.cuCtxSetCurrent(cuda.CUcontext(self.primary_context())))


@functools.cache
def _primary(number: int) -> int:
    """The handle of the primary context, retained once per process."""
    return int(_ok(cuda.cuDevicePrimaryCtxRetain(_ok(cuda.cuDeviceGet(number)))))


def _ok(result: tuple[Any, ...]) -> Any:
    """The value that a driver call returned after its status. Raises DeviceError unless the status is success."""
    status, *values = result
    if status != cuda.CUresult.CUDA_SUCCESS:
        raise DeviceError(f"device 'cuda': the driver reports {getattr(status, 'name', status)}")
    return values[0] if values else None


def _text(padded: bytes) -> str:
    """Decode a null-terminated text in a longer buffer."""
    return padded.partition(b"\0")[0].decode()
