"""The settings of CUDA's driver that change threads, clocks or code.

Those that select GPUs, name caches or print are not here. NVRTC reads no options from the environment. A MIG slice is
part of the name of a GPU.
"""

from tuner.devices import settings
from tuner.devices.conditions import Conditions
from tuner.devices.settings import Settings

DEFAULTS: Settings = {
    "CUDA_AUTO_BOOST": 1,
    "CUDA_DEVICE_DEFAULT_PERSISTING_L2_CACHE_PERCENTAGE_LIMIT": 0,
    "CUDA_DEVICE_MAX_CONNECTIONS": 8,
    "CUDA_DEVICE_MAX_COPY_CONNECTIONS": 8,
    "CUDA_DISABLE_JIT": 0,
    "CUDA_DISABLE_PERF_BOOST": 0,
    "CUDA_DISABLE_PTX_JIT": 0,
    "CUDA_FORCE_JIT": 0,
    "CUDA_FORCE_PTX_JIT": 0,
    "CUDA_LAUNCH_BLOCKING": 0,
    "CUDA_MANAGED_FORCE_DEVICE_ALLOC": 0,
    "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": 100,
    "CUDA_MPS_CLIENT_PRIORITY": 0,
    "CUDA_MPS_ENABLE_PER_CTX_DEVICE_MULTIPROCESSOR_PARTITIONING": 0,
    "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": "",
    "CUDA_SCALE_LAUNCH_QUEUES": "1x",
}


def conditions() -> Conditions:
    """The conditions of trials in this process."""
    return Conditions.of(settings.effective(DEFAULTS), DEFAULTS)
