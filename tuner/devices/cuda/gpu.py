"""The GPUs of this machine, as a Python package for CUDA knows them: PyCUDA, or cuda-bindings.

The package finds a GPU, describes it and holds its primary context. All else goes to the driver by ctypes, whichever
the package is: see `driver`. So a launch takes as long through the one as through the other.
"""

from abc import ABC, abstractmethod
from typing import ClassVar


class Gpu(ABC):
    """One GPU."""

    package: ClassVar[str]  # by pip's name

    @staticmethod
    @abstractmethod
    def count() -> int:
        """How many GPUs there are. Starts the driver."""

    @staticmethod
    @abstractmethod
    def driver_version() -> int:
        """The version of CUDA that the driver supports: 13010 is 13.1."""

    @abstractmethod
    def __init__(self, number: int) -> None:
        """The GPU that the driver gives this number, after `count` has started it."""

    @property
    @abstractmethod
    def name(self) -> str:
        """Its name by NVIDIA."""

    @property
    @abstractmethod
    def compute_capability(self) -> tuple[int, int]:
        """Major and minor: (9, 0)."""

    @property
    @abstractmethod
    def bus_id(self) -> str:
        """Its place on PCI."""

    @abstractmethod
    def attribute(self, name: str) -> int:
        """What the driver says of it; `name` is that of a CUdevice_attribute, without CU_DEVICE_ATTRIBUTE_."""

    @abstractmethod
    def primary_context(self) -> int:
        """The handle of its primary context, which is retained until the process ends. Raises DeviceError."""

    @abstractmethod
    def make_primary_current(self) -> None:
        """Leave its primary context current in the calling thread, which has that or none."""
