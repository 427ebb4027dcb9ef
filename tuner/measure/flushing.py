"""Emptying the caches of a device before a run, by reading and writing more memory than they hold.

A constant is not written: some devices compress it, and the processor's fill instructions go past the caches.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from tuner.children import processors
from tuner.classes import dataclass
from tuner.devices import caches
from tuner.measure.kernels.device_kernels import THREADS, Call, DeviceKernels

if TYPE_CHECKING:
    from tuner.devices.base import Device

FACTOR = 2  # how many times the caches' size a flush reads and writes
LEAST_BYTES = 32 << 20  # assumed size of caches that the system does not list
CHAIN = 1 << 20  # bytes of the chain
LINE = 128  # bytes, of which each begins another line of the caches
PASSES = 5  # of which the fastest counts, because other programs also empty caches
# How many times longer a line takes from memory than from a cache, at least: on a processor and on a GPU.
LEAST_RATIOS = {True: 3.0, False: 1.4}
_WORD = 16  # bytes that a thread reads and writes at once


@dataclass(frozen=True)
class Chase:
    """The time of one step through a chain of lines, in ns: from the caches, after a flush, and from memory.

    The last one is None if the device has no instruction that evicts a line.
    """

    cached_ns: float
    flushed_ns: float
    evicted_ns: float | None
    least_ratio: float

    @property
    def is_flushed(self) -> bool:
        """Whether most lines came from memory after the flush."""
        if self.evicted_ns is None:
            return self.flushed_ns >= self.least_ratio * self.cached_ns
        return self.flushed_ns >= (self.cached_ns + self.evicted_ns) / 2

    def __str__(self) -> str:
        times = f"reading a line takes {self.cached_ns:.3g} ns before a flush and {self.flushed_ns:.3g} ns after it"
        if self.evicted_ns is not None:
            times += f", and {self.evicted_ns:.3g} ns from memory"
        if self.is_flushed:
            return f"--flush empties the caches: {times}"
        return f"--flush does not empty the caches of this device: {times}; the times are those of warm caches"


class Flusher:
    """Empties the caches of a device: on the host, those of each processor that this process may use."""

    def __init__(self, device: Device) -> None:
        """Raises DeviceError if memory does not suffice."""
        self._device, self._kernels = device, DeviceKernels(device, "bench_kernels.cu")
        self._processors = sorted(processors.allowed()) if device.runs_in_process else []
        sizes = _shares(self._processors) or [FACTOR * max(device.last_cache or 0, LEAST_BYTES)]
        self.memory = [device.allocate(nbytes) for nbytes in sizes]
        self._sweeps = [
            self._kernels.bind("sweep", -(-each.nbytes // _WORD), [each.handle, np.int64(each.nbytes)])
            for each in self.memory
        ]

    def __call__(self) -> None:
        """Enqueue a flush."""
        if not self._processors:
            for sweep in self._sweeps:
                sweep()
            return
        _at_once([_on(p, sweep) for p, sweep in zip(self._processors, self._sweeps, strict=True)])

    def chase(self) -> Chase:
        """Show whether a flush works. On the host, the chain is in the caches of the last processor."""
        device, lines = self._device, CHAIN // LINE
        order = np.random.default_rng().permutation(lines)
        chain = np.zeros(CHAIN // 4, np.int32)
        chain[order * (LINE // 4)] = np.roll(order, -1) * (LINE // 4)
        memory, sink = device.upload(chain), device.upload(np.zeros(1, np.int32))
        step = self._kernels.bind("chase", THREADS, [memory.handle, sink.handle, np.int64(lines)])
        cached, flushed = (self._fastest(step, before) / lines for before in (_nothing, self))
        evicted = None
        if device.runs_in_process:
            evict = self._kernels.bind("evict", THREADS, [memory.handle, sink.handle, np.int64(CHAIN)])
            evict()
            can = np.empty(1, np.int32)
            device.read(sink.handle, can)
            evicted = self._fastest(step, evict) / lines if can[0] else None
        return Chase(cached, flushed, evicted, LEAST_RATIOS[device.on_processor])

    def _fastest(self, call: Call, before: Call) -> float:
        """The shortest time of `call` in ns, each time right after `before`."""
        place = self._processors[-1] if self._processors else None
        times = list[float]()
        for _ in range(PASSES):
            self._timed(call, place)
            before()
            times.append(self._timed(call, place))
        return min(times) * 1e6

    def _timed(self, call: Call, processor: int | None) -> float:
        """The time of a call in ms, on one processor if its number is given."""
        timer = self._device.timer()

        def run() -> None:
            timer.start()
            call()
            timer.stop()
            self._device.synchronize()

        if processor is None:
            run()
        else:
            _at_once([_on(processor, run)])
        return timer.milliseconds()


def _nothing() -> None:
    """What precedes a pass through the caches."""


def _shares(used: Sequence[int]) -> list[int]:
    """How many bytes each of these processors sweeps: FACTOR times its caches, of a shared one its part."""
    return [FACTOR * sum(cache.share(used) for cache in caches.of(p)) or LEAST_BYTES for p in used]


def _on(processor: int, call: Call) -> Callable[[], None]:
    """The same call in a thread that is bound to a processor."""

    def bound() -> None:
        os.sched_setaffinity(0, [processor])
        call()

    return bound


def _at_once(calls: Sequence[Call]) -> None:
    """Run each call in a thread of its own, and wait for all."""
    threads = [threading.Thread(target=call) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
