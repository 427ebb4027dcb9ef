"""The launch of a reference: a kernel or a configuration on arrays of its own, whose outputs are the answers.

Large answers stay on the device, as doubles or integers: to copy them to the host and back would take longer than the
launch.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from tuner.devices.base import GUARD
from tuner.devices.built import build
from tuner.devices.program import Program
from tuner.errors import DeviceError, WrongResult
from tuner.measure.answers.placing import Formula
from tuner.measure.answers.poison import INPUT_GUARD, NAN, NUMBER
from tuner.measure.images import Images
from tuner.measure.kernels.element_text import STORED, value_text
from tuner.space import operation
from tuner.space.chosen_types import dtype
from tuner.space.dtypes import DTYPES
from tuner.space.values.elements import ON_DEVICE_BYTES

if TYPE_CHECKING:
    from tuner.devices.base import Array, Buffer
    from tuner.measure.answers.placing import Placer
    from tuner.space.argument import Argument
    from tuner.space.instance import Instance
    from tuner.space.values.elements import Elements

Arrays = dict[str, "Array"]
# The content of outputs before a kernel computes their answers. If an element still holds the first poison, the kernel
# runs again over the second one; an element that then holds that is unwritten.
POISONS = NAN, NUMBER
DOUBLE = DTYPES["float64"]
_CHUNKS = 1 << 16  # at most, of an output whose poisoned elements a device counts


class ReferenceLaunch:
    """One configuration on separate arrays. Unwritten output elements and writes out of bounds are errors."""

    def __init__(self, placer: Placer, instance: Instance, contents: Mapping[str, Elements]) -> None:
        """Build it, and allocate its arrays. Raises TrialError or DeviceError."""
        device, op = placer.device, instance.space.operation
        self._device, self._placer, self._contents = device, placer, contents
        program = Program(device, build(device.compiler, instance))
        self._scope = program.scope
        self._arrays: dict[str, tuple[Argument, Buffer]] = {}
        work = program.work(self._allocate)
        for argument in op.arrays:
            self._allocate(argument, operation.nbytes(argument, self._scope))
        self._images = Images(program, {name: buffer for name, (_, buffer) in self._arrays.items()})
        self._call = device.bind(work, self._images.handles)

    def _allocate(self, argument: Argument, nbytes: int) -> Buffer:
        buffer = self._device.allocate(nbytes)
        self._arrays[argument.name] = argument, buffer
        return buffer

    def outputs(self) -> Arrays:
        """The outputs. Raises WrongResult if the configuration does not write an element."""
        outputs = self._run(POISONS[0])
        unwritten = self._unwritten(outputs, POISONS[0])
        if any(map(np.any, unwritten.values())):  # or the answers equal the poison by chance
            again = self._unwritten(self._run(POISONS[1]), POISONS[1])
            for name, mask in unwritten.items():
                if np.any(both := mask & again[name]):
                    index = ", ".join(str(int(i)) for i in np.unravel_index(int(np.argmax(both)), outputs[name].shape))
                    raise WrongResult(f"{name}[{index}] is not written; write every element, or say role: inout")
        return outputs

    def place(self, name: str, memory: Buffer) -> None:
        """Fill `memory` with the answers of an output: doubles, or integers of its type.

        Raises DeviceError if elements may be unwritten; `outputs` then says which.
        """
        for poison in POISONS:
            self._launch(poison)
            if not any(self._counts(argument, buffer, poison) for argument, buffer in self._arrays.values()):
                break
        else:
            raise DeviceError(f"{self._device.id}: {name}: elements may be unwritten")
        argument, buffer = self._arrays[name]
        element = dtype(argument, self._scope)
        text = "a0[i]" if element.is_exact else value_text(element, "a0[i]")
        self._placer.evaluate(Formula(text, [(buffer, element)]), memory, element if element.is_exact else DOUBLE)

    def _counts(self, argument: Argument, buffer: Buffer, poison: int) -> bool:
        """Whether any element of a write-only output holds the poison."""
        if argument.role != "out":
            return False
        element = dtype(argument, self._scope)
        size = buffer.nbytes // element.itemsize
        chunks = min(_CHUNKS, size)
        length = -(-size // chunks)
        sums = self._device.allocate(DOUBLE.itemsize * chunks, guard=0)
        text = f"(a0[k] == ({STORED[element.itemsize]})0x{bytes([poison] * element.itemsize).hex()}ul ? 1.0 : 0.0)"
        formula = Formula(text, [(buffer, element)])
        self._placer.fold("sum", formula, (chunks, length, chunks, size), sums)
        counts = np.empty(chunks)
        self._device.read(sums.handle, counts)
        return bool(counts.any())

    def _launch(self, poison: int) -> None:
        checksums: dict[str, bytes] = {}
        for argument, buffer in self._arrays.values():
            guard = poison if argument.role in ("out", "scratch") else INPUT_GUARD
            self._device.fill(buffer.whole, guard, buffer.nbytes + 2 * GUARD)
            if argument.zeroed == "once":
                self._device.zero(buffer)
            if argument.role in ("in", "inout"):
                self._placer.place(self._contents[argument.name], buffer)
            if argument.role == "in" and buffer.nbytes >= ON_DEVICE_BYTES:
                checksums[argument.name] = self._placer.checksum(buffer)
        self._images.fill()
        self._call()
        self._images.collect()
        self._device.synchronize()
        for argument, buffer in self._arrays.values():
            guard = poison if argument.role in ("out", "scratch") else INPUT_GUARD
            self._check_guards(argument.name, buffer, guard)
            if argument.role == "in":
                self._check_unchanged(argument.name, buffer, checksums.get(argument.name))

    def _run(self, poison: int) -> Arrays:
        self._launch(poison)
        outputs = {n: self._empty(a) for n, (a, _) in self._arrays.items() if a.role in ("out", "inout")}
        for name, data in outputs.items():
            self._device.read(self._arrays[name][1].handle, data)
        return outputs

    def _empty(self, argument: Argument) -> Array:
        return np.empty(operation.shape(argument, self._scope), dtype(argument, self._scope).numpy)

    def _unwritten(self, outputs: Arrays, poison: int) -> dict[str, Array]:
        """Which elements of each write-only output still hold the poison."""
        return {
            name: (data.reshape(-1).view(np.uint8).reshape(data.size, -1) == poison).all(axis=1)
            for name, data in outputs.items()
            if self._arrays[name][0].role == "out"
        }

    def _check_guards(self, name: str, buffer: Buffer, byte: int) -> None:
        """Raise WrongResult if a guard of an array holds a byte other than `byte`."""
        for offset, side in ((0, "before the start"), (GUARD + buffer.nbytes, "after the end")):
            guard = np.empty(GUARD, np.uint8)
            self._device.read(buffer.whole, guard, offset)
            if (guard != byte).any():
                raise WrongResult(f"writes {side} of {name}", "writes outside")

    def _check_unchanged(self, name: str, buffer: Buffer, checksum: bytes | None) -> None:
        """Raise WrongResult if an input is not what it was. Without its checksum, the host compares it."""
        if checksum is not None:
            is_same = self._placer.checksum(buffer) == checksum
        else:
            contents = self._contents[name]
            actual = np.empty(contents.size, contents.dtype)
            self._device.read(buffer.handle, actual)
            is_same = actual.tobytes() == contents.array().tobytes()
        if not is_same:
            raise WrongResult(f"writes into {name}, which it may only read")
