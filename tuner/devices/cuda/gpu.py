"""The GPUs of this machine, as a Python package for CUDA knows them: PyCUDA, or cuda-bindings.

The package finds a GPU, describes it and holds its primary context. All else goes to the driver by ctypes, whichever
the package is: see `driver`. So a launch takes as long through the one as through the other.
"""

import functools
import os
from abc import ABC, abstractmethod
from typing import ClassVar

from tuner.devices.cuda import driver
from tuner.errors import DeviceError
from tuner.paths import quoted

VARIABLE = "TUNER_CUDA"
_CHOICES = ("pycuda", "bindings")


class Missing(DeviceError):
    """There is no driver, or no package, so there is no GPU."""


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


def count() -> int:
    """How many GPUs there are; 0 without a driver or a package. Raises DeviceError if TUNER_CUDA asks for what there is
    not."""
    try:
        return chosen().count()
    except Missing:
        return 0


def lacks() -> str | None:
    """What keeps this machine from having GPUs, whatever package is installed; None where nothing does."""
    try:
        driver.library()
    except OSError as error:
        return f"no NVIDIA driver ({error}); use --device opencl or host"
    return None


def chosen() -> type[Gpu]:
    """GPUs through the package that TUNER_CUDA names, else through PyCUDA where it can be imported, else through
    cuda-bindings. Raises DeviceError, which is Missing where nothing was asked for."""
    choice = os.environ.get(VARIABLE, "")
    if choice not in ("", *_CHOICES):
        raise DeviceError(f"{VARIABLE}={quoted(choice)}: there is no such way to CUDA; write {' or '.join(_CHOICES)}")
    return _chosen(choice)


@functools.cache
def _chosen(choice: str) -> type[Gpu]:
    if (lacking := lacks()) is not None:  # before the imports, which take a while
        raise Missing(f"device 'cuda': {lacking}")
    errors = []
    for name, load in (("pycuda", _through_pycuda), ("bindings", _through_bindings)):
        if choice in ("", name):
            try:
                return load()
            except ImportError as error:
                errors.append(str(error))
    if choice:
        raise DeviceError(f"{VARIABLE}={choice}: it cannot be imported ({errors[0]}); install it, or unset {VARIABLE}")
    raise Missing(f"device 'cuda': no package reaches it ({'; '.join(errors)}); pip install cuda-bindings")


def _through_pycuda() -> type[Gpu]:
    from tuner.devices.cuda.pycuda_gpu import PycudaGpu

    return PycudaGpu


def _through_bindings() -> type[Gpu]:
    from tuner.devices.cuda.bindings_gpu import BindingsGpu

    return BindingsGpu
