"""The backend for NVIDIA GPUs, which uses NVRTC or nvcc, the CUDA driver, and PyCUDA or cuda-bindings."""

from tuner.devices.backend import Backend, deferred
from tuner.devices.cuda import architectures

BACKEND = Backend(
    kind="cuda",
    language="cuda",
    count=deferred(f"{__name__}.chosen_gpu", "count"),
    open=deferred(f"{__name__}.device", "CudaDevice"),
    compiler=deferred(f"{__name__}.compiler", "NvrtcCompiler"),
    needs="a driver and cuda-bindings (or pycuda)",
    package="cuda-bindings",
    modules=("pycuda", "cuda.bindings"),
    load_library=deferred(f"{__name__}.blas.shared_library", "load"),
    limits_of=architectures.limits_of,
    widest=architectures.widest,
    lacks=deferred(f"{__name__}.chosen_gpu", "lacks"),
    follows_context=True,
    surrounding=deferred(f"{__name__}.nvcc", "surrounding"),
    compiler_modules=deferred(f"{__name__}.compiler", "forkable_modules"),
    toolchains=("NVRTC ", "nvcc ", "Triton ", "cuBLASLt "),
    common=("sm_80", "sm_90a", "sm_100a", "sm_120a"),
    binaries=".cubin",
)
