"""Which Python package reaches the GPUs: PyCUDA, or cuda-bindings, as TUNER_CUDA says."""

import functools
import os

from tuner.devices.cuda import driver
from tuner.devices.cuda.gpu import Gpu
from tuner.errors import DeviceError
from tuner.quoting import quoted

VARIABLE = "TUNER_CUDA"


_CHOICES = ("pycuda", "bindings")


class Missing(DeviceError):
    """There is no driver, or no package, so there is no GPU."""


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
