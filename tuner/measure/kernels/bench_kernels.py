"""The kernels of `bench_kernels.cu`, which prepare and check the arrays of a workbench on the device."""

from collections.abc import Sequence
from enum import IntEnum

import numpy as np

from tuner.classes import dataclass
from tuner.devices.base import GUARD, Buffer, Device
from tuner.errors import WrongResult
from tuner.measure.bound import Bound
from tuner.measure.kernels.device_kernels import BENCH, Call, DeviceKernels
from tuner.measure.kernels.element_text import STORED
from tuner.space.dtypes import DType

_WORD = 16  # bytes that a thread loads at once
# Words that a thread has in a digest, at least: the fewer blocks, the fewer additions to a counter.
_WORDS_DIGESTED, _WORDS_IN_A_ROW = 4, 64  # the latter on a processor
_BLOCK = 256  # elements that a thread compares at once on a processor: see `bench_kernels.cu`
_COUNTERS = 8  # per array
_ROOM = 32  # least number of arrays that there are counters for


class Lay(IntEnum):
    """What `BenchKernels.lay` does with the elements of a padded array."""

    OUT, BACK, FILL = 0, 1, 2


@dataclass(frozen=True)
class Counts:
    """The results of all checks of one array since the counters were cleared.

    wrong: wrong elements. worst: the largest error of a right one, as in `Verdict.of`. before, after: changed bytes in
    its guards. changed: changed words of an input or of padding, or non-zero words of scratch that should be zero.
    unwritten: elements that still hold the poison. digest: of the array's bits (see `digest`); 0 if none was taken.
    """

    wrong: int
    worst: float
    before: int
    after: int
    changed: int
    unwritten: int
    digest: int = 0

    def check_guards(self, name: str) -> None:
        """Raise WrongResult, which names the array, if one of its guards has changed."""
        for changed, side in ((self.before, "before the start"), (self.after, "after the end")):
            if changed:
                raise WrongResult(f"writes {side} of {name}", "writes outside")


class BenchKernels:
    """Calls that each enqueue one of our kernels, and the counters that the checks increment.

    A call is bound to its arrays once. Nothing waits for the device until `counts` reads the counters.
    """

    def __init__(self, device: Device, arrays: Sequence[str]) -> None:
        """`arrays` are the names of all arrays of the workbench. Raises DeviceError if there is no compiler."""
        self._device = device
        self._kernels = DeviceKernels(device, BENCH)
        self._names = list(arrays)
        self._room = max(_ROOM, len(self._names))
        self._counters = device.allocate(self._room * _COUNTERS * 4, guard=0)
        self.clear()

    def add(self, arrays: Sequence[str]) -> bool:
        """Add counters for these arrays. Returns whether there is room for them."""
        names = list(dict.fromkeys([*self._names, *arrays]))
        if len(names) > self._room:
            return False
        self._names = names
        self.clear()
        return True

    def restore(self, array: Buffer, copy: Buffer) -> Call:
        """A call that copies `copy` to `array`."""
        return self._bind("restore", array.nbytes, [array.handle, copy.handle, np.int64(array.nbytes)])

    def poison(self, array: Buffer, fill: int) -> Call:
        """A call that sets every byte of `array` to `fill`."""
        return self._bind("poison", array.nbytes, [array.handle, np.int64(array.nbytes), np.int32(fill)])

    def scramble(self, dtype: DType, array: Buffer, reference: Buffer, secret: int) -> Call:
        """A call that poisons an array of integers, so that every element differs from that of `reference`."""
        count = array.nbytes // dtype.itemsize
        arguments = [array.handle, reference.handle, np.int64(count), np.int32(secret)]
        return self._bind("scramble", count * _WORD, arguments, macros(dtype))

    def empty_launch(self) -> Call:
        """A call of a kernel that does nothing."""
        return self._bind("nothing", 1, [self._counters.handle])

    def touch(self, array: Buffer) -> Call:
        """A call that reads `array`."""
        arguments = [array.handle, self._counters.handle, np.int64(array.nbytes)]
        return self._bind("touch", array.nbytes, arguments)

    def check_output(
        self, name: str, dtype: DType, output: Buffer, reference: Buffer, bound: Bound, secret: int | None
    ) -> Call:
        """A call that compares `output` with `reference`.

        `reference` has elements of `dtype` if that is exact, otherwise doubles, two for each complex number. `secret`
        is the seed of the poison of integers; None if they are not poisoned.
        """
        count = output.nbytes // dtype.itemsize
        arguments = [output.handle, reference.handle, *self._slot(name), np.int64(count)]
        if dtype.is_exact and bound.is_exact:
            return self._bind("check_bits", count * _WORD, arguments, macros(dtype))
        arguments += [np.float64(bound.atol), np.float64(bound.rtol), np.float64(bound.ulp)]
        if dtype.is_exact:
            arguments += [np.int32(secret or 0), np.int32(secret is not None)]
            return self._bind("check_whole", count * _WORD, arguments, macros(dtype, is_tolerant=True))
        in_rows = self._device.on_processor
        arguments += map(np.int32, (*bound.precision, in_rows))
        return self._bind(
            "check_reals", -(-count // _BLOCK) * _WORD if in_rows else count * _WORD, arguments, macros(dtype)
        )

    def check_guards(self, name: str, array: Buffer, expected: int) -> Call:
        """A call that counts bytes other than `expected` in the guards of `array`."""
        sizes = [np.int64(GUARD), np.int64(array.nbytes)]
        return self._bind("check_guards", GUARD // 4, [array.whole, *self._slot(name), *sizes, np.int32(expected)])

    def check_input(self, name: str, array: Buffer, copy: Buffer) -> Call:
        """A call that counts the words in which `array` and `copy` differ."""
        arguments = [array.handle, copy.handle, *self._slot(name), np.int64(array.nbytes)]
        return self._bind("check_input", array.nbytes, arguments)

    def check_zero(self, name: str, array: Buffer) -> Call:
        """A call that counts non-zero words of `array`."""
        return self.check_fill(name, array, 0)

    def check_fill(self, name: str, array: Buffer, fill: int) -> Call:
        """A call that counts words of `array` with a byte other than `fill`."""
        arguments = [array.handle, *self._slot(name), np.int64(array.nbytes), np.int32(fill)]
        return self._bind("check_fill", array.nbytes, arguments)

    def lay(self, padded: Buffer, whole: Buffer, axes: Buffer, row: int, way: Lay, fill: int = 0) -> Call:
        """A call that copies the elements of `whole` to `padded`, or back, or sets them there to `fill`.

        The rows, of `row` bytes, have gaps between them in `padded`. `axes` has two int64 for each axis but the last
        one, innermost first: its extent, and the distance of two neighbours along it in bytes.
        """
        arguments = [padded.handle, whole.handle, axes.handle, np.int32(axes.nbytes // 16), np.int64(row)]
        arguments += [np.int64(whole.nbytes), np.int32(way), np.int32(fill)]
        return self._bind("lay", whole.nbytes // 4, arguments)

    def digest(self, name: str, array: Buffer) -> Call:
        """A call that takes the digest of the bits of `array`, 64 bits wide.

        Arrays that differ in one 64-bit word always have different digests. If they differ in more, their digests are
        equal with a probability of 2**-64, as far as the hash of a word is random.
        """
        in_rows = self._device.on_processor
        words = _WORDS_IN_A_ROW if in_rows else _WORDS_DIGESTED
        arguments = [array.handle, *self._slot(name), np.int64(array.nbytes), np.int32(in_rows)]
        return self._bind("digest", -(-array.nbytes // words), arguments)

    def clear(self) -> None:
        """Set all counters to 0."""
        self._device.write(self._counters.handle, np.zeros(len(self._names) * _COUNTERS, dtype=np.uint32))
        self._digests = np.zeros((len(self._names), 2), np.uint32)

    def counts(self) -> dict[str, Counts]:
        """The results of all checks, by array. Waits for the device. Raises LaunchError if it has failed."""
        counters = np.empty(len(self._names) * _COUNTERS, dtype=np.uint32)
        self._device.read(self._counters.handle, counters)
        # Lists at once: taking numbers from an array one by one is slow, and the counters are read after each run.
        table = counters.reshape(-1, _COUNTERS)
        rows, worst = table.tolist(), counters[1::_COUNTERS].view(np.float32).tolist()
        digests = (table[:, 6:] - self._digests).view(np.uint64).reshape(-1).tolist()  # the sums are never reset
        self._digests = table[:, 6:]
        return {
            name: Counts(row[0], error, row[2], row[3], row[4], row[5], digest)
            for name, row, error, digest in zip(self._names, rows, worst, digests, strict=True)
        }

    def _slot(self, name: str) -> tuple[object, np.int32]:
        return self._counters.handle, np.int32(self._names.index(name) * _COUNTERS)

    def _bind(self, kernel: str, nbytes: int, arguments: Sequence[object], macros: str = "") -> Call:
        """Bind a kernel with one thread for each 16-byte word of `nbytes`."""
        return self._kernels.bind(kernel, -(-nbytes // _WORD), arguments, macros)


def macros(dtype: DType, is_tolerant: bool = False) -> str:
    """The macros of `bench_kernels.cu` for a type: the type of its bits, and how they become a value.

    With `is_tolerant`, integers may differ from their answers.
    """
    stored = f"#define STORED {STORED[dtype.bits.itemsize]}\n"
    if not dtype.is_exact:
        return f"{stored}#define REAL(bits) {dtype.part or dtype.name}_value(bits)\n#define PARTS {dtype.parts}\n"
    if not is_tolerant:
        return stored
    whole = dtype.words.c if dtype.kind == "integer" else "unsigned char"
    wide = "unsigned long" if dtype.name == "uint64" else "long"
    return f"{stored}#define WHOLE {whole}\n#define WIDE {wide}\n"
