"""Kernels of ours that prepare the arrays of a workbench and check them, where they lie; the text is
`bench_kernels.cu`."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tuner.devices.base import GUARD, Array, Buffer, Device
from tuner.measure.bound import Bound
from tuner.measure.kernels.device_kernels import STORED, Call, DeviceKernels
from tuner.space.dtypes import DType

_WORD = 16  # bytes that a thread reads at once
_COUNTERS = 6  # for each array
_ROOM = 32  # arrays that there are counters for, at least


@dataclass(frozen=True)
class Counts:
    """What the checks have found of one array since the counters were cleared: wrong elements, the largest error of a
    right one (as in `Verdict.of`), changed bytes in the guards before and after it, changed words of an input or of
    scratch that should be zero, elements that nobody has written."""

    wrong: int
    worst: float
    before: int
    after: int
    changed: int
    unwritten: int


class BenchKernels:
    """Calls that each enqueue one of our kernels, and the counters that the checks add to.

    A call is bound to its arrays once. Nothing waits for the device until `counts` reads the counters.
    """

    def __init__(self, device: Device, arrays: Sequence[str]) -> None:
        """`arrays` are the names of all arrays of the workbench. Raises DeviceError where there is no compiler."""
        self._device = device
        self._kernels = DeviceKernels(device, "bench_kernels.cu")
        self._names = list(arrays)
        self._room = max(_ROOM, len(self._names))
        self._counters = device.allocate(self._room * _COUNTERS * 4, guard=0)
        self.clear()

    def add(self, arrays: Sequence[str]) -> bool:
        """Count for these arrays, too. Returns whether there is room for that."""
        names = list(dict.fromkeys([*self._names, *arrays]))
        if len(names) > self._room:
            return False
        self._names = names
        self.clear()
        return True

    def restore(self, array: Buffer, copy: Buffer) -> Call:
        """Copies `copy` into `array`."""
        return self._bind("restore", array.nbytes, [array.handle, copy.handle, np.int64(array.nbytes)])

    def poison(self, array: Buffer, fill: int) -> Call:
        """Sets every byte of `array` to `fill`."""
        return self._bind("poison", array.nbytes, [array.handle, np.int64(array.nbytes), np.int32(fill)])

    def scramble(self, dtype: DType, array: Buffer, reference: Buffer, secret: int) -> Call:
        """Poisons an array of integers: none is the one of `reference`."""
        count = array.nbytes // dtype.itemsize
        arguments = [array.handle, reference.handle, np.int64(count), np.int32(secret)]
        return self._bind("scramble", count * _WORD, arguments, macros(dtype))

    def nothing(self) -> Call:
        """Does no work."""
        return self._bind("nothing", 1, [self._counters.handle])

    def touch(self, array: Buffer) -> Call:
        """Reads `array`."""
        arguments = [array.handle, self._counters.handle, np.int64(array.nbytes)]
        return self._bind("touch", array.nbytes, arguments)

    def check_output(
        self, name: str, dtype: DType, output: Buffer, reference: Buffer, bound: Bound, secret: int | None
    ) -> Call:
        """Compares `output` with `reference`: elements of `dtype` if that is exact, else doubles, two for a complex
        number. `secret` is the one that integers are poisoned by; None where they are not."""
        count = output.nbytes // dtype.itemsize
        arguments = [output.handle, reference.handle, *self._slot(name), np.int64(count)]
        if dtype.is_exact and bound.is_exact:
            return self._bind("check_bits", count * _WORD, arguments, macros(dtype))
        arguments += [np.float64(bound.atol), np.float64(bound.rtol), np.float64(bound.ulp)]
        if dtype.is_exact:
            arguments += [np.int32(secret or 0), np.int32(secret is not None)]
            return self._bind("check_whole", count * _WORD, arguments, macros(dtype, is_tolerant=True))
        arguments += map(np.int32, bound.precision)
        return self._bind("check_reals", count * _WORD, arguments, macros(dtype))

    def check_guards(self, name: str, array: Buffer, expected: int) -> Call:
        """Looks for a byte other than `expected` before and after `array`."""
        sizes = [np.int64(GUARD), np.int64(array.nbytes)]
        return self._bind("check_guards", GUARD, [array.whole, *self._slot(name), *sizes, np.int32(expected)])

    def check_input(self, name: str, array: Buffer, copy: Buffer) -> Call:
        """Looks for a difference between `array` and `copy`."""
        arguments = [array.handle, copy.handle, *self._slot(name), np.int64(array.nbytes)]
        return self._bind("check_input", array.nbytes, arguments)

    def check_zero(self, name: str, array: Buffer) -> Call:
        """Looks for anything but zeros in `array`."""
        return self._bind("check_zero", array.nbytes, [array.handle, *self._slot(name), np.int64(array.nbytes)])

    def clear(self) -> None:
        """Set all counters to 0."""
        self._device.write(self._counters.handle, np.zeros(len(self._names) * _COUNTERS, dtype=np.uint32))

    def counts(self) -> dict[str, Counts]:
        """What the checks have found, by array. Waits for the device. Raises LaunchError where it has failed."""
        counters = np.empty(len(self._names) * _COUNTERS, dtype=np.uint32)
        self._device.read(self._counters.handle, counters)
        rows = counters.reshape(-1, _COUNTERS)
        return {name: _counts(row) for name, row in zip(self._names, rows, strict=True)}

    def _slot(self, name: str) -> tuple[object, np.int32]:
        return self._counters.handle, np.int32(self._names.index(name) * _COUNTERS)

    def _bind(self, kernel: str, nbytes: int, arguments: Sequence[object], macros: str = "") -> Call:
        """A launch with a thread for each word of `nbytes`."""
        return self._kernels.bind(kernel, -(-nbytes // _WORD), arguments, macros)


def macros(dtype: DType, is_tolerant: bool = False) -> str:
    """What `bench_kernels.cu` needs to know of a type: that of the bits, and how the value is made of them. With
    `is_tolerant`, integers may differ from their answers."""
    stored = f"#define STORED {STORED[dtype.bits.itemsize]}\n"
    if not dtype.is_exact:
        return f"{stored}#define REAL(bits) {dtype.part or dtype.name}_value(bits)\n#define PARTS {dtype.parts}\n"
    if not is_tolerant:
        return stored
    whole = dtype.words.c if dtype.kind == "integer" else "unsigned char"
    wide = "unsigned long" if dtype.name == "uint64" else "long"
    return f"{stored}#define WHOLE {whole}\n#define WIDE {wide}\n"


def _counts(row: Array) -> Counts:
    wrong, worst, before, after, changed, unwritten = row
    return Counts(int(wrong), float(worst.view(np.float32)), int(before), int(after), int(changed), int(unwritten))
