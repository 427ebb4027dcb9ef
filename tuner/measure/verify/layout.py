"""One input set on the device: copies of the inputs to restore them from, and the expected outputs to compare with."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence, Set

import numpy as np

from tuner.devices.base import Array, Buffer
from tuner.measure.answers.placing import Placed, Placer
from tuner.measure.answers.poison import NAN, NUMBER, scrambled
from tuner.measure.kernels.bench_kernels import BenchKernels
from tuner.measure.kernels.device_kernels import Call
from tuner.measure.verify.input_sets import InputSet
from tuner.space.dtypes import DType
from tuner.space.values.elements import Elements, Held

MOST_READ_BACK = 64 << 20  # bytes of an array that is compared with the host; a checksum of a larger one is faster


class Layout:
    """Copies of the arrays that a launch reads, references of its outputs, and calls to kernels that use both."""

    def __init__(
        self,
        placer: Placer,
        kernels: BenchKernels,
        buffers: Mapping[str, Buffer],
        inputs: InputSet,
        copies: Mapping[str, Buffer] | None = None,
        references: Mapping[str, Buffer] | None = None,
        like: Layout | None = None,
    ) -> None:
        """`buffers` are the arrays of the launch, without those private to a configuration.

        `copies` and `references` are memory of an earlier layout that this one takes over. `like` is a layout whose
        copies of large arrays serve this one, too, where they hold the same. Raises DeviceError if memory does not
        suffice.
        """
        device = self._device = placer.device
        self._placer, self._kernels, self._buffers, self.inputs = placer, kernels, buffers, inputs
        self._data = {name: data for name, data in inputs.contents.items() if name not in inputs.write_only}
        compared = inputs.answers.keys() & inputs.outputs
        self._references = {
            name: _reference(inputs.answers[name], self._dtype(name))
            for name in sorted(compared)
            if not self._is_real(name) or device.has_doubles
        }
        written = sorted(inputs.write_only & buffers.keys())
        self._secrets = {name: secrets.randbits(31) for name in written if not self._is_real(name)}
        self.compared = {name for name in self._references if self._can_compare(name)}
        self._place(copies or {}, references or {}, like)
        self._bind(compared, written)

    def _place(self, copies: Mapping[str, Buffer], references: Mapping[str, Buffer], like: Layout | None) -> None:
        """Put the inputs and the references into memory."""
        held = {name: like.held(data) if like is not None else None for name, data in self._data.items()}
        self.copies = {
            name: self._uploaded(data, copies.get(name)) if (known := held[name]) is None else known[0]
            for name, data in self._data.items()
        }
        self.references = {
            name: data.memory if isinstance(data, Placed) else self._uploaded(data, references.get(name))
            for name, data in self._references.items()
        }
        both = ((self._data, self.copies), (self._references, self.references))
        self._placed = [(memory[name], data) for datas, memory in both for name, data in datas.items()]
        sums = {id(known[0]): known[1] for known in held.values() if known is not None}
        self._checksums = {
            number: sums.get(id(memory)) or self._placer.checksum(memory)
            for number, (memory, data) in enumerate(self._placed)
            if not _is_read_back(data)
        }

    def _bind(self, compared: Set[str], written: Sequence[str]) -> None:
        """Bind the calls that prepare and check a run, in which the outputs `compared` have answers, and those
        that are `written` alone are poisoned."""
        kernels, buffers, inputs = self._kernels, self._buffers, self.inputs
        self._restore = [kernels.restore(buffers[name], copy) for name, copy in self.copies.items()]
        if not self._device.on_processor:  # on a processor, data just written are in the cache anyway
            self._restore += [kernels.touch(buffers[name]) for name in self.copies]
        self._poison = {
            fill: [call for name in written for call in self._poisoning(name, fill)] for fill in (NAN, NUMBER)
        }
        self._check_outputs = [
            kernels.check_output(
                name, self._dtype(name), buffers[name], self.references[name], bound, self._secrets.get(name)
            )
            for name, bound in inputs.bounds.items()
            if name in self.compared
        ]
        # Elements that nothing compares may be unwritten: they hold the poison, which differs from run to run.
        self.digests = {name: kernels.digest(name, buffers[name]) for name in sorted(compared & buffers.keys())}
        self._check_inputs = [
            kernels.check_input(name, buffers[name], copy)
            for name, copy in self.copies.items()
            if name not in inputs.outputs
        ]

    def held(self, data: Elements) -> tuple[Buffer, bytes] | None:
        """The memory that holds `data`, and its checksum; None if none does, or if the host compares it."""
        places = (number for number, (_, other) in enumerate(self._placed) if other is data)
        number = next(places, None)
        return None if number not in self._checksums else (self._placed[number][0], self._checksums[number])

    def _dtype(self, name: str) -> DType:
        return self.inputs.contents[name].element

    def _is_real(self, name: str) -> bool:
        return not self._dtype(name).is_exact

    def _can_compare(self, name: str) -> bool:
        """Whether the device, rather than the host, can compare an output with its reference."""
        answer, bound = self.inputs.answers[name], self.inputs.bounds[name]
        exact = (
            self._is_real(name)
            or isinstance(answer, Placed)
            or np.array_equal(self._references[name].array(), answer.array())
        )
        return exact and (self._device.has_doubles or bound.is_exact)

    def _poisoning(self, name: str, fill: int) -> list[Call]:
        """The calls that poison an output.

        The poison of integers is derived from their answers; without answers, from zeros.
        """
        array, kernels = self._buffers[name], self._kernels
        if self._is_real(name):
            return [kernels.poison(array, fill)]
        own = [] if name in self.references else [kernels.poison(array, 0)]
        reference = self.references.get(name, array)
        return [*own, kernels.scramble(self._dtype(name), array, reference, self._secrets[name])]

    def poison_of(self, name: str) -> Array | None:
        """The poison of an output of integers, as on the device; None if it is not poisoned this way."""
        if name not in self._secrets or name not in self._references:
            return None
        return scrambled(self._references[name].array(self._dtype(name).numpy), self._secrets[name])

    def _uploaded(self, data: Elements, memory: Buffer | None) -> Buffer:
        if memory is None:
            return self._placer.placed(data)
        self._placer.place(data, memory)
        return memory

    def prepare(self, fill: int) -> None:
        """Enqueue the preparation of a run: restore the inputs and poison the outputs.

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

    def repair(self) -> bool:
        """Rewrite copies and references that a stray write has changed. Returns whether there were any."""
        changed = [number for number in range(len(self._placed)) if self._is_changed(number)]
        for number in changed:
            memory, data = self._placed[number]
            self._placer.place(data, memory)
            if number in self._checksums:  # a recomputed product may be rounded differently
                self._checksums[number] = self._placer.checksum(memory)
        return bool(changed)

    def _is_changed(self, number: int) -> bool:
        memory, data = self._placed[number]
        if number in self._checksums:
            return self._placer.checksum(memory) != self._checksums[number]
        actual = np.empty(data.shape, data.dtype)
        self._device.read(memory.handle, actual)
        return actual.tobytes() != data.array().tobytes()


def _is_read_back(data: Elements) -> bool:
    """Whether memory that holds `data` is compared on the host, rather than by its checksum on the device."""
    return isinstance(data, Held) and data.nbytes <= MOST_READ_BACK


def _reference(answer: Elements, dtype: DType) -> Elements:
    """`answer` in the type that the device compares; integers out of the type's range become any value."""
    if not dtype.is_exact or isinstance(answer, Placed):
        return answer
    with np.errstate(invalid="ignore"):
        return Held(answer.array(dtype.numpy))
