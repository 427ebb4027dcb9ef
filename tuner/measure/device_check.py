"""Compares an output with its reference on the device that computed it, by the kernels in `device_check.cu`."""

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
class Comparison:
    """An output beside its reference: how many elements are wrong, and the largest error of the others."""

    wrong: int
    worst: float


class DeviceCheck:
    """References of float32 outputs in device memory, and the kernels that compare with them.

    A comparison reads output and reference once, and copies 24 bytes to the host.
    """

    def __init__(
        self,
        device: Device,
        answers: Mapping[str, Array],
        inputs: Mapping[str, Array],
        copies: Mapping[str, Buffer] | None = None,
    ) -> None:
        """`answers` holds a float64 array for each output, `inputs` the contents of each array the kernel only reads.

        `copies` are the input copies of another check with the same inputs. Raises DeviceError where references and
        copies do not fit the device.
        """
        self._device = device
        text = inlined(Path(__file__).with_name("device_check.cu"))
        kernels = ("check_output", "check_guards", "check_input")
        self._check_output, self._check_guards, self._check_input = (self._load(text, kernel) for kernel in kernels)
        self._counters = device.allocate(6 * 4)
        self.copies = copies or {name: device.upload(data) for name, data in inputs.items()}
        self.references: dict[str, tuple[Buffer, Buffer]] = {}
        for name, answer in answers.items():
            high = answer.astype(np.float32)
            low = (answer - high).astype(np.float32)
            self.references[name] = device.upload(high), device.upload(low)

    def _load(self, text: str, kernel: str) -> Function:
        geometry = Geometry((_BLOCKS, 1, 1), (_THREADS, 1, 1), 0)
        source = Source(text, kernel, (), geometry)
        return self._device.load(self._device.build(source), source)

    def output(self, name: str, output: Buffer, bound: float) -> Comparison:
        """Compare `output` with the reference called `name`. Raises LaunchError where the device has failed."""
        high, low = self.references[name]
        count = np.int64(output.nbytes // 4)
        arguments = [output.handle, high.handle, low.handle, self._counters.handle, count, np.float32(bound)]
        counters = self._run(self._check_output, arguments)
        return Comparison(int(counters[0]), float(counters[2:3].view(np.float32)[0]))

    def guards(self, buffer: Buffer, expected: int) -> tuple[bool, bool]:
        """Whether the guard before and the guard after the array hold a byte other than `expected`."""
        arguments = [buffer.whole, self._counters.handle, np.int64(GUARD), np.int64(buffer.nbytes), np.int32(expected)]
        counters = self._run(self._check_guards, arguments)
        return bool(counters[3]), bool(counters[4])

    def input_changed(self, name: str, buffer: Buffer) -> bool:
        """Whether the input called `name` differs from its copy."""
        arguments = [buffer.handle, self.copies[name].handle, self._counters.handle, np.int64(buffer.nbytes)]
        return bool(self._run(self._check_input, arguments)[5])

    def renew(self, name: str, data: Array) -> None:
        """Write the copy of an input again."""
        self._device.write(self.copies[name].handle, data)

    def _run(self, function: Function, arguments: list[object]) -> Array:
        counters = np.array([0, _NONE, 0, 0, 0, 0], dtype=np.uint32)
        self._device.write(self._counters.handle, counters)
        self._device.bind(function, arguments)()
        self._device.synchronize()
        self._device.read(self._counters.handle, counters)
        return counters
