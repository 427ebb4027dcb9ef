"""The interface to a GPU that PyCUDA and cuda-bindings implement.

The package finds a GPU, describes it and holds its primary context. Everything else calls the driver by ctypes (see
`driver`), so the launch overhead does not depend on the package.
"""

from abc import ABC, abstractmethod
from typing import ClassVar


class Gpu(ABC):
    """One GPU."""

    package: ClassVar[str]  # pip name

    @staticmethod
    @abstractmethod
    def count() -> int:
        """The number of GPUs. Initialises the driver."""

    @staticmethod
    @abstractmethod
    def driver_version() -> int:
        """The CUDA version that the driver supports; 13010 is 13.1."""

    @abstractmethod
    def __init__(self, number: int) -> None:
        """The GPU with this number in the driver, which `count` must have initialised."""

    @property
    @abstractmethod
    def name(self) -> str:
        """NVIDIA's name of the GPU."""

    @property
    @abstractmethod
    def compute_capability(self) -> tuple[int, int]:
        """Major and minor: (9, 0)."""

    @property
    @abstractmethod
    def bus_id(self) -> str:
        """Its PCI bus id."""

    @abstractmethod
    def attribute(self, name: str) -> int:
        """The value of a device attribute; `name` is a CUdevice_attribute without CU_DEVICE_ATTRIBUTE_."""

    @abstractmethod
    def primary_context(self) -> int:
        """The handle of its primary context, retained until the process ends. Raises DeviceError."""

    @abstractmethod
    def make_primary_current(self) -> None:
        """Make its primary context current in the calling thread, which must have that context or none."""
