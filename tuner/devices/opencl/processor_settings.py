"""The settings of pyopencl, and of PoCL's and Intel's OpenCL runtimes for CPUs, that change threads or code.

Those that select devices, name caches, limit memory or print are not here.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

import pyopencl as cl

from tuner.children import processors
from tuner.devices import settings
from tuner.devices.conditions import Conditions, Value
from tuner.devices.settings import MEMORY, Settings

COUNTS = (  # variables that set the number of compute units, which a device tells
    "POCL_MAX_PTHREAD_COUNT",
    "POCL_CPU_MAX_CU_COUNT",
    "POCL_MAX_COMPUTE_UNITS",
    "POCL_PTHREAD_MIN_THREADS",
    "CPU_MAX_COMPUTE_UNITS",
    "DPCPP_CPU_NUM_CUS",
)
AFFINITY = "POCL_AFFINITY"
THREADS: Settings = {  # how PoCL places threads, and shares out work-groups
    AFFINITY: 0,
    "POCL_TBB_GRAIN_SIZE": "",
    "POCL_TBB_PARTITIONER": "auto",
}
PYOPENCL: Settings = {"PYOPENCL_BUILD_OPTIONS": ""}  # which pyopencl adds to the options of every build
POCL: Settings = {  # how PoCL compiles; its versions differ in the default for outer loops
    "POCL_ARGS_CLANG": "",
    "POCL_BBVECTORIZE": 0,
    "POCL_BITCODE_FINALIZER": "",
    "POCL_CPU_JIT": 1,
    "POCL_DEBUG_LLVM_OPTS": "",
    "POCL_EXTRA_BUILD_FLAGS": "",
    "POCL_FORCE_PARALLEL_OUTER_LOOP": "",
    "POCL_FULL_REPLICATION_THRESHOLD": 2,
    "POCL_IGNORE_CL_STD": 0,
    "POCL_KERNELLIB_NAME": "",
    "POCL_KERNEL_COMPILER_OPT_SWITCH": "",
    "POCL_LLVM_ALWAYS_INLINE": 0,
    "POCL_LLVM_CPU_NAME": "",
    "POCL_LLVM_MOVE_NONKERNELS": 0,
    "POCL_PATH_CLANG": "",
    "POCL_PATH_LLVM_LINK": "",
    "POCL_PATH_LLVM_LLC": "",
    "POCL_PATH_LLVM_OPT": "",
    "POCL_PREGION_VALUE_REMAT": 1,
    "POCL_VECTORIZER_FORCE_VECTOR_WIDTH": "",
    "POCL_VECTORIZER_PREFER_VECTOR_WIDTH": "",
    "POCL_WILOOPS_MAX_UNROLL_COUNT": 1,
    "POCL_WORK_GROUP_METHOD": "loopvec",
    "POCL_WORK_GROUP_SPECIALIZATION": 1,
}
INTEL: Settings = {
    "DPCPP_CPU_CU_AFFINITY": "",
    "DPCPP_CPU_PLACES": "",
    "DPCPP_CPU_SCHEDULE": "dynamic",
}
GROUP, LARGEST_GROUP = "POCL_MAX_WORK_GROUP_SIZE", 4096  # its default


def code(is_pocl: bool) -> Conditions:
    """The conditions that change the code of builds."""
    defaults = {**PYOPENCL, **(POCL if is_pocl else {})}
    return Conditions.of(settings.effective(defaults), defaults)


def conditions(device: cl.Device, is_pocl: bool) -> Conditions:
    """The conditions of trials on a device, other than those of `code`."""
    if not device.type & cl.device_type.CPU:
        return Conditions()
    variables = {**MEMORY, **(THREADS if is_pocl else INTEL)}
    counts, defaults = _counts(device)
    if is_pocl and settings.read(GROUP) != "":
        counts[GROUP], defaults[GROUP] = device.max_work_group_size, LARGEST_GROUP
    return Conditions.of({**settings.effective(variables), **counts}, {**variables, **defaults})


@contextlib.contextmanager
def apart() -> Iterator[None]:
    """A block in which PoCL starts each of its threads on a processor of its own.

    Nothing happens if a variable sets the number of threads or their places, or if this process may not run on all
    processors of the machine: PoCL takes the first processors, whichever are allowed.
    """
    everywhere = processors.allowed() == set(range(os.cpu_count() or 1))
    if not everywhere or any(settings.read(name) != "" for name in (AFFINITY, *COUNTS)):
        yield
        return
    os.environ[AFFINITY] = "1"
    try:
        yield
    finally:
        del os.environ[AFFINITY]  # it is no condition of a trial that a user has set


def _counts(device: cl.Device) -> tuple[dict[str, Value], dict[str, Value]]:
    """The processors and compute units that the runtime of a CPU uses, and their defaults.

    PoCL has a thread for each processor of the machine, whatever the affinity of the process.
    """
    units = device.max_compute_units
    machine = (os.cpu_count() or 1) if any(settings.read(name) for name in COUNTS) else units
    usable = min(machine, len(processors.allowed()))
    return {"compute_units": units, "processors": usable}, {"compute_units": machine, "processors": machine}
