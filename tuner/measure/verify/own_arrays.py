"""The arrays private to one configuration: its scratch, and outputs whose shape depends on it."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import numpy as np

from tuner.devices.base import GUARD
from tuner.devices.program import allocated
from tuner.errors import WrongResult
from tuner.measure.answers.poison import HUGE, NAN, OUTPUT_GUARD, SCRATCH
from tuner.space import operation
from tuner.space.chosen_types import dtype

if TYPE_CHECKING:
    from tuner.devices.base import Array, Buffer
    from tuner.devices.program import Program
    from tuner.measure.kernels.bench_kernels import BenchKernels, Counts
    from tuner.space.argument import Argument


class OwnArrays:
    """Allocates these arrays between guards, poisons them before each run, and checks them afterwards.

    All but zeroed arrays hold poison before a run, so that an earlier run's results do not help. The poison alternates
    between NaN, zeros, and small, large and negative numbers, because a kernel may be right by chance with some of
    them: a maximum is right over any small numbers. Scratch with `zeroed: once` must be zero after each run.
    """

    def __init__(self, program: Program, kernels: BenchKernels) -> None:
        self._device, self._kernels = program.device, kernels
        self._scope, self._arguments = program.scope, {a.name: a for a in program.space.operation.arguments}
        self.buffers: dict[str, Buffer] = {}
        self._poison: dict[int, list[Callable[[], None]]] = {}
        self._fills = [HUGE, NAN]  # still to be drawn, from the end; these two reveal most errors
        for name in program.space.varying:
            if self._arguments[name].is_array:
                self.allocate(self._arguments[name], operation.nbytes(self._arguments[name], self._scope))

    def allocate(self, argument: Argument, nbytes: int) -> Buffer:
        """Allocate one of the arrays. Raises LaunchError if it does not fit."""
        buffer = self.buffers[argument.name] = allocated(self._device, argument, nbytes, GUARD)
        self._device.fill(buffer.whole, OUTPUT_GUARD, nbytes + 2 * GUARD)
        if argument.zeroed == "once":
            self._device.fill(buffer.handle, 0, nbytes)
        return buffer

    def bound(self) -> None:
        """Bind the checks, after all arrays have been allocated."""
        self._guards = [self._kernels.check_guards(n, b, OUTPUT_GUARD) for n, b in self.buffers.items()]
        self._zeros = {n: self._kernels.check_zero(n, b) for n, b in self.buffers.items() if self._zeroed(n) == "once"}

    def prepare(self) -> None:
        """Enqueue the poisoning of the arrays."""
        self._fills = self._fills or secrets.SystemRandom().sample(SCRATCH, len(SCRATCH))
        if (fill := self._fills.pop()) not in self._poison:
            poisoned = {name: buffer for name, buffer in self.buffers.items() if self._zeroed(name) == "never"}
            self._poison[fill] = [self._kernels.poison(b, self._byte(name, fill)) for name, b in poisoned.items()]
        for call in self._poison[fill]:
            call()

    def check(self) -> None:
        """Enqueue the checks of scratch that must be zero after each run."""
        for call in self._zeros.values():
            call()

    def judge(self, counts: Mapping[str, Counts]) -> None:
        """Raise WrongResult if a run did not leave such scratch zero."""
        for name in self._zeros:
            if counts[name].changed:
                raise WrongResult(
                    f"leaves {name} non-zero, although it is zeroed only once; set it to zero again, or write `zeroed: "
                    "each`",
                    "scratch not zero",
                )

    def inspect(self) -> None:
        """Enqueue the checks of the guards."""
        for call in self._guards:
            call()

    def read(self, name: str) -> Array:
        """Copy one of the arrays to the host."""
        argument = self._arguments[name]
        output = np.empty(operation.shape(argument, self._scope), dtype(argument, self._scope).numpy)
        self._device.read(self.buffers[name].handle, output)
        return output

    def _zeroed(self, name: str) -> str:
        return self._arguments[name].zeroed

    def _byte(self, name: str, fill: int) -> int:
        """The byte that stands for `fill` in one of the arrays.

        For integers, NAN and HUGE become about the least and the greatest value of the type, so that a minimum or
        maximum over unwritten elements is wrong.
        """
        element = dtype(self._arguments[name], self._scope)
        if not element.is_exact:
            return fill
        ends = {NAN: 0x80, HUGE: 0x7F} if element.low < 0 else {NAN: 0xFF, HUGE: 0x00}
        return ends.get(fill, fill)
