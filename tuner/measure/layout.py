"""A set of inputs on the device: what a run begins with, and what its outputs are compared with."""

from collections.abc import Mapping

import numpy as np

from tuner.devices.base import Array, Buffer, Device
from tuner.measure.bench_kernels import BenchKernels
from tuner.measure.input_sets import InputSet
from tuner.space import dtypes
from tuner.space.dtypes import DType

# The bytes that a floating-point output is filled with. A run of the first is NaN in every type. A run of the second is
# a number in every type: a kernel may be right only where its output holds none.
NAN, NUMBER = 0xFF, 0x3F


class Layout:
    """Copies of the arrays that a launch reads, references of the outputs, and calls that use both."""

    def __init__(
        self,
        device: Device,
        kernels: BenchKernels,
        buffers: Mapping[str, Buffer],
        inputs: InputSet,
        copies: Mapping[str, Buffer] | None = None,
        references: Mapping[str, Buffer] | None = None,
    ) -> None:
        """`buffers` are the arrays of the launch. `copies` and `references` are memory of an earlier layout that this
        one takes over. Raises DeviceError where there is too little."""
        self._device, self.inputs = device, inputs
        outputs = {name: dtypes.of(inputs.contents[name].dtype) for name in inputs.outputs}
        self._data = {name: data for name, data in inputs.contents.items() if name not in inputs.write_only}
        self._references = {
            name: reference
            for name, dtype in outputs.items()
            if name in inputs.answers and (reference := _reference(inputs.answers[name], dtype, device)) is not None
        }
        self.copies = {name: self._uploaded(data, (copies or {}).get(name)) for name, data in self._data.items()}
        self.references = {
            name: self._uploaded(data, (references or {}).get(name)) for name, data in self._references.items()
        }
        self._restore = [kernels.restore(buffers[name], copy) for name, copy in self.copies.items()]
        if not device.on_processor:  # there, what was just written is in the cache
            self._restore += [kernels.touch(buffers[name]) for name in self.copies]
        self._poison = {
            fill: [
                kernels.poison(buffers[name], fill)
                if not outputs[name].is_exact or name not in self.references
                else kernels.scramble(buffers[name], self.references[name])
                for name in sorted(inputs.write_only)
            ]
            for fill in (NAN, NUMBER)
        }
        self._check_outputs = [
            kernels.check_output(name, outputs[name], buffers[name], reference, inputs.bounds[name])
            for name, reference in self.references.items()
        ]
        self._check_inputs = [
            kernels.check_input(name, buffers[name], copy) for name, copy in self.copies.items() if name not in outputs
        ]

    def _uploaded(self, data: Array, memory: Buffer | None) -> Buffer:
        if memory is None:
            return self._device.upload(data)
        self._device.write(memory.handle, data)
        return memory

    def prepare(self, fill: int) -> None:
        """Enqueue what makes the arrays ready for a run: inputs as they were, outputs filled with poison.

        Inputs are read and outputs are written last, which warms the caches as a run does.
        """
        for call in (*self._restore, *self._poison[fill]):
            call()

    def check_outputs(self) -> None:
        """Enqueue the comparison of all outputs that have a reference on the device."""
        for call in self._check_outputs:
            call()

    def check_inputs(self) -> None:
        """Enqueue the comparison of all arrays that a kernel may only read."""
        for call in self._check_inputs:
            call()

    def mend(self) -> bool:
        """Write copies and references again where a stray write has hit them; whether one has."""
        pairs = [(self.copies[name], data) for name, data in self._data.items()]
        pairs += [(self.references[name], data) for name, data in self._references.items()]
        hits = [self._mend(memory, data) for memory, data in pairs]
        return any(hits)

    def _mend(self, memory: Buffer, data: Array) -> bool:
        found = np.empty_like(data)
        self._device.read(memory.handle, found)
        if found.tobytes() == data.tobytes():
            return False
        self._device.write(memory.handle, data)
        return True


def _reference(answer: Array, dtype: DType, device: Device) -> Array | None:
    """`answer` in the type that the device compares with; None where only the host can compare."""
    if not dtype.is_exact:
        return answer if device.has_doubles else None
    with np.errstate(invalid="ignore"):
        reference = answer.astype(dtype.numpy)
    return reference if np.array_equal(reference, answer) else None
