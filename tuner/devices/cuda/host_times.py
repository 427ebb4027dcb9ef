"""The host's time of a call that launches a kernel or a graph, and of one that runs cuBLAS, measured once per machine.

Where a kernel is shorter than the host's time of its launch, a program that calls it again and again waits for the
host. The times are those of a kernel that does nothing, and of a product so small that the device keeps up.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from tuner import paths
from tuner.devices.cuda.arrays import PlacedArray, Readers
from tuner.devices.cuda.blas import products
from tuner.devices.cuda.driver.context import launch_error
from tuner.devices.cuda.driver.modules import Module
from tuner.devices.cuda.driver.resources import Graph, Stream
from tuner.devices.cuda.launches import Launch
from tuner.devices.product import HostTimes, Matrices, MatrixProduct
from tuner.devices.work import Function, Work
from tuner.errors import RequestError, TunerError
from tuner.space.step import Geometry

if TYPE_CHECKING:
    from tuner.devices.base import Device
    from tuner.devices.cuda.driver.context import Context

EMPTY = b".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry empty() { ret; }\n\0"  # the driver compiles it
SIZE = 16  # of the product
STEPS = 4  # of the graph
ROUNDS, CALLS = 8, 24
FILE = "call_times.json"
MOST_CHARACTERS = 100_000


def of(device: Device, context: Context) -> HostTimes | None:
    """The times on this machine; None if they cannot be measured, for example because cuBLAS is not installed."""
    key = f"{os.uname().nodename}, {device.name}"
    known = _known()
    if key not in known:
        try:
            known[key] = list(_measured(device, context))
        except (TunerError, OSError):
            return None
        with contextlib.suppress(OSError, RequestError):
            paths.replace(paths.cache() / FILE, json.dumps(known).encode())
    return HostTimes(*known[key])


def _known() -> dict[str, list[float]]:
    """The times in the cache, in ms, by host and device."""
    with contextlib.suppress(OSError, RequestError, ValueError):
        data = json.loads(paths.read_text(paths.cache_folder() / FILE, MOST_CHARACTERS))
        if isinstance(data, dict):
            return {key: times for key, times in data.items() if len(times) == 3 and min(times) > 0}
    return {}


def _measured(device: Device, context: Context) -> HostTimes:
    geometry = Geometry((1, 1, 1), (32, 1, 1), 0)
    kernel = Function(Module(context, EMPTY, "empty").function("empty", "empty", geometry), "empty", geometry)
    launch = Launch(Work.of(kernel, []))
    packed = Matrices.packed(SIZE, SIZE)
    product = MatrixProduct(SIZE, SIZE, SIZE, 1, ("float32", "float32", "float32"), packed, packed, packed)
    library = products.launch(product, [], Readers([], context.number, None, lambda arrays: []), context)
    if library is None:
        raise RequestError("cuBLAS is not installed")
    nbytes = 4 * SIZE * SIZE
    memory = device.allocate(3 * nbytes, guard=0)
    device.fill(memory.handle, 0, 3 * nbytes)
    first = int(memory.handle)
    arrays = [PlacedArray(first + number * nbytes, 0) for number in range(3)]
    with context.active():
        ways: tuple[Callable[[], object], ...] = (
            launch.enqueue,
            functools.partial(library.on_arrays, arrays, None, 1.0, 0.0),
            _graph(context, kernel).launch,
        )
        return HostTimes(*(_shortest(way, device.synchronize) for way in ways))


def _graph(context: Context, kernel: Function) -> Graph:
    stream = Stream(context)
    launch = Launch(Work.of(kernel, []), stream.handle.value or 0)

    def enqueue() -> None:
        for _ in range(STEPS):
            if status := launch.enqueue():
                raise launch_error("capturing an empty kernel", status)

    return Graph(context, stream, enqueue, "capturing an empty kernel")


def _shortest(way: Callable[[], object], synchronize: Callable[[], None]) -> float:
    """The host's time of a call in ms, the least of several rounds."""
    times = []
    for _ in range(ROUNDS):
        synchronize()
        start = time.perf_counter()
        for _ in range(CALLS):
            way()
        times.append((time.perf_counter() - start) / CALLS * 1e3)
    synchronize()
    return min(times)
