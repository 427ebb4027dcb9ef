"""Kernels that only read and write as many bytes as another kernel: the upper bound of what that kernel can reach.

They use every access pattern by which ceilings are measured (`tuner.measure.ceilings.ceiling_kernels`).
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
from collections.abc import Callable, Iterator

import numpy as np

from tuner.devices import Device
from tuner.devices.work import Work
from tuner.errors import TrialError, WrongResult
from tuner.measure.ceilings.ceiling_kernels import SEED, WORD, WORDS, Variant, memory_variants
from tuner.measure.timing.clock import RunConditions, Stopwatch

LITTLE = 0.05  # of all bytes: a kernel that writes less is one that reads
MOST_READS = 4
MOST_THREADS = 512
SCREENINGS = 3  # runs of each variant, of which the fastest counts

Call = Callable[[], None]


class Mix:
    """Reads `reads` words for each one that it writes, or only reads, until about as many bytes have moved as are read
    and written. The numbers are pseudo-random. Raises DeviceError where the arrays do not fit."""

    def __init__(self, device: Device, read: int, written: int) -> None:
        self._device, self._only_reads = device, written < LITTLE * (read + written)
        self.reads = 1 if self._only_reads else max(1, min(MOST_READS, round(read / written)))
        parts = self.reads + (not self._only_reads)
        self._words = max(WORDS, (read + written) // WORD // parts // WORDS * WORDS)
        self.nbytes = parts * self._words * WORD
        self._from = device.allocate(self.reads * self._words * WORD, guard=0)
        self._to = device.allocate(WORD if self._only_reads else self._words * WORD, guard=0)
        self._sink = device.upload(np.zeros(1, np.uint32))
        plain = memory_variants(device)[0]
        whole = np.int64(self.reads * self._words)
        self._bound(plain, "write_words", [self._from.handle, whole, np.int32(SEED)], int(whole))()
        self._sum = self._summed(plain, self._from.handle, int(whole))
        self._calls = dict(self._built())

    @property
    def words(self) -> str:
        return "read" if self._only_reads else f"{self.reads} : 1"

    def _built(self) -> Iterator[tuple[Variant, Call]]:
        """All variants that this device can launch."""
        words = np.int64(self._words)
        for variant in memory_variants(self._device):
            if self._device.on_processor or variant["THREADS"] <= MOST_THREADS:
                with contextlib.suppress(TrialError):  # it has no such instructions, or too few registers
                    if self._only_reads:
                        arguments = [self._from.handle, self._sink.handle, words, np.int32(0)]
                        yield variant, self._bound(variant, "read_words", arguments, self._words)
                    else:
                        arguments = [self._to.handle, self._from.handle, words]
                        yield variant, self._bound(variant, "mix_words", arguments, self._words)

    def fastest(self, count: int) -> list[Call]:
        """The fastest variants, each of which has been right. Raises WrongResult where one is not."""
        stopwatch = Stopwatch(self._device, RunConditions())
        rated = []
        for variant, call in self._calls.items():
            self._check(variant, call)
            rated.append((min(stopwatch.time(call) for _ in range(SCREENINGS)), call))
        return [call for _, call in itertools.islice(sorted(rated, key=lambda pair: pair[0]), count)]

    def _check(self, variant: Variant, call: Call) -> None:
        if self._only_reads:
            found = self._summed(variant, self._from.handle, self._words)
        else:
            self._device.fill(self._to.handle, 0xFF, self._to.nbytes)
            call()
            found = self._summed(memory_variants(self._device)[0], self._to.handle, self._words)
        if found != self._sum:
            raise WrongResult(f"{variant.words}: words are missing, or wrong")

    def _bound(self, variant: Variant, kernel: str, arguments: list[object], words: int) -> Call:
        variant = dataclasses.replace(variant, macros=(*variant.macros, ("READS", self.reads)))
        blocks = variant.blocks or words // (variant["THREADS"] * variant["UNROLL"])
        return self._device.bind(Work.of(variant.function(self._device, "ceilings.cu", kernel, blocks), arguments))

    def _summed(self, variant: Variant, handle: object, words: int) -> int:
        """The sum of all numbers in so many words, modulo 2**32."""
        self._device.write(self._sink.handle, np.zeros(1, np.uint32))
        self._bound(variant, "read_words", [handle, self._sink.handle, np.int64(words), np.int32(1)], words)()
        found = np.empty(1, np.uint32)
        self._device.synchronize()
        self._device.read(self._sink.handle, found)
        return int(found[0])
