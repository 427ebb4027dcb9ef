"""Chooses the Python package that accesses the GPUs: PyCUDA or cuda-bindings, or the one that TUNER_CUDA names."""

import functools
import os

from tuner.devices.cuda.driver.context import library
from tuner.devices.cuda.gpu import Gpu
from tuner.errors import DeviceError
from tuner.quoting import quoted

VARIABLE = "TUNER_CUDA"


_CHOICES = ("pycuda", "bindings")


class Missing(DeviceError):
    """The driver or a Python package is missing, so no GPU is available."""


def count() -> int:
    """The number of GPUs; 0 without a driver or a package. Raises DeviceError if TUNER_CUDA names an unknown or missing
    package."""
    try:
        return chosen().count()
    except Missing:
        return 0


def lacks() -> str | None:
    """What, other than a Python package, this machine lacks to use GPUs; None if it lacks nothing."""
    try:
        library()
    except OSError as error:
        return f"no NVIDIA driver ({error})"
    return None


def chosen() -> type[Gpu]:
    """The class of GPUs for the package that TUNER_CUDA names. By default, PyCUDA if it can be imported, else
    cuda-bindings.

    Raises DeviceError if TUNER_CUDA names an unknown or missing package, Missing if no package can be imported.
    """
    choice = os.environ.get(VARIABLE, "")
    if choice not in ("", *_CHOICES):
        raise DeviceError(f"{VARIABLE}={quoted(choice)}: not supported; write {' or '.join(_CHOICES)}")
    return _chosen(choice)


@functools.cache
def _chosen(choice: str) -> type[Gpu]:
    if (lacking := lacks()) is not None:  # before the imports, which are slow
        raise Missing(f"device 'cuda': {lacking}; use --device opencl or host")
    errors = []
    for name, load in (("pycuda", _through_pycuda), ("bindings", _through_bindings)):
        if choice in ("", name):
            try:
                return load()
            except ImportError as error:
                errors.append(str(error))
    if choice:
        raise DeviceError(f"{VARIABLE}={choice}: it cannot be imported ({errors[0]}); install it, or unset {VARIABLE}")
    raise Missing(
        f"device 'cuda': neither PyCUDA nor cuda-bindings can be imported ({'; '.join(errors)}); pip install "
        "-e '.[cuda]' in the checkout, or pip install cuda-bindings"
    )


def _through_pycuda() -> type[Gpu]:
    from tuner.devices.cuda.pycuda_gpu import PycudaGpu

    return PycudaGpu


def _through_bindings() -> type[Gpu]:
    from tuner.devices.cuda.bindings_gpu import BindingsGpu

    return BindingsGpu
