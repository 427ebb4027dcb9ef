"""NVIDIA GPUs: NVRTC compiles; PyCUDA finds the devices; the driver loads, launches and times."""

from __future__ import annotations

from tuner.devices import architectures
from tuner.devices.backend import Backend
from tuner.devices.base import Device
from tuner.devices.compiler import Compiler


def _count() -> int:
    from tuner.devices.cuda import device

    return device.count()


def _open(number: int) -> Device:
    from tuner.devices.cuda.device import CudaDevice

    return CudaDevice(number)


def _compiler(architecture: str) -> Compiler:
    from tuner.devices.cuda.compiler import NvrtcCompiler

    return NvrtcCompiler(architecture)


BACKEND = Backend(
    kind="cuda",
    language="cuda",
    count=_count,
    open=_open,
    compiler=_compiler,
    needs="a driver and pycuda",
    package="pycuda",
    limits_of=architectures.limits_of,
    widest=architectures.widest,
    follows_context=True,
    toolchain="NVRTC ",
    binaries=".cubin",
)
