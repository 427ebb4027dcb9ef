"""The arrays of one configuration: its scratch, and outputs whose shape it decides."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from tuner.devices.base import GUARD
from tuner.devices.program import allocated
from tuner.errors import WrongResult
from tuner.measure.poison import OUTPUT_GUARD
from tuner.space import operation
from tuner.space.chosen_types import dtype

if TYPE_CHECKING:
    from tuner.devices.base import Array, Buffer
    from tuner.devices.program import Program
    from tuner.measure.bench_kernels import BenchKernels
    from tuner.space.model import Argument


class OwnArrays:
    """Allocates them between guards, prepares them for each run, and looks at what the run left.

    Scratch holds poison before a run unless it is zeroed: what an earlier run left is no help. Scratch that is zeroed
    once must be zero after each run, as the file says.
    """

    def __init__(self, program: Program, kernels: BenchKernels) -> None:
        self._device, self._kernels = program.device, kernels
        self._scope, self._arguments = program.scope, {a.name: a for a in program.space.operation.arguments}
        self.buffers: dict[str, Buffer] = {}
        self._once: list[str] = []
        self._poison: dict[int, list[Callable[[], None]]] = {}
        for name in program.space.varying:
            if self._arguments[name].is_array:
                self.allocate(self._arguments[name], operation.nbytes(self._arguments[name], self._scope))

    def allocate(self, argument: Argument, nbytes: int) -> Buffer:
        """Memory for one of them. Raises LaunchError where it does not fit."""
        buffer = self.buffers[argument.name] = allocated(self._device, argument, nbytes, GUARD)
        self._device.fill(buffer.whole, OUTPUT_GUARD, nbytes + 2 * GUARD)
        if argument.zeroed == "once":
            self._device.fill(buffer.handle, 0, nbytes)
            self._once.append(argument.name)
        return buffer

    def bound(self) -> None:
        """All of them are there: make ready what looks at them."""
        self._guards = [self._kernels.check_guards(n, b, OUTPUT_GUARD) for n, b in self.buffers.items()]

    def prepare(self, fill: int) -> None:
        """Enqueue what fills them with poison."""
        if fill not in self._poison:
            names = [name for name in self.buffers if self._arguments[name].zeroed == "never"]
            self._poison[fill] = [self._kernels.poison(self.buffers[name], fill) for name in names]
        for call in self._poison[fill]:
            call()

    def inspect(self) -> None:
        """Enqueue the checks of the guards. Raises WrongResult for scratch that a run has not left zero."""
        for call in self._guards:
            call()
        for name in self._once:
            contents = np.empty(self.buffers[name].nbytes, np.uint8)
            self._device.read(self.buffers[name].handle, contents)
            if contents.any():
                raise WrongResult(
                    f"leaves {name} other than zero, which is zeroed once; set it back, or say `zeroed: each`",
                    "scratch not zero",
                )

    def read(self, name: str) -> Array:
        """The contents of one of them."""
        argument = self._arguments[name]
        output = np.empty(operation.shape(argument, self._scope), dtype(argument, self._scope).numpy)
        self._device.read(self.buffers[name].handle, output)
        return output
