"""Library calls that a program repeats: if such a call enqueues a few kernels and memsets, the driver does so without
the library.

cuBLASLt takes longer than the driver to prepare a launch, and does the same at each call with the same arguments. So
the call is captured once, as a CUDA graph would, and its kernels are launched with the captured parameters. A graph of
several kernels would take even less of the host's time, but 1 us more of the device's.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Sequence
from typing import Any

from tuner.devices.cuda.driver.context import Context
from tuner.devices.cuda.driver.launch_config import CLUSTER_DIMENSION, COOPERATIVE, PROGRAMMATIC, config_of
from tuner.devices.cuda.driver.resources import Captured, Stream
from tuner.errors import LaunchError

BEFORE_CAPTURE = 8  # calls with the same arguments, because a capture takes as long as dozens of calls
MOST_NODES = 4  # of a call: such as a memset, a kernel, and one that adds up the parts of sums
_ACTION = "capturing cuBLAS"
_KERNEL_NODE, _MEMSET_NODE = 0, 2  # of CUgraphNodeType
_WHOLE, _EARLY = 0, 0x10001  # CUgraphEdgeData: no ports; from the port "programmatic", of the type "programmatic"
# Of CUlaunchAttributeID: what a launch keeps, and what ties it to its neighbours. Others do not change what runs.
_POLICY, _PREFERRED_CLUSTER, _CARVEOUT = 5, 11, 14
_KEPT = (COOPERATIVE, CLUSTER_DIMENSION, _POLICY, _PREFERRED_CLUSTER, _CARVEOUT)
_EVENT, _COMPLETION_EVENT, _UPDATABLE = 7, 12, 13
_TYING = (PROGRAMMATIC, _EVENT, _COMPLETION_EVENT, _UPDATABLE)


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


class _MemsetNode(ctypes.Structure):
    """CUDA_MEMSET_NODE_PARAMS. `element` is the size of an element in bytes, and `width` the number of elements."""

    _fields_ = (
        ("target", ctypes.c_uint64),
        ("pitch", ctypes.c_size_t),
        ("value", ctypes.c_uint),
        ("element", ctypes.c_uint),
        ("width", ctypes.c_size_t),
        ("height", ctypes.c_size_t),
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
    context: Context, apart: Stream, call: Callable[[], int], stream: int, most: int
) -> Callable[[], int] | None:
    """What `call` enqueues on the stream `apart`, on the stream with the handle `stream` and without the library. It
    returns a status. None if `call` fails, or enqueues anything but a chain of at most `most` kernels and memsets."""
    statuses: list[int] = []
    try:
        with context.apart_from_capture():
            captured = Captured(context, apart, lambda: statuses.append(call()), _ACTION)
    except LaunchError:
        return None
    chain = [] if any(statuses) else _chain(context.cuda, captured, most)
    enqueues = [_enqueuing(context.cuda, node, is_early, stream) for node, is_early in chain]
    if not enqueues or None in enqueues:
        return None
    launch: Any = _in_turn(enqueues)
    launch.keep = captured  # whose nodes own the parameters
    return launch  # type: ignore[no-any-return]  # ctypes knows no types


def _in_turn(enqueues: Sequence[Any]) -> Callable[[], int]:
    """A call that makes these calls up to the first that fails, and returns its status."""
    first: Callable[[], int]
    first, *others = enqueues
    if not others:
        return first
    rest = _in_turn(others)
    return lambda: first() or rest()


def _chain(cuda: Any, captured: Captured, most: int) -> list[tuple[ctypes.c_void_p, bool]]:
    """The nodes of a graph in order, each with whether it may begin before the one before it has ended, as the kernel
    that adds up the parts of a sum may. None if they are more than `most`, or no chain."""
    nodes, count = (ctypes.c_void_p * most)(), ctypes.c_size_t()
    if cuda.cuGraphGetNodes(captured.handle, None, ctypes.byref(count)) or not 0 < count.value <= most:
        return []
    if cuda.cuGraphGetNodes(captured.handle, nodes, ctypes.byref(count)):
        return []
    if count.value == 1:
        return [(ctypes.c_void_p(nodes[0]), False)]
    edges = ctypes.c_size_t(count.value)
    begins, ends, data = ((ctypes.c_uint64 * count.value)() for _ in range(3))
    get = getattr(cuda, "cuGraphGetEdges_v2", None)  # of drivers from CUDA 12.3 on
    if get is None or get(captured.handle, begins, ends, data, ctypes.byref(edges)):
        return []
    after = {begin: (end, kind) for begin, end, kind in zip(begins, ends, data, strict=True) if begin}
    firsts = [node for node in nodes[: count.value] if node not in {end for end, _ in after.values()}]
    if edges.value != count.value - 1 or len(after) != edges.value or len(firsts) != 1:
        return []
    chain = [(ctypes.c_void_p(firsts[0]), False)]
    while (following := after.pop(chain[-1][0].value or 0, None)) is not None:
        if following[1] not in (_WHOLE, _EARLY):
            return []
        chain.append((ctypes.c_void_p(following[0]), following[1] == _EARLY))
    return chain if len(chain) == count.value else []


def _enqueuing(cuda: Any, node: ctypes.c_void_p, is_early: bool, stream: int) -> Callable[[], int] | None:
    """What enqueues a node on a stream; None if it is another than a kernel that runs by itself, or a memset."""
    kind = ctypes.c_int(-1)
    if cuda.cuGraphNodeGetType(node, ctypes.byref(kind)):
        return None
    if kind.value == _KERNEL_NODE:
        return _launching(cuda, node, is_early, stream)
    return _setting(cuda, node, stream) if kind.value == _MEMSET_NODE and not is_early else None


def _launching(cuda: Any, node: ctypes.c_void_p, is_early: bool, stream: int) -> Callable[[], int] | None:
    kernel = _KernelNode()
    if cuda.cuGraphKernelNodeGetParams_v2(node, ctypes.byref(kernel)):
        return None
    attributes = {number: words for number in (*_KEPT, *_TYING) if any(words := _attribute(cuda, node, number))}
    if not attributes.keys().isdisjoint(_TYING):
        return None
    if is_early:
        attributes[PROGRAMMATIC] = [1]
    grid, block = (kernel.grid_x, kernel.grid_y, kernel.grid_z), (kernel.block_x, kernel.block_y, kernel.block_z)
    config = config_of(grid, block, kernel.shared, stream, [*attributes.items()])
    return functools.partial(
        cuda.cuLaunchKernelEx,
        ctypes.byref(config),
        ctypes.c_void_p.from_param(kernel.function or kernel.kernel),
        ctypes.c_void_p.from_param(kernel.parameters),
        ctypes.c_void_p.from_param(kernel.extra),  # in place of parameters, for some kernels
    )


def _setting(cuda: Any, node: ctypes.c_void_p, stream: int) -> Callable[[], int] | None:
    about = _MemsetNode()
    if cuda.cuGraphMemsetNodeGetParams(node, ctypes.byref(about)) or about.height != 1:
        return None
    names = {1: "cuMemsetD8Async", 2: "cuMemsetD16Async", 4: "cuMemsetD32Async"}
    if about.element not in names:
        return None
    return functools.partial(
        getattr(cuda, names[about.element]), ctypes.c_uint64(about.target), about.value,
        ctypes.c_size_t(about.width), ctypes.c_void_p.from_param(stream),
    )  # fmt: skip


def _attribute(cuda: Any, node: ctypes.c_void_p, number: int) -> list[int]:
    """The words of a node's launch attribute; none if it has no such attribute."""
    words = (ctypes.c_uint * 16)()
    return [] if cuda.cuGraphKernelNodeGetAttribute(node, number, ctypes.byref(words)) else [*words]
