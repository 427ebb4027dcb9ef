"""Any OpenCL device, by pyopencl; through PoCL, a CPU too."""

from __future__ import annotations

from tuner.devices.backend import Backend
from tuner.devices.base import Device


def _count() -> int:
    from tuner.devices.opencl import device

    return device.count()


def _open(number: int) -> Device:
    from tuner.devices.opencl.device import OpenCLDevice

    return OpenCLDevice(number)


BACKEND = Backend(
    kind="opencl",
    language="opencl",
    count=_count,
    open=_open,
    compiler=None,
    needs="a driver and pyopencl",
    package="pyopencl",
    may_be_processor=True,
    toolchain="OpenCL ",
)
