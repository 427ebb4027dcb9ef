"""Comparing an output with its reference on the device that made it; `check.cu` holds the kernels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tuner.devices.base import GUARD, Array, Buffer, Device, Function
from tuner.space.model import Geometry
from tuner.space.source import Source, inlined

_NONE = 0xFFFFFFFF
_THREADS, _BLOCKS = 256, 1024


@dataclass(frozen=True)
class Seen:
    """What a check saw: how many elements are wrong, and the largest error of the others."""

    wrong: int
    worst: float


class DeviceCheck:
    """References of float32 outputs, kept on the device, and the kernels that compare with them.

    A check reads the output once and the reference once, and copies 24 bytes to the host.
    """

    def __init__(
        self,
        device: Device,
        answers: Mapping[str, Array],
        inputs: Mapping[str, Array],
        copies: Mapping[str, Buffer] | None = None,
    ) -> None:
        """`answers` are float64 arrays by the names of their outputs, `inputs` what the kernel may only read; `copies`
        are those of another check with the same inputs.

        Raises DeviceError where they do not fit the device a second time.
        """
        self._device = device
        text = inlined(Path(__file__).with_name("device_check.cu"))
        kernels = ("check_output", "check_guards", "check_input")
        self._output, self._guards, self._input = (self._loaded(text, kernel) for kernel in kernels)
        self._found = device.allocate(6 * 4)
        self.copies = copies or {name: device.upload(data) for name, data in inputs.items()}
        self._references: dict[str, tuple[Buffer, Buffer]] = {}
        for name, answer in answers.items():
            high = answer.astype(np.float32)
            low = (answer - high).astype(np.float32)
            self._references[name] = device.upload(high), device.upload(low)

    def _loaded(self, text: str, kernel: str) -> Function:
        geometry = Geometry((_BLOCKS, 1, 1), (_THREADS, 1, 1), 0)
        source = Source(text, kernel, (), geometry)
        return self._device.load(self._device.build(source), source)

    def output(self, name: str, output: Buffer, bound: float) -> Seen:
        """Compare `output` with the reference called `name`. Raises LaunchError where the device has failed."""
        high, low = self._references[name]
        count = np.int64(output.nbytes // 4)
        arguments = [output.handle, high.handle, low.handle, self._found.handle, count, np.float32(bound)]
        found = self._run(self._output, arguments)
        return Seen(int(found[0]), float(found[2:3].view(np.float32)[0]))

    def guards(self, buffer: Buffer, expected: int) -> tuple[bool, bool]:
        """Whether the guard before and the guard after the array hold anything but the byte `expected`."""
        arguments = [buffer.whole, self._found.handle, np.int64(GUARD), np.int64(buffer.nbytes), np.int32(expected)]
        found = self._run(self._guards, arguments)
        return bool(found[3]), bool(found[4])

    def input_changed(self, name: str, buffer: Buffer) -> bool:
        """Whether the input called `name` differs from what it was given."""
        arguments = [buffer.handle, self.copies[name].handle, self._found.handle, np.int64(buffer.nbytes)]
        return bool(self._run(self._input, arguments)[5])

    def renew(self, name: str, data: Array) -> None:
        """Write the copy of an input again."""
        self._device.write(self.copies[name].handle, data)

    def _run(self, function: Function, arguments: list[object]) -> Array:
        start = np.array([0, _NONE, 0, 0, 0, 0], dtype=np.uint32)
        self._device.write(self._found.handle, start)
        self._device.bind(function, arguments)()
        self._device.synchronize()
        self._device.read(self._found.handle, start)
        return start
