"""Library calls that a program repeats: if such a call enqueues a few kernels and memsets, the driver does so without
the library.

cuBLASLt takes longer than the driver to prepare a launch, and does the same at each call with the same arguments. So
the call is captured once, as a CUDA graph would. If it is one kernel, that is launched with the captured parameters.
Otherwise the graph is launched: a kernel that adds up the parts of a sum may begin before the one before it has ended,
which a graph keeps.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from typing import Any

from tuner.devices.cuda import driver, launches
from tuner.errors import LaunchError

BEFORE_CAPTURE = 8  # calls with the same arguments, because a capture takes as long as dozens of calls
MOST_NODES = 4  # of a call: such as a memset, a kernel, and one that adds up the parts of sums
_ACTION = "capturing cuBLAS"
_KERNEL_NODE, _MEMSET_NODE = 0, 2  # of CUgraphNodeType
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


def launch_of(
    context: driver.Context, apart: driver.Stream, call: Callable[[], int], stream: int, plain: Callable[[], int]
) -> Callable[[], int] | None:
    """What `call` enqueues on the stream `apart`, on the stream with the handle `stream` and without the library. It
    returns a status. None if `call` fails, or enqueues anything but at most MOST_NODES kernels and memsets.

    A kernel is launched, and several nodes are a graph. While another graph captures the stream, `plain` is called in
    place of a graph, which no graph captures.
    """
    statuses: list[int] = []
    try:
        with context.apart_from_capture():
            captured = driver.Captured(context, apart, lambda: statuses.append(call()), _ACTION)
            nodes = [] if any(statuses) else _nodes(context.cuda, captured)
            if not nodes or any(_kind(context.cuda, node) not in (_KERNEL_NODE, _MEMSET_NODE) for node in nodes):
                return None
            if len(nodes) > 1:
                return _graph_launch(context, captured, stream, plain)
    except LaunchError:
        return None
    launch: Any = _launching(context.cuda, nodes[0], stream) if _kind(context.cuda, nodes[0]) == _KERNEL_NODE else None
    if launch is not None:
        launch.keep = captured  # whose node owns the parameters
    return launch  # type: ignore[no-any-return]  # ctypes knows no types


def _nodes(cuda: Any, captured: driver.Captured) -> list[ctypes.c_void_p]:
    """The nodes of a graph; none if they are more than MOST_NODES."""
    found, count = (ctypes.c_void_p * MOST_NODES)(), ctypes.c_size_t()
    if cuda.cuGraphGetNodes(captured.handle, None, ctypes.byref(count)) or count.value > MOST_NODES:
        return []
    if cuda.cuGraphGetNodes(captured.handle, found, ctypes.byref(count)):
        return []
    return [ctypes.c_void_p(node) for node in found[: count.value]]


def _kind(cuda: Any, node: ctypes.c_void_p) -> int:
    kind = ctypes.c_int(-1)
    return -1 if cuda.cuGraphNodeGetType(node, ctypes.byref(kind)) else kind.value


def _graph_launch(
    context: driver.Context, captured: driver.Captured, stream: int, plain: Callable[[], int]
) -> Callable[[], int]:
    """A launch of a graph on a stream. Raises LaunchError."""
    graph = driver.Executable(context, captured, _ACTION)
    launch: Any = functools.partial(context.cuda.cuGraphLaunch, graph.handle, ctypes.c_void_p.from_param(stream))
    if stream not in driver.DEFAULT_STREAM:
        is_captured = driver.capture_reader(stream)
        whole = launch

        def launch() -> int:
            return plain() if is_captured() else whole()

    launch.keep = graph
    return launch  # type: ignore[no-any-return]  # ctypes knows no types


def _launching(cuda: Any, node: ctypes.c_void_p, stream: int) -> Callable[[], int] | None:
    kernel = _KernelNode()
    if cuda.cuGraphKernelNodeGetParams_v2(node, ctypes.byref(kernel)):
        return None
    attributes = {number: words for number in (*_KEPT, *_TYING) if any(words := _attribute(cuda, node, number))}
    if not attributes.keys().isdisjoint(_TYING):
        return None
    grid, block = (kernel.grid_x, kernel.grid_y, kernel.grid_z), (kernel.block_x, kernel.block_y, kernel.block_z)
    config = launches.config_of(grid, block, kernel.shared, stream, [*attributes.items()])
    return functools.partial(
        cuda.cuLaunchKernelEx,
        ctypes.byref(config),
        ctypes.c_void_p.from_param(kernel.function or kernel.kernel),
        ctypes.c_void_p.from_param(kernel.parameters),
        ctypes.c_void_p.from_param(kernel.extra),  # in place of parameters, for some kernels
    )


def _attribute(cuda: Any, node: ctypes.c_void_p, number: int) -> list[int]:
    """The words of a node's launch attribute; none if it has no such attribute."""
    words = (ctypes.c_uint * 16)()
    return [] if cuda.cuGraphKernelNodeGetAttribute(node, number, ctypes.byref(words)) else [*words]
