"""NVIDIA GPUs: NVRTC compiles; PyCUDA finds the devices; the driver loads, launches and times."""

from tuner.devices.backend import Backend, deferred
from tuner.devices.cuda import architectures

BACKEND = Backend(
    kind="cuda",
    language="cuda",
    count=deferred(f"{__name__}.device", "count"),
    open=deferred(f"{__name__}.device", "CudaDevice"),
    compiler=deferred(f"{__name__}.compiler", "NvrtcCompiler"),
    needs="a driver and pycuda",
    package="pycuda",
    limits_of=architectures.limits_of,
    widest=architectures.widest,
    follows_context=True,
    toolchain="NVRTC ",
    common=("sm_80", "sm_90a"),
    binaries=".cubin",
)
