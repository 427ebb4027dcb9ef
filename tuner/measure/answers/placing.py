"""Placing elements in device memory.

The device draws random elements itself if it can; all others are copied in parts from the host.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tuner.errors import DeviceError
from tuner.measure import turns
from tuner.measure.kernels.device_kernels import BENCH, MOST_BLOCKS, THREADS, Call, DeviceKernels
from tuner.measure.kernels.element_text import STORED, value_text
from tuner.space.dtypes import DTYPES
from tuner.space.values.drawing import Drawn
from tuner.space.values.elements import Array, Elements

if TYPE_CHECKING:
    from tuner.devices.base import Buffer, Device
    from tuner.space.dtypes import DType

_HEAD = "#define ELEMENTS\n"
SUMMED, REDUCED, PRODUCT = (f"{_HEAD}#define {part}\n" for part in ("SUMMED", "REDUCED", "PRODUCT"))
_WORD = 16  # bytes that a thread loads at once
_SAMPLES, _RUN = 16, 64  # number of runs of drawn elements that are compared with the host, and elements of each
_PER_THREAD = 4  # elements
_MASK = (1 << 64) - 1
CLOSE = 1e-12  # relative tolerance of elements that host and device compute by the same operations
_DOUBLE = DTYPES["float64"]


class Formula(NamedTuple):
    """The C text of a number, which may use the arrays a0, a1, ... and the scalars s0, s1, ..."""

    text: str
    arrays: Sequence[tuple[Buffer, DType]]
    scalars: Sequence[float] = ()

    @property
    def macros(self) -> str:
        """The macros of `elements.cu` for the formula."""
        return formula_macros(self.text, [dtype for _, dtype in self.arrays], len(self.scalars))

    @property
    def arguments(self) -> list[object]:
        """The arguments that a kernel takes for it."""
        return [*(array.handle for array, _ in self.arrays), *map(np.float64, self.scalars)]


class Placer:
    """Fills and reads memory of one device with kernels."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self._kernels = DeviceKernels(device, BENCH, "elements.cu")

    def place(self, elements: Elements, memory: Buffer) -> None:
        """Fill `memory` with the elements, and wait."""
        if isinstance(elements, Placed):
            elements.compute(memory)
        elif not (isinstance(elements, Drawn) and self.draw(elements, memory)):
            for start, part in elements.parts():
                self.device.write(memory.handle, part, start * part.itemsize)

    def run(self, call: Call) -> None:
        """Run a kernel that fills or reads memory, and wait. No other process measures on the device meanwhile."""
        with turns.taken(self.device.place):
            call()
            self.device.synchronize()

    def placed(self, elements: Elements) -> Buffer:
        """New unguarded memory that holds the elements. Raises DeviceError if it does not fit."""
        memory = self.device.allocate(elements.nbytes, guard=0)
        self.place(elements, memory)
        return memory

    def checksum(self, memory: Buffer) -> bytes:
        """A checksum of the bytes in `memory`, which reveals a change."""
        sums = self.device.upload(np.zeros(2, np.uint32))
        threads = -(-memory.nbytes // _WORD)
        arguments = [memory.handle, np.int64(memory.nbytes), sums.handle]
        self.run(self._kernels.bind("checksum", threads, arguments, SUMMED))
        return self._read(sums, np.empty(2, np.uint32)).tobytes()

    def largest(self, memory: Buffer) -> float:
        """The largest finite magnitude of the doubles in `memory`; 0 if none is finite."""
        count = memory.nbytes // 8
        threads = min(THREADS * MOST_BLOCKS, -(-count // _PER_THREAD // THREADS) * THREADS)
        maxima = self.device.upload(np.zeros(max(THREADS, threads)))
        arguments = [memory.handle, np.int64(count), maxima.handle]
        self.run(self._kernels.bind("largest", threads, arguments, REDUCED))
        return float(self._read(maxima, np.empty(maxima.nbytes // 8)).max())

    def doubles(self, memory: Buffer, index: Array, dtype: DType = _DOUBLE) -> Array:
        """The elements of a type in `memory` at a few indices, as doubles."""
        indices, gathered = self.device.upload(index.astype(np.int64)), self.device.allocate(8 * index.size, guard=0)
        both = [(memory, dtype), (indices, DTYPES["int64"])]
        self.evaluate(Formula(value_text(dtype, "a0[a1[i]]"), both), gathered)
        return self._read(gathered, np.empty(index.size))

    def evaluate(self, formula: Formula, memory: Buffer, dtype: DType = _DOUBLE) -> None:
        """Fill `memory` with the value of a formula for each element i, as doubles, or as integers of `dtype`.

        `memory` may be one of the formula's arrays.
        """
        whole = f"#define WHOLE {STORED[dtype.itemsize]}\n" if dtype.is_exact else ""
        count = memory.nbytes // dtype.itemsize
        arguments = [memory.handle, np.int64(count), *formula.arguments]
        self.run(self._kernels.bind("evaluate", -(-count // _PER_THREAD), arguments, whole + formula.macros))

    def fold(self, kind: str, formula: Formula, extents: tuple[int, int, int, int], memory: Buffer) -> None:
        """Fill `memory` with doubles, each of which combines terms: the values of a formula for element o, term k.

        kind: "sum", "max" or "min".
        extents: the parts into which the terms of an element are divided, the terms of a part, their distance (1, or
            the number of parts), and all terms of the element.
        """
        count = memory.nbytes // 8
        arguments = [memory.handle, *map(np.int64, (count, *extents)), *formula.arguments]
        self.run(self._kernels.bind("fold", count, arguments, f"#define {kind.upper()}\n{formula.macros}"))

    def cumulate(self, formula: Formula, before: Buffer, length: int, memory: Buffer) -> None:
        """Fill `memory` with the running sums of a formula's values for each element i.

        `before` has the sum of the elements that precede each `length` of them.
        """
        count = memory.nbytes // 8
        arguments = [memory.handle, np.int64(count), before.handle, np.int64(length), *formula.arguments]
        self.run(self._kernels.bind("cumulate", -(-count // length), arguments, f"#define RUNNING\n{formula.macros}"))

    def multiply(self, left: Buffer, right: Buffer, sizes: tuple[int, int, int], memory: Buffer) -> None:
        """Fill `memory` with the product of two row-major matrices of doubles, or of two batches of matrices.

        `sizes` are the rows and columns of the product, and the inner dimension.
        """
        count = memory.nbytes // 8
        arguments = [memory.handle, np.int64(count), left.handle, right.handle, *map(np.int64, sizes)]
        self.run(self._kernels.bind("multiply", count, arguments, PRODUCT))

    def compare(self, found: Array, expected: Array, scale: Array, tolerance: float = CLOSE) -> None:
        """Raise DeviceError if elements of the device are not those of the host, within a tolerance times `scale`."""
        with np.errstate(all="ignore"):
            close = np.abs(found - expected) <= tolerance * scale
        if not np.all(close | (found == expected) | (np.isnan(found) & np.isnan(expected))):
            raise DeviceError(f"{self.device.id}: computes other answers than the host")

    def draw(self, drawn: Drawn, memory: Buffer) -> bool:
        """Draw random elements into `memory`. False if the device cannot, or draws others than the host."""
        call = self._drawing(drawn, memory)
        if call is None:
            return False
        self.run(call)
        starts = np.random.default_rng().integers(0, drawn.size, _SAMPLES)
        for start in (0, max(0, drawn.size - _RUN), *map(int, starts)):
            expected = drawn.part(start, min(start + _RUN, drawn.size))
            actual = np.empty_like(expected)
            self.device.read(memory.handle, actual, start * actual.itemsize)
            if actual.tobytes() != expected.tobytes():
                return False
        return True

    def _drawing(self, drawn: Drawn, memory: Buffer) -> Call | None:
        """The launch that draws the elements; None if the device would round them differently than the host."""
        dtype, draw, key = drawn.part_dtype, drawn.draw, np.uint64(drawn.key)
        kinds = drawable(dtype, self.device.has_doubles)
        if draw.kind not in kinds or (draw.kind == "normal" and abs(draw.values[0]) + 6 * draw.values[1] > dtype.high):
            return None  # an overflow is the host's
        count = drawn.size * drawn.element.parts
        arguments: list[object] = [memory.handle, np.int64(count), key]
        keep: object = None
        match draw.kind:
            case "table":
                keep = table = self.device.upload(draw.table(dtype))
                arguments += [table.handle, np.uint64(len(draw.values))]
            case "sequence":
                arguments.pop()
            case "integers":
                first, entries = map(int, draw.values)
                arguments += [np.uint64(first & _MASK), np.uint64(entries & _MASK)]
            case "uniform" | "normal":
                arguments += map(np.float64, draw.values)
        macros = drawing_macros(dtype, [draw.kind] if self.device.language == "cuda" else kinds)
        call = self._kernels.bind(f"draw_{draw.kind}", -(-count // _PER_THREAD), arguments, macros)

        def call_with_table(_keep: object = keep) -> None:
            call()

        return call_with_table

    def _read(self, memory: Buffer, data: Array) -> Array:
        self.device.read(memory.handle, data)
        return data


class Placed(Elements):
    """Numbers in device memory: doubles, or integers of an output's type, which have 64 bits on the host.

    `compute` fills the memory, again if it has been overwritten.
    """

    def __init__(
        self,
        placer: Placer,
        shape: tuple[int, ...],
        compute: Callable[[Buffer], None],
        element: DType = _DOUBLE,
    ) -> None:
        """Raises DeviceError if memory does not suffice."""
        self.shape, self.dtype, self.compute, self._placer, self._own = shape, element.wide, compute, placer, element
        self.memory = placer.device.allocate(self.size * element.itemsize, guard=0)
        compute(self.memory)

    def part(self, start: int, stop: int) -> Array:
        part = np.empty(stop - start, self._own.numpy)
        self._placer.device.read(self.memory.handle, part, start * part.itemsize)
        return part.astype(self.dtype, copy=False)

    def at(self, index: Array) -> Array:
        return self._placer.doubles(self.memory, index, self._own).astype(self.dtype, copy=False)

    @property
    def largest(self) -> float:
        return super().largest if self._own.is_exact else self._placer.largest(self.memory)


def drawable(dtype: DType, has_doubles: bool = True) -> list[str]:
    """The kinds of elements of a type that a device can draw, with or without doubles."""
    reals = ["uniform", "normal"] if has_doubles and not dtype.is_exact else []
    return ["table", "standard", *([] if _is_narrow(dtype) else ["sequence", "integers"]), *reals]


def _is_narrow(dtype: DType) -> bool:
    return not dtype.is_exact and dtype.name not in ("float32", "float64")


def drawing_macros(dtype: DType, kinds: Sequence[str]) -> str:
    """The macros of `elements.cu` for drawing elements of these kinds of a type. NVRTC takes longer to compile a kernel
    than the kernel runs; other compilers take hardly longer for all."""
    if dtype.kind == "boolean":
        standard, number = "((word) >> 63)", "((x) != 0)"
    elif dtype.is_exact:
        standard, number = f"standard_whole(word, {int(dtype.low < 0)})", "(x)"
    elif dtype.name == "float64":
        standard, number = "standard_double(word)", "LONG_OF((double)(x))"
    elif _is_narrow(dtype):
        standard = f"{dtype.name}_bits(standard_real(word, {dtype.digits}))"
        wide = "(double)(float)(x)" if dtype.foreign else "x"  # as ml_dtypes and NumPy round
        number = f"narrow_bits({wide}, {dtype.digits}, {dtype.least_exponent}, {8 * dtype.itemsize})"
    else:
        standard, number = f"{dtype.name}_bits(standard_real(word, {dtype.digits}))", "BITS_OF((float)(x))"
    macros = {
        "table": "#define TABLE\n",
        "standard": f"#define STANDARD(word) {standard}\n",
        "sequence": f"#define FROM_LONG(x) {number}\n",
        "integers": f"#define FROM_LONG(x) {number}\n",
        "uniform": f"#define UNIFORM(x) {number}\n",
        "normal": f"#define NORMAL(x) {number}\n",
    }
    fine = "#define FINE\n" if dtype.name == "float64" else "#define NARROW\n" if _is_narrow(dtype) else ""
    chosen = "".join(dict.fromkeys(macros[kind] for kind in kinds))
    return f"{_HEAD}#define STORED {STORED[dtype.itemsize]}\n{fine}{chosen}"


def formula_macros(formula: str, dtypes: Sequence[DType], scalars: int) -> str:
    """The macros of `elements.cu` for a formula over arrays of these types and `scalars` scalars."""
    arrays = [f", GLOBAL const {STORED[dtype.itemsize]} *a{number}" for number, dtype in enumerate(dtypes)]
    numbers = [f", double s{number}" for number in range(scalars)]
    return (
        f"{_HEAD}#define EXPRESSION {formula}\n#define ARRAYS {''.join(arrays)}\n#define SCALARS {''.join(numbers)}\n"
    )
