"""Verification on arrays with padded rows.

All arrays are contiguous during tuning, so a kernel that ignores a leading dimension, or confuses two of them, would be
right there.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import numpy as np

from tuner.devices.base import GUARD
from tuner.errors import WrongResult
from tuner.measure.answers.poison import INPUT_GUARD, OUTPUT_GUARD
from tuner.measure.kernels.bench_kernels import Lay
from tuner.space import operation, strides
from tuner.space.chosen_types import dtype

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tuner.devices.base import Buffer, Device
    from tuner.devices.program import Program
    from tuner.measure.kernels.bench_kernels import BenchKernels
    from tuner.measure.verify.own_arrays import OwnArrays
    from tuner.space.argument import Argument
    from tuner.space.model import Space
    from tuner.space.scope import Scope


def nbytes(space: Space, scope: Scope) -> int:
    """The bytes of all padded arrays; 0 if the kernel takes no leading dimensions.

    Raises SpaceError if no leading dimensions are valid.
    """
    op = space.operation
    if not op.leading:
        return 0
    names = {**scope.sizes, **operation.padded(op, scope, space.alignment)}
    return sum(_elements(a, operation.shape(a, scope), names) * dtype(a, scope).itemsize for a in op.arrays)


def padded_call(
    program: Program, whole: Mapping[str, Buffer], own: OwnArrays, kernels: BenchKernels
) -> Callable[[], None]:
    """A launch of a configuration on the arrays in `whole` and `own`, by way of padded copies of them. Its scratch is
    added to `own`.

    The launch raises WrongResult if the run writes into the padding, or outside of the padded arrays and the scratch.
    What it wrote otherwise is in the arrays afterwards. The padding of inputs is NaN, or -1 for integers, so a kernel
    that reads it is wrong.
    """
    op, device = program.space.operation, program.device
    leading = leading_of(program)
    names, buffers = {**program.scope.sizes, **leading}, {**whole, **own.buffers}
    inputs = {a.name for a in op.arrays if a.role == "in"}
    arrays = [_PaddedArray(program, a, buffers[a.name], kernels, names) for a in op.arrays]
    work = program.work(own.allocate, operation.scalars(op, program.scope, leading))
    launch = device.bind(work, [array.handle for array in arrays])

    def call() -> None:
        for array in arrays:
            array.fill()
        launch()
        device.synchronize()
        for array in arrays:
            array.fetch()
        own.inspect()
        for name, counts in kernels.counts().items():
            counts.check_guards(name)
            if counts.changed and name in inputs:
                raise WrongResult(f"writes into {name}, which it may only read", "writes to an input")
            if counts.changed:
                raise WrongResult(f"writes into the padding behind the rows of {name}", "writes outside")
        kernels.clear()

    return call


def leading_of(program: Program) -> dict[str, int]:
    """The leading dimensions of the padded arrays."""
    return operation.padded(program.space.operation, program.scope, program.space.alignment)


def _elements(argument: Argument, shape: tuple[int, ...], names: Mapping[str, int]) -> int:
    """The number of elements of an array and its padding, including that after the last row."""
    steps = strides.of(argument, names) if argument.strides else strides.contiguous(shape)
    return max(strides.span(shape, steps), shape[0] * steps[0]) if shape else 1


class _PaddedArray:
    """A copy of one array on the device, with padded rows if it has strides, between guards."""

    def __init__(
        self,
        program: Program,
        argument: Argument,
        whole: Buffer,
        kernels: BenchKernels,
        names: Mapping[str, int],
    ) -> None:
        """`whole` is the array without padding."""
        self._device: Device = program.device
        self._guard = INPUT_GUARD if argument.role == "in" else OUTPUT_GUARD
        shape, size = program.shapes[argument.name], dtype(argument, program.scope).itemsize
        steps = strides.of(argument, names) if argument.strides else strides.contiguous(shape)
        outer = [*zip(shape, steps, strict=True)][-2::-1]
        self._axes = self._device.upload(np.array(outer or [(1, 0)], np.int64) * [1, size])
        self._buffer = self._device.allocate(_elements(argument, shape, names) * size)
        self.handle = self._buffer.handle
        row = size * (shape[-1] if shape else 1)
        lay = functools.partial(kernels.lay, self._buffer, whole, self._axes, row)
        self._out, self._back, self._erase = lay(Lay.OUT), lay(Lay.BACK), lay(Lay.FILL, self._guard)
        self._checks = [
            kernels.check_fill(argument.name, self._buffer, self._guard),
            kernels.check_guards(argument.name, self._buffer, self._guard),
        ]

    def fill(self) -> None:
        """Write the padding and the guards, and copy the elements."""
        self._device.fill(self._buffer.whole, self._guard, self._buffer.nbytes + 2 * GUARD)
        self._out()

    def fetch(self) -> None:
        """Copy the elements back. The kernels then count what has changed in the padding and in the guards."""
        for call in (self._back, self._erase, *self._checks):
            call()
