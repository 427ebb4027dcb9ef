"""Launches the kernel of a library's call without the library.

To enqueue a product takes cuBLASLt longer on the host than to launch a kernel. A call with the same arguments launches
the same kernel with the same parameters, which a graph of the call holds: CUDA's graphs repeat calls of the library in
the same way.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable

from tuner.devices.cuda import driver
from tuner.devices.cuda.launches import configured
from tuner.errors import LaunchError
from tuner.space.step import Geometry

SEVERAL = 4  # calls with the same arguments, after which further ones are likely
_RELAXED = 2  # CUstreamCaptureMode
_KERNEL = 0  # CUgraphNodeType
_COOPERATIVE, _CLUSTER = 2, 4  # CUlaunchAttributeID
# Attributes of which a launch here sets none: the policy of the cache, of clusters, and of memory between domains.
_OTHERS = (1, 5, 10, 11)
Call = Callable[[], int]


class _Parameters(ctypes.Structure):
    """CUDA_KERNEL_NODE_PARAMS_v2."""

    _fields_ = (
        ("function", ctypes.c_void_p),
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("shared", ctypes.c_uint),
        ("parameters", ctypes.c_void_p),
        ("extra", ctypes.c_void_p),
        ("kernel", ctypes.c_void_p),
        ("context", ctypes.c_void_p),
    )


class FrequentCall:
    """A call with fixed arguments. After SEVERAL calls, `replace` gets what `replayed` returns, or else the call."""

    def __init__(self, call: Call, replayed: Callable[[], Call | None], replace: Callable[[Call], None]) -> None:
        self._call, self._replayed, self._replace, self._count = call, replayed, replace, 0

    def __call__(self) -> int:
        status = self._call()
        self._count += 1
        if self._count == SEVERAL and not status:
            self._replace(self._replayed() or self._call)
        return status


def of(on: Callable[[int], Call | None], stream: int, context: driver.Context) -> Call | None:
    """What launches, on `stream`, the only kernel of a call, which `on` returns for any stream. None if it has another
    number of kernels, or one that is launched in a way that this module does not know."""
    try:
        return _Capture(on, context).launch(stream)
    except LaunchError:
        return None


class _Capture:
    """A graph of a call, which holds the parameters of its kernel."""

    def __init__(self, on: Callable[[int], Call | None], context: driver.Context) -> None:
        """Raises LaunchError."""
        self._context, self._graph, status = context, ctypes.c_void_p(), 1
        with context.apart_from_capture():
            stream = driver.Stream(context)
            call = on(stream.handle.value or 0)
            context.call("capturing", "cuStreamBeginCapture_v2", stream.handle, _RELAXED)
            try:
                with context.active():
                    status = call() if call is not None else status
            finally:
                context.call("capturing", "cuStreamEndCapture", stream.handle, ctypes.byref(self._graph))
        if status:
            raise LaunchError(f"capturing a call of cuBLASLt: status {status}")

    def launch(self, stream: int) -> Call | None:
        """What launches the only kernel on a stream; None if the graph has something else."""
        nodes, count, kind = (ctypes.c_void_p * 2)(), ctypes.c_size_t(2), ctypes.c_int(-1)
        self._ask("cuGraphGetNodes", self._graph, nodes, ctypes.byref(count))
        node, found = ctypes.c_void_p(nodes[0]), _Parameters()
        if count.value == 1:
            self._ask("cuGraphNodeGetType", node, ctypes.byref(kind))
        if kind.value != _KERNEL:
            return None
        self._ask("cuGraphKernelNodeGetParams_v2", node, ctypes.byref(found))
        function = found.function or found.kernel
        if not function or not found.parameters or any(any(self._attribute(node, each)) for each in _OTHERS):
            return None
        cluster = tuple(max(1, extent) for extent in self._attribute(node, _CLUSTER)[:3])
        geometry = Geometry(
            (found.grid[0], found.grid[1], found.grid[2]), (found.block[0], found.block[1], found.block[2]),
            found.shared, (cluster[0], cluster[1], cluster[2]), bool(self._attribute(node, _COOPERATIVE)[0]),
        )  # fmt: skip
        config = configured(geometry, stream)
        config.keep = config.keep, self  # the driver reads the parameters where the graph holds them
        return functools.partial(
            self._context.cuda.cuLaunchKernelEx, ctypes.byref(config), ctypes.c_void_p.from_param(function),
            ctypes.c_void_p.from_param(found.parameters), None,
        )  # fmt: skip

    def _attribute(self, node: ctypes.c_void_p, number: int) -> list[int]:
        """The words of an attribute of a kernel's node."""
        value = (ctypes.c_uint * 16)()
        self._ask("cuGraphKernelNodeGetAttribute", node, number, ctypes.byref(value))
        return [*value]

    def _ask(self, name: str, *arguments: object) -> None:
        self._context.call("reading a graph", name, *arguments)

    def __del__(self) -> None:
        self._context.release("cuGraphDestroy", self._graph)
