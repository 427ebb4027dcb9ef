"""The backend for OpenCL devices, including CPUs with PoCL, which uses pyopencl."""

from tuner.devices.backend import Backend, deferred

BACKEND = Backend(
    kind="opencl",
    language="opencl",
    count=deferred(f"{__name__}.platforms", "count"),
    open=deferred(f"{__name__}.device", "OpenCLDevice"),
    start_apart=deferred(f"{__name__}.platforms", "start_apart"),
    compiler=None,
    needs="a driver and pyopencl",
    package="pyopencl",
    modules=("pyopencl",),
    may_be_processor=True,
    toolchains=("OpenCL ",),
)
