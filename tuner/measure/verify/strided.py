"""Verification on arrays with padded rows.

All arrays are contiguous during tuning, so a kernel that ignores a leading dimension, or confuses two of them, would be
right there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tuner.devices.base import GUARD
from tuner.devices.program import allocated
from tuner.errors import SpaceError, WrongResult
from tuner.measure.answers import python_calls
from tuner.measure.answers.guards import check_guards
from tuner.measure.answers.poison import INPUT_GUARD, NAN, OUTPUT_GUARD, poisoned
from tuner.measure.verify.comparison import compare
from tuner.measure.verify.own_arrays import not_left_zero
from tuner.space import operation, strides
from tuner.space.answers import derivation
from tuner.space.chosen_types import dtype
from tuner.space.values.elements import Held, held

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tuner.devices.base import Array, Buffer, Device
    from tuner.devices.program import Program
    from tuner.measure.verify.input_sets import InputSet
    from tuner.space.argument import Argument
    from tuner.space.model import Space
    from tuner.space.scope import Scope
    from tuner.space.values.elements import Elements


def nbytes(space: Space, scope: Scope) -> int:
    """The bytes of all padded arrays; 0 if the kernel takes no leading dimensions.

    Raises SpaceError if no leading dimensions are valid.
    """
    op = space.operation
    if not op.leading:
        return 0
    names = {**scope.sizes, **operation.padded(op, scope, space.alignment)}
    return sum(_elements(a, operation.shape(a, scope), names) * dtype(a, scope).itemsize for a in op.arrays)


def verify(program: Program, inputs: InputSet) -> None:
    """Run a configuration once on padded arrays, and compare all elements and the padding.

    The padding of inputs is NaN, or -1 for integers, so a kernel that reads it is wrong. Raises WrongResult, and
    LaunchError if the configuration does not run.
    """
    op, scope = program.space.operation, program.scope
    leading = operation.padded(op, scope, program.space.alignment)
    try:
        _run(program, inputs, leading)
    except WrongResult as error:
        given = ", ".join(f"{name}={value}" for name, value in leading.items())
        raise WrongResult(f"with {given}: {error}", error.reason) from None


def _run(program: Program, inputs: InputSet, leading: Mapping[str, int]) -> None:
    op, device = program.space.operation, program.device
    names = {**program.scope.sizes, **leading}
    arrays = {a.name: _PaddedArray(program, a, inputs, names) for a in op.arrays}
    scratch = _Scratch(device)
    work = program.work(scratch.allocate, operation.scalars(op, program.scope, leading))
    device.bind(work, [array.handle for array in arrays.values()])()
    device.synchronize()
    contents = held({name: array.fetched() for name, array in arrays.items()})
    scratch.check()
    with device.plain_arithmetic():
        _compare(program, inputs, contents, {name: array.poison for name, array in arrays.items()})


def _compare(
    program: Program, inputs: InputSet, contents: Mapping[str, Elements], poisons: Mapping[str, Array | None]
) -> None:
    """Raise WrongResult if an output or a derived value is wrong."""
    op = program.space.operation
    for name in inputs.answers.keys() & contents.keys():
        bound = inputs.bounds[name]
        compare(name, contents[name], inputs.answers[name], bound, poisons[name] if bound.wrong else None)
    if op.derive and inputs.answers:
        try:
            derived = derivation.values(op, program.scope, {**inputs.contents, **contents}, python_calls.call)
        except SpaceError as error:
            raise WrongResult(f"its outputs have no derived value: {error}") from None
        for name, value in derived.items():
            compare(name, Held(value), inputs.answers[name], inputs.bounds[name])


def _elements(argument: Argument, shape: tuple[int, ...], names: Mapping[str, int]) -> int:
    """The number of elements of an array and its padding, including that after the last row."""
    steps = strides.of(argument, names) if argument.strides else strides.contiguous(shape)
    return max(strides.span(shape, steps), shape[0] * steps[0]) if shape else 1


class _Scratch:
    """The scratch of one run, between guards."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._buffers: list[tuple[Argument, Buffer]] = []

    def allocate(self, argument: Argument, nbytes: int) -> Buffer:
        """Memory filled with NaN, or with zeros if `zeroed: once`. Raises LaunchError if it does not fit."""
        buffer = allocated(self._device, argument, nbytes, GUARD)
        self._device.fill(buffer.whole, OUTPUT_GUARD, nbytes + 2 * GUARD)
        self._device.write(buffer.handle, np.full(nbytes, 0 if argument.zeroed == "once" else NAN, np.uint8))
        self._buffers.append((argument, buffer))
        return buffer

    def check(self) -> None:
        """Raise WrongResult if the run wrote into a guard, or left scratch with `zeroed: once` non-zero."""
        for argument, buffer in self._buffers:
            check_guards(self._device, argument.name, buffer, OUTPUT_GUARD)
            if argument.zeroed == "once":
                left = np.empty(buffer.nbytes, np.uint8)
                self._device.read(buffer.handle, left)
                if left.any():
                    raise not_left_zero(argument.name)


class _PaddedArray:
    """One array on the device, with padded rows if it has strides, between guards."""

    def __init__(self, program: Program, argument: Argument, inputs: InputSet, names: Mapping[str, int]) -> None:
        self._device: Device = program.device
        self._name, self._is_input = argument.name, argument.role == "in"
        self._element, self._shape = dtype(argument, program.scope), program.shapes[argument.name]
        steps = strides.of(argument, names) if argument.strides else strides.contiguous(self._shape)
        self._steps = tuple(step * self._element.itemsize for step in steps)
        self._guard = INPUT_GUARD if self._is_input else OUTPUT_GUARD
        elements = _elements(argument, self._shape, names)
        self._before = np.full(elements * self._element.itemsize, self._guard, np.uint8)
        self.poison: Array | None = None
        is_read = argument.name in inputs.contents.keys() - inputs.write_only
        self._view(self._before)[...] = inputs.contents[argument.name].array() if is_read else self._poisoned(inputs)
        self._buffer = self._device.allocate(self._before.nbytes)
        self._device.fill(self._buffer.whole, self._guard, self._before.nbytes + 2 * GUARD)
        self._device.write(self._buffer.handle, self._before)
        self.handle = self._buffer.handle

    def fetched(self) -> Array:
        """Copy the elements to the host, contiguous. Raises WrongResult if the run wrote outside of them."""
        check_guards(self._device, self._name, self._buffer, self._guard)
        after = np.empty_like(self._before)
        self._device.read(self.handle, after)
        elements = self._view(after).copy()
        if self._is_input and (after != self._before).any():
            raise WrongResult(f"writes into {self._name}, which it may only read", "writes to an input")
        self._view(after)[...] = self._view(self._before)  # now only changes of the padding remain
        if (after != self._before).any():
            raise WrongResult(f"writes into the padding behind the rows of {self._name}", "writes outside")
        return elements

    def _view(self, memory: Array) -> Array:
        return np.ndarray(self._shape, self._element.numpy, memory, strides=self._steps)

    def _poisoned(self, inputs: InputSet) -> Array:
        """The poison of an output that a run need not read."""
        answer = inputs.answers.get(self._name)
        if self._element.is_exact and answer is not None:
            self.poison = poisoned(answer.array(self._element.numpy))
            return self.poison
        size = self._element.itemsize * int(np.prod(self._shape))
        return np.full(size, NAN, np.uint8).view(self._element.numpy).reshape(self._shape)
