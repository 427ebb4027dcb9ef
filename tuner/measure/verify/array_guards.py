"""The guards on both sides of each array of a workbench, checked on the device."""

from __future__ import annotations

from collections.abc import Mapping, Set

import numpy as np

from tuner.devices.base import GUARD, Buffer, Device
from tuner.measure.answers.poison import INPUT_GUARD, OUTPUT_GUARD
from tuner.measure.kernels.bench_kernels import BenchKernels

# Bytes. A smaller array lies in ordinary pages, so guards that this process has written leave the array's own pages to
# its forks; of huge pages, the guards would take some of the array's.
SMALL = 2 << 20


class ArrayGuards:
    """The guards of these arrays. Those of inputs are NaN, so a read out of bounds spoils the result."""

    def __init__(self, device: Device, kernels: BenchKernels, buffers: Mapping[str, Buffer], outputs: Set[str]) -> None:
        self._device, self._kernels, self._buffers = device, kernels, buffers
        self._bytes = {name: OUTPUT_GUARD if name in outputs else INPUT_GUARD for name in buffers}
        self._are_written = False  # by this object
        self._checks = [kernels.check_guards(name, buffer, self._bytes[name]) for name, buffer in buffers.items()]

    def check(self) -> None:
        """Enqueue the checks. The kernels then count what has changed."""
        for call in self._checks:
            call()

    def are_whole(self) -> bool:
        """Whether the guards are as this object wrote them. Finding out writes to no page that a fork shares."""
        if not self._are_written:
            return False
        self._kernels.clear()
        self.check()
        return not any(counts.before or counts.after for counts in self._kernels.counts().values())

    def write(self) -> None:
        """Write the guards. A small array is overwritten with them, because its content is written before each run."""
        self._are_written = True
        for name, buffer in self._buffers.items():
            if buffer.nbytes < SMALL:
                self._device.fill(buffer.whole, self._bytes[name], buffer.nbytes + 2 * GUARD)
                continue
            guard = np.full(GUARD, self._bytes[name], np.uint8)
            for offset in (0, GUARD + buffer.nbytes):
                self._device.write(buffer.whole, guard, offset)
