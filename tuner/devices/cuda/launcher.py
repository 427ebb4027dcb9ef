"""Launches a loaded kernel with whatever arrays a caller passes: reads addresses, checks new ones, and enqueues."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tuner.devices import forking
from tuner.devices.arguments import ArraySpec, address_check
from tuner.devices.cuda import BACKEND, chosen_gpu
from tuner.devices.cuda.arrays import Addresses, Readers, stream_handle
from tuner.devices.cuda.call_graphs import CallGraphs
from tuner.devices.cuda.driver.addresses import context_of, device_of, membership
from tuner.devices.cuda.driver.context import Context
from tuner.devices.cuda.launches import Launch
from tuner.devices.work import Work
from tuner.errors import ArgumentError

MAX_CHECKED = 64  # sets of checked addresses that a launcher caches


def launcher(
    work: Work, specs: Sequence[ArraySpec], context: Context, slow: Addresses
) -> Callable[[Sequence[Any], Any, Any], None]:
    """A function that launches `work` with these arrays, on this stream, with these scalars, as `Device.launcher` says.

    `slow` returns the addresses of arrays that a fast reader rejects, or raises ArgumentError.
    """
    launch = Launch(work)
    enqueue, live = launch.enqueue, forking.live(BACKEND.kind)
    graphs = CallGraphs(context, launch) if CallGraphs.suit(work) else None
    cells: Any = launch.cells
    check, is_ours = address_check(specs), membership(context)
    readers = Readers(specs, context.number, is_ours if chosen_gpu.count() > 1 else None, slow)
    checked: set[tuple[int, ...]] = set()
    last_addresses: Sequence[int] = ()
    last_scalars: Any = None
    last_stream = 0

    def call(arrays: Sequence[Any], stream: Any, scalars: Any) -> None:
        nonlocal enqueue, last_addresses, last_scalars, last_stream
        if not live:
            raise forking.forked(BACKEND.kind)
        first = arrays[0] if arrays else None
        read, current = readers[type(first)]
        addresses = read(arrays)
        if addresses != last_addresses or scalars is not last_scalars:
            enqueue = launch.enqueue  # of whatever the cells hold, in case of an interrupt
            if addresses != last_addresses:
                key = tuple(addresses)
                if key not in checked:  # checked addresses remain aligned and disjoint, and rarely change context
                    check(addresses)
                    if not is_ours(addresses):
                        check_context(context, specs, addresses)
                    if len(checked) >= MAX_CHECKED:
                        checked.clear()
                    checked.add(key)
                last_addresses = ()  # an interrupt may leave only some arguments encoded
                launch.encode(addresses)
                cells[launch.changing] = last_addresses = addresses
            cells[launch.scalars] = last_scalars = scalars
            if graphs is not None:
                enqueue = graphs.with_arguments(addresses, scalars)
        handle = current(first) if stream is None else stream_handle(stream)
        if handle != last_stream:
            launch.to(handle)
            last_stream = handle
        if status := enqueue():
            context.retry(f"launching {work.kernel}", status, enqueue)

    return call


def check_context(context: Context, specs: Sequence[ArraySpec], addresses: Sequence[int]) -> None:
    """Raise ArgumentError if an array is in another context than the kernel. Pooled memory has no context."""
    with context.active():
        for spec, address in zip(specs, addresses, strict=True):
            if context_of(address) not in (None, context.handle.value):
                raise ArgumentError(
                    f"{spec.argument.name}: is in another context of cuda:{device_of(address)} than the kernel, "
                    f"which was loaded on cuda:{context.number}; make the array's context current first (`import "
                    f"pycuda.autoinit` does), then load the kernel"
                )
