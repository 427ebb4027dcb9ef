"""The kernels that measure ceilings, in all variants, with their expected results.

Their source texts are `ceilings.cu` and `tensor_ceilings.cu`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np

from tuner.classes import dataclass
from tuner.devices.base import Array, Device
from tuner.devices.ceilings import COPY, READ, WRITE
from tuner.devices.info import DeviceInfo
from tuner.devices.work import Function, Work
from tuner.errors import WrongResult
from tuner.space.sources.source import Source
from tuner.space.step import Geometry

Call = Callable[[], None]
WORD = 16  # bytes
WORDS = 8192  # array sizes are multiples of this, which is a multiple of every variant's tile
FACTORS = (0x9E3779B9, 0x85EBCA6B, 0xC2B2AE35, 0x27D4EB2E)  # their sum is odd
SEED = 0x2545F491
_A, _B = (
    np.float32(-0.99993),
    np.float32(0.37),
)  # x becomes x * _A + _B: values keep their magnitude and alternate around a fixed point
CHECKED_STEPS = 5
TOLERANCE = 1e-4
_C_OPTIONS = ("-O3", "-ffp-contract=fast")


@dataclass(frozen=True)
class Variant:
    """One way to write a kernel: macros before its text, a number of blocks, and a description.

    `blocks` is None if each word has its own thread.
    """

    macros: tuple[tuple[str, int], ...]
    blocks: int | None
    words: str

    def __getitem__(self, macro: str) -> int:
        return dict(self.macros)[macro]

    def source(self, file: str, kernel: str, language: str) -> Source:
        """The text of `file`, with the macros before it."""
        lines = [f"#define FACTORS {', '.join(f'{factor:#x}u' for factor in FACTORS)}"]
        lines += [f"#define {name} {value}" for name, value in self.macros]
        text = Path(__file__).with_name(file).read_text(encoding="utf-8")
        options = _C_OPTIONS if language == "c" else ()
        return Source("\n".join([*lines, text]), (kernel,), options)

    def function(self, device: Device, file: str, kernel: str, blocks: int) -> Function:
        """A kernel of `file`, to be launched with `blocks` blocks; in C, as a single call. Raises TrialError."""
        is_c = device.language == "c"
        geometry = Geometry((1 if is_c else blocks, 1, 1), (1 if is_c else self["THREADS"], 1, 1), 0)
        source = self.source(file, kernel, device.language)
        return device.function(device.load(device.build(source), source), kernel, geometry)


def _macros(**values: int) -> tuple[tuple[str, int], ...]:
    return tuple(values.items())


class MemoryKernels:
    """Kernels that copy, read and write two arrays of `words` words each. Raises DeviceError if these do not fit."""

    def __init__(self, device: Device, words: int) -> None:
        self._device, self._words = device, np.int64(words)
        self._functions: dict[tuple[Variant, str], Function] = {}  # reading takes each twice, with other arguments
        self._from, self._to = device.allocate(words * WORD, guard=0), device.allocate(words * WORD, guard=0)
        self._sink = device.upload(np.zeros(1, np.uint32))
        plain = memory_variants(device)[0]
        for buffer in (self._from, self._to):  # first touch: each core's pages become local to it
            self._bind(plain, "write_words", [buffer.handle, self._words, np.int32(SEED)])()
        self._sum_of_from, self._sum_of_to = (
            self._bind(plain, "read_words", [buffer.handle, self._sink.handle, self._words, np.int32(1)])
            for buffer in (self._from, self._to)
        )
        self._check(self._sum_of_from)

    def bytes_of(self, name: str) -> int:
        """The bytes that one run of the kernel moves."""
        return int(self._words) * WORD * (2 if name == COPY else 1)

    def checked(self, name: str, variant: Variant) -> Call:
        """The call for one ceiling, after one run that was checked. Raises TrialError if it cannot run or is wrong."""
        if name == READ:
            arguments = [self._from.handle, self._sink.handle, self._words]
            summing = self._bind(variant, "read_words", [*arguments, np.int32(1)])
            self._check(summing)
            return self._bind(variant, "read_words", [*arguments, np.int32(0)])
        if name == WRITE:
            call = self._bind(variant, "write_words", [self._to.handle, self._words, np.int32(SEED)])
        else:
            call = self._bind(variant, "copy_words", [self._to.handle, self._from.handle, self._words])
        self._device.fill(self._to.handle, 0xFF, self._to.nbytes)
        call()
        self._check(self._sum_of_to)
        return call

    def _bind(self, variant: Variant, kernel: str, arguments: Sequence[object]) -> Call:
        if (variant, kernel) not in self._functions:
            blocks = variant.blocks or int(self._words) // (variant["THREADS"] * variant["UNROLL"])
            self._functions[variant, kernel] = variant.function(self._device, "ceilings.cu", kernel, blocks)
        return self._device.bind(Work.of(self._functions[variant, kernel], arguments))

    def _check(self, summing: Call) -> None:
        """Raise WrongResult unless `summing` finds the expected sum of all words."""
        self._device.write(self._sink.handle, np.zeros(1, np.uint32))
        summing()
        total = np.empty(1, np.uint32)
        self._device.synchronize()
        self._device.read(self._sink.handle, total)
        n = int(self._words)
        if int(total[0]) != (sum(FACTORS) * (n * (n - 1) // 2) + 4 * n * SEED) % 2**32:
            raise WrongResult("words are missing, or wrong")


def memory_variants(device: Device | DeviceInfo) -> list[Variant]:
    """The variants of memory kernels for a device, the simplest first."""
    if device.on_processor:
        shapes = [(4096, 1)] if device.language == "c" else [(64, 1), (1024, 1), (64, 8), (1, 64)]
        rounds: list[int | None] = [None]
    else:
        shapes = list(itertools.product(_threads(device), (1, 2, 4, 8)))
        rounds = [None, 4, 8, 16, 32]
    return [
        _memory_variant(device, threads, unroll, streaming, per_unit)
        for streaming, (threads, unroll), per_unit in itertools.product((0, 1), shapes, rounds)
    ]


def _threads(device: Device | DeviceInfo) -> list[int]:
    """Block sizes: powers of two, because tiles must divide arrays."""
    most = 1 << (device.limits.max_threads.bit_length() - 1)
    return sorted({min(threads, most) for threads in (256, 512, 1024)})


def _memory_variant(
    device: Device | DeviceInfo, threads: int, unroll: int, streaming: int, per_unit: int | None
) -> Variant:
    parts = []
    if device.language != "c":
        parts.append(f"{threads} x {unroll} words of 16 bytes")  # threads, and words per thread
        parts.append(f"{per_unit} blocks per multiprocessor" if per_unit else "a block per tile")
    parts.append("past the caches" if streaming else "through the caches")
    lanes = 4 if device.language == "c" else 1
    macros = _macros(THREADS=threads, UNROLL=unroll, STREAMING=streaming, LANES=lanes, CHAINS=1, REPEATS=1)
    return Variant(macros, per_unit and per_unit * device.units, ", ".join(parts))


class FmaKernel:
    """One variant of FP32 multiply-adds, on its own arrays."""

    def __init__(self, device: Device, variant: Variant) -> None:
        self._device, self._variant, self._blocks = device, variant, variant.blocks or 1
        self._chains, self._repeats = variant["CHAINS"], variant["REPEATS"]
        count = self._blocks * variant["THREADS"] * variant["LANES"]
        self._values = np.random.default_rng(0).uniform(0.5, 1.5, count).astype(np.float32)
        self._buffer = device.upload(self._values)
        self._function = variant.function(device, "ceilings.cu", "multiply_add", self._blocks)

    def flops(self, steps: int) -> float:
        """Floating-point operations of a run of `steps` steps."""
        return 2.0 * len(self._values) * self._chains * self._repeats * steps

    def call(self, steps: int) -> Call:
        """A run of `steps` steps, on the results of the previous run."""
        arguments = [self._buffer.handle, _A, _B, np.int64(steps), np.int64(self._blocks)]
        return self._device.bind(Work.of(self._function, arguments), keep=self)

    def check(self) -> None:
        """Run a few steps and compare the results. Raises TrialError."""
        self._device.write(self._buffer.handle, self._values)
        self.call(CHECKED_STEPS)()
        self._device.synchronize()
        actual = np.empty_like(self._values)
        self._device.read(self._buffer.handle, actual)
        power = float(_A) ** (CHECKED_STEPS * self._repeats)
        chains = np.arange(self._chains)[:, None]
        fixed = float(_B) / (1 - float(_A))  # the fixed point of a multiply-add
        expected = (fixed + power * (self._values.astype(np.float64) + chains - fixed)).sum(axis=0)
        _compare(actual, expected)


def fma_variants(device: Device | DeviceInfo) -> list[Variant]:
    """The variants of multiply-add kernels for a device."""
    if device.language == "c":
        shapes = [(1, lanes, chains, 8, 4) for lanes, chains in itertools.product((4, 8, 16), (8, 12))]
    elif device.on_processor:
        shapes = [(16, 1, 8, 8, 4), (1, 8, 12, 8, 4), (1, 16, 12, 8, 4)]
    else:  # longer steps have less loop overhead, but may exceed the instruction cache
        shapes = [(t, 1, c, r, b) for t, c, r, b in itertools.product(_threads(device), (4, 8, 16), (8, 32), (1, 2, 4))]
    return [
        Variant(
            _macros(THREADS=t, UNROLL=1, STREAMING=0, LANES=lanes, CHAINS=chains, REPEATS=repeats),
            device.units * per_unit,
            f"{chains} chains of {lanes} x {repeats} numbers"
            + (f", {t} threads, {per_unit} blocks per multiprocessor" if t > 1 else ""),
        )
        for t, lanes, chains, repeats, per_unit in shapes
    ]


class TensorKernel:
    """One variant of FP16 matrix products with FP32 accumulation on tensor cores."""

    def __init__(self, device: Device, variant: Variant) -> None:
        self._device, blocks = device, variant.blocks or 1
        threads = variant["THREADS"]
        if "WGMMA" in dict(variant.macros):
            m, n, k, self._groups = threads // 2, 256, 64, blocks
        else:
            m, n, k, self._groups = 16 * variant["MT"], 8 * variant["NT"], 16, blocks * threads // 32
        random = np.random.default_rng(0)
        self._a, self._b = (random.uniform(-1, 1, (rows, k)).astype(np.float16) for rows in (m, n))
        self._buffers = [device.upload(self._a), device.upload(self._b)]
        self._sums = device.allocate(self._groups * m * n * 4, guard=0)
        self._function = variant.function(device, "tensor_ceilings.cu", "multiply_tiles", blocks)

    def flops(self, steps: int) -> float:
        """Floating-point operations of a run of `steps` steps."""
        (m, k), n = self._a.shape, len(self._b)
        return 2.0 * self._groups * int(m) * int(n) * int(k) * steps

    def call(self, steps: int) -> Call:
        """A run of `steps` steps."""
        arguments = [self._sums.handle, *(buffer.handle for buffer in self._buffers), np.int64(steps)]
        return self._device.bind(Work.of(self._function, arguments), keep=self)

    def check(self) -> None:
        """Run a few steps and compare the results. Raises TrialError."""
        self._device.fill(self._sums.handle, 0xFF, self._sums.nbytes)
        self.call(CHECKED_STEPS)()
        self._device.synchronize()
        expected = CHECKED_STEPS * (self._a.astype(np.float64) @ self._b.astype(np.float64).T)
        actual = np.empty((self._groups, *expected.shape), np.float32)
        self._device.read(self._sums.handle, actual)
        _compare(actual, expected)


def tensor_variants(device: Device | DeviceInfo) -> Iterator[Variant]:
    """The variants of tensor-core kernels for a device; none if no kernel supports its tensor cores."""
    if device.language != "cuda" or device.limits.compute_capability < 8.0:
        return
    for mt, nt, threads, per_unit in itertools.product((2, 4), (4, 8), (128, 256), (1, 2, 4)):
        words = f"mma.sync, {mt * nt} tiles per warp, {threads} threads, {per_unit} blocks per multiprocessor"
        yield Variant(_macros(THREADS=threads, MT=mt, NT=nt), per_unit * device.units, words)
    if device.architecture != "sm_90a":
        return
    for swizzled, (threads, per_unit) in itertools.product((0, 1), ((128, 1), (128, 2), (128, 3), (256, 1))):
        swizzle = "swizzled" if swizzled else "unswizzled"
        words = f"wgmma, {swizzle}, {threads} threads, {per_unit} blocks per multiprocessor"
        macros = _macros(WGMMA=1, THREADS=threads, SWIZZLED=swizzled)
        yield Variant(macros, per_unit * device.units, words)


def _compare(actual: Array, expected: Array) -> None:
    """Raise WrongResult unless the results are within TOLERANCE of the expected ones, relative to the largest."""
    worst = float(np.max(np.abs(actual - expected))) / float(np.max(np.abs(expected)))
    if not worst <= TOLERANCE:
        raise WrongResult(f"off by {worst:.2g} of the largest number")
