"""Loaded modules and their kernels, which are checked against what the GPU can hold."""

from __future__ import annotations

import ctypes
import math

from tuner.devices.cuda.driver.context import Context, launch_error
from tuner.devices.cuda.driver.launch_config import configured
from tuner.errors import LaunchError
from tuner.space.step import Geometry

_NOT_FOUND = 500
_MAX_THREADS, _DYNAMIC_SHARED_MEMORY = 0, 8  # of CUfunction_attribute
_NON_PORTABLE_CLUSTER = 14  # of CUfunction_attribute
_MULTIPROCESSORS, _CAPABILITY_MAJOR = 16, 75  # of CUdevice_attribute
_PROGRAMMATIC_SINCE = 9  # the compute capability from which launches may be programmatic
PORTABLE_CLUSTER = 8  # blocks per cluster that every GPU with clusters supports


class Module:
    """A cubin on the device. Unloaded with this object."""

    def __init__(self, context: Context, binary: bytes, name: str) -> None:
        """`name` is the module's name in messages. Raises LaunchError if the binary is not for this GPU."""
        self.context, self.handle, self._name = context, ctypes.c_void_p(), name
        with context.apart_from_capture():
            context.call(f"loading {name}", "cuModuleLoadData", ctypes.byref(self.handle), binary)

    def function(self, entry: str, kernel: str, geometry: Geometry) -> LoadedKernel:
        """The kernel `entry`, its name in the cubin; `kernel` is its name in messages. Raises LaunchError if the cubin
        lacks it, or if the GPU cannot hold a block, a cluster, or all blocks of a cooperative launch."""
        return LoadedKernel(self, entry, kernel, geometry)

    def symbol(self, name: str) -> tuple[int, int] | None:
        """The address and the size in bytes of a global variable; None if there is none. Raises LaunchError."""
        address, nbytes = ctypes.c_uint64(), ctypes.c_size_t()
        with self.context.active():
            status = self.context.cuda.cuModuleGetGlobal_v2(
                ctypes.byref(address), ctypes.byref(nbytes), self.handle, name.encode()
            )
        if status == _NOT_FOUND:
            return None
        if status:
            raise launch_error(f"finding {name} in {self._name}", status)
        return address.value, nbytes.value

    def __del__(self) -> None:
        self.context.release("cuModuleUnload", self.handle)


class LoadedKernel:
    """A function of a module."""

    def __init__(self, module: Module, entry: str, kernel: str, geometry: Geometry) -> None:
        self.module, self.handle = module, ctypes.c_void_p()
        context, action, most = module.context, f"loading {kernel}", ctypes.c_int()
        context.call(action, "cuModuleGetFunction", ctypes.byref(self.handle), module.handle, entry.encode())
        if geometry.shared_memory:
            # The driver rejects this if static and dynamic shared memory together exceed the limit of a block.
            context.call(action, "cuFuncSetAttribute", self.handle, _DYNAMIC_SHARED_MEMORY, geometry.shared_memory)
        context.call(action, "cuFuncGetAttribute", ctypes.byref(most), _MAX_THREADS, self.handle)
        threads = math.prod(geometry.block)
        if threads > most.value:
            message = f"{action}: {threads} threads per block; this kernel allows at most {most.value}"
            raise LaunchError(message, "too many resources")
        if math.prod(geometry.cluster) > PORTABLE_CLUSTER:
            context.call(action, "cuFuncSetAttribute", self.handle, _NON_PORTABLE_CLUSTER, 1)
        if math.prod(geometry.cluster) > 1:
            self._check_cluster(action, geometry)
        if geometry.cooperative:
            self._check_cooperative(action, geometry)
        self.programmatic = geometry.programmatic and self._may_be_programmatic(action)

    def _may_be_programmatic(self, action: str) -> bool:
        """Whether a launch may begin before the one before it has ended. Older GPUs run them one after the other."""
        context, major = self.module.context, ctypes.c_int()
        context.call(action, "cuDeviceGetAttribute", ctypes.byref(major), _CAPABILITY_MAJOR, context.number)
        return major.value >= _PROGRAMMATIC_SINCE

    def _check_cluster(self, action: str, geometry: Geometry) -> None:
        """Raise LaunchError unless the GPU can hold a cluster of this kernel."""
        clusters, config = ctypes.c_int(), configured(geometry)
        context = self.module.context
        context.call(action, "cuOccupancyMaxActiveClusters", ctypes.byref(clusters), self.handle, ctypes.byref(config))
        if not clusters.value:
            shape = "x".join(map(str, geometry.cluster))
            raise LaunchError(f"{action}: the GPU cannot hold a cluster of {shape} blocks", "too many resources")

    def _check_cooperative(self, action: str, geometry: Geometry) -> None:
        """Raise LaunchError unless all blocks of the grid can be resident at once."""
        context, each, multiprocessors = self.module.context, ctypes.c_int(), ctypes.c_int()
        threads, shared = math.prod(geometry.block), ctypes.c_size_t(geometry.shared_memory)
        context.call(
            action, "cuOccupancyMaxActiveBlocksPerMultiprocessor", ctypes.byref(each), self.handle, threads, shared
        )
        context.call(action, "cuDeviceGetAttribute", ctypes.byref(multiprocessors), _MULTIPROCESSORS, context.number)
        most, blocks = each.value * multiprocessors.value, math.prod(geometry.grid)
        if blocks > most:
            raise LaunchError(
                f"{action}: a cooperative launch of {blocks} blocks; the GPU runs {most} of them at once",
                "too many resources",
            )
