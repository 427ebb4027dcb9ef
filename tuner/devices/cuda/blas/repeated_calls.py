"""Library calls that a program repeats: if such a call launches one kernel, the driver launches it without the library.

cuBLASLt takes longer than the driver to prepare a launch, and does the same at each call with the same arguments. So
the call is captured once, as a CUDA graph would, and the kernel is launched with the captured parameters.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from typing import Any

from tuner.devices.cuda import driver, launches
from tuner.errors import LaunchError

BEFORE_CAPTURE = 8  # calls with the same arguments, because a capture takes as long as dozens of calls
_ACTION = "capturing cuBLAS"
_KERNEL_NODE = 0  # of CUgraphNodeType
# Of CUlaunchAttributeID: what a launch keeps, and what ties it to its neighbours. Others do not change what runs.
_POLICY, _PREFERRED_CLUSTER, _CARVEOUT = 5, 11, 14
_KEPT = (launches.COOPERATIVE, launches.CLUSTER_DIMENSION, _POLICY, _PREFERRED_CLUSTER, _CARVEOUT)
_EVENT, _COMPLETION_EVENT, _UPDATABLE = 7, 12, 13
_TYING = (launches.PROGRAMMATIC, _EVENT, _COMPLETION_EVENT, _UPDATABLE)


class _KernelNode(ctypes.Structure):
    """CUDA_KERNEL_NODE_PARAMS_v2."""

    _fields_ = (
        ("function", ctypes.c_void_p),
        *((name, ctypes.c_uint) for name in ("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z", "shared")),
        ("parameters", ctypes.c_void_p),
        ("extra", ctypes.c_void_p),
        ("kernel", ctypes.c_void_p),
        ("context", ctypes.c_void_p),
    )


class RepeatedCall:
    """A prepared library call, which returns a status. After BEFORE_CAPTURE calls it is captured, and `replace` is
    called with what takes its place."""

    def __init__(
        self,
        call: Callable[[], int],
        captured: Callable[[], Callable[[], int] | None],
        replace: Callable[[Callable[[], int]], None],
    ) -> None:
        """`captured` returns a launch that does the same; None if there is none."""
        self._call, self._captured, self._replace, self._count = call, captured, replace, 0

    def __call__(self) -> int:
        self._count += 1
        if self._count > BEFORE_CAPTURE:
            launch = self._captured()
            if launch is not None and launch() == 0:
                self._replace(launch)
                return 0
            self._replace(self._call)  # the driver does not launch such a kernel apart from the library
        return self._call()


def kernel_of(
    context: driver.Context, apart: driver.Stream, call: Callable[[], int], stream: int
) -> Callable[[], int] | None:
    """A launch, on the stream with this handle, of the kernel that `call` enqueues on the stream `apart`. It returns a
    status. None if `call` fails, or enqueues anything but one kernel that runs by itself."""
    statuses: list[int] = []
    try:
        with context.apart_from_capture():
            captured = driver.Captured(context, apart, lambda: statuses.append(call()), _ACTION)
    except LaunchError:
        return None
    return None if any(statuses) else _launch(context, captured, stream)


def _launch(context: driver.Context, captured: driver.Captured, stream: int) -> Callable[[], int] | None:
    cuda, count = context.cuda, ctypes.c_size_t(2)
    nodes, kind, kernel = (ctypes.c_void_p * count.value)(), ctypes.c_int(-1), _KernelNode()
    if cuda.cuGraphGetNodes(captured.handle, nodes, ctypes.byref(count)) or count.value != 1:
        return None
    node = ctypes.c_void_p(nodes[0])
    if cuda.cuGraphNodeGetType(node, ctypes.byref(kind)) or kind.value != _KERNEL_NODE:
        return None
    if cuda.cuGraphKernelNodeGetParams_v2(node, ctypes.byref(kernel)):
        return None
    attributes = {number: words for number in (*_KEPT, *_TYING) if any(words := _attribute(cuda, node, number))}
    if not attributes.keys().isdisjoint(_TYING):
        return None
    grid, block = (kernel.grid_x, kernel.grid_y, kernel.grid_z), (kernel.block_x, kernel.block_y, kernel.block_z)
    config = launches.config_of(grid, block, kernel.shared, stream, [*attributes.items()])
    launch: Any = functools.partial(
        cuda.cuLaunchKernelEx,
        ctypes.byref(config),
        ctypes.c_void_p.from_param(kernel.function or kernel.kernel),
        ctypes.c_void_p.from_param(kernel.parameters),
        ctypes.c_void_p.from_param(kernel.extra),  # in place of parameters, for some kernels
    )
    launch.keep = captured  # whose node owns both
    return launch  # type: ignore[no-any-return]  # ctypes knows no types


def _attribute(cuda: Any, node: ctypes.c_void_p, number: int) -> list[int]:
    """The words of a node's launch attribute; none if it has no such attribute."""
    words = (ctypes.c_uint * 16)()
    return [] if cuda.cuGraphKernelNodeGetAttribute(node, number, ctypes.byref(words)) else [*words]
