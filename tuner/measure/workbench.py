"""Verifies every element of a kernel's outputs, before the kernel is timed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tuner.devices import BACKENDS
from tuner.devices.base import GUARD, Array, Buffer, Device, Function, Library
from tuner.errors import DeviceError, WrongResult
from tuner.measure.device_check import DeviceCheck
from tuner.space import operation
from tuner.space.model import Operation, Scope
from tuner.space.reference_cache import ReferenceCache

POISON = 0xFF  # every floating-point type reads a run of these bytes as NaN
# Guards of outputs hold other bytes than guards of inputs. A kernel may copy a NaN from beyond its input to beyond its
# output: with equal guards it would write the bytes that are there already, and go unnoticed.
OUTPUT_GUARD = 0x5A
_CHUNK = 1 << 20  # elements compared at a time; keeps the temporaries in cache


@dataclass(frozen=True)
class Verdict:
    """The largest error over all outputs, and the bound for that output."""

    error: float
    bound: float


def bound(op: Operation, scope: Scope, dtype: str, largest: float) -> float:
    """The largest error an output of `dtype` may have; `largest` is the largest magnitude of its reference.

    The operation's `tolerance` gives it, with `epsilon` the unit round-off of `dtype`. Without a tolerance it is
    16 epsilon times `largest` (at least 1). Integers must be exact.
    """
    element = np.dtype(dtype)
    if element.kind != "f":
        return 0.0
    epsilon = float(np.finfo(element).eps) / 2
    if op.tolerance is not None:
        return float(op.tolerance.evaluate({**scope.names, "epsilon": epsilon}))
    return 16 * epsilon * max(1.0, largest)


def compare(name: str, output: Array, answer: Array, limit: float) -> float:
    """The largest error of `output` against `answer`, an array of the same shape. NaN is always wrong.

    Raises WrongResult, which names the first wrong element, where an error exceeds `limit`.
    """
    actual, expected = output.reshape(-1), answer.reshape(-1)
    worst, wrong, first = 0.0, 0, -1
    for start in range(0, actual.size, _CHUNK):
        chunk = slice(start, start + _CHUNK)
        with np.errstate(invalid="ignore", over="ignore"):
            error = np.abs(np.subtract(actual[chunk], expected[chunk], dtype=np.float64))
        right = error <= limit
        if not right.all():
            wrong += int(right.size - np.count_nonzero(right))
            first = start + int(np.argmin(right)) if first < 0 else first
        worst = max(worst, float(np.max(error, initial=0.0, where=right)))
    if wrong:
        index = ", ".join(str(int(i)) for i in np.unravel_index(first, answer.shape))
        raise WrongResult(
            f"{name}[{index}] = {actual[first]:.7g}, {expected[first]:.7g} expected; "
            f"{wrong} of {actual.size} elements are off by more than {limit:.2g}",
            "not a number" if np.isnan(actual[first]) else None,  # or not written: outputs begin as NaN
        )
    return worst


def check_fits(device: Device, op: Operation, scope: Scope) -> int:
    """Bytes of device memory that a workbench needs. Raises DeviceError where the device has fewer."""
    needed = operation.array_bytes(op, scope)
    if BACKENDS[device.kind].runs_device_check:
        outputs = sum(operation.nbytes(a, scope) for a in op.arrays if a.role != "in")
        # A copy of each input; for each output a reference of two floats, for each of two sets of options.
        needed += needed - outputs + 4 * outputs
    if needed > device.memory:
        raise DeviceError(
            f"{device.id}: arrays and references take {needed / 1e9:.1f} GB; {device.name} offers "
            f"{device.memory / 1e9:.1f} GB; try a smaller size"
        )
    return needed


class Workbench:
    """The arrays of one problem on one device, and their reference: kernels are verified and timed on these.

    Each array lies between two guards of `GUARD` bytes, and outputs are filled with NaN before each run. So an element
    that is not written is seen, and so is a write outside. Guards of inputs are NaN: a read beyond an edge spoils the
    result.
    """

    def __init__(
        self,
        device: Device,
        op: Operation,
        scope: Scope,
        shared: Workbench | None = None,
        cache: ReferenceCache | None = None,
    ) -> None:
        """Makes the inputs and computes the reference.

        `shared` is another workbench for the same sizes, whose buffers this one uses too. `cache` keeps the
        reference's matrix products. Raises DeviceError where arrays and references do not fit in memory.
        """
        self.device, self.op, self.scope = device, op, scope
        needed = check_fits(device, op, scope)
        try:
            self.contents = operation.inputs(op, scope)
            self.cache: ReferenceCache = cache or (shared.cache if shared else ReferenceCache())
            self.answers, names_read = operation.answers(op, scope, self.contents, self.cache)
        except MemoryError:
            raise DeviceError(f"the reference for {needed / 1e9:.1f} GB of arrays does not fit in memory") from None
        self.outputs = [a.name for a in op.arrays if a.role != "in"]
        self.write_only = [name for name in self.outputs if name not in names_read]
        self.bounds = {
            a.name: bound(op, scope, a.dtype, float(np.max(np.abs(self.answers[a.name]), initial=0.0)))
            for a in op.arrays
            if a.name in self.answers
        }
        self.buffers: Mapping[str, Buffer] = (
            shared.buffers if shared else {name: device.allocate(data.nbytes) for name, data in self.contents.items()}
        )
        self._check: DeviceCheck | None = None
        if BACKENDS[device.kind].runs_device_check:
            answers = {name: self.answers[name] for name in self.outputs if self.contents[name].dtype == np.float32}
            inputs = {name: data for name, data in self.contents.items() if name not in self.outputs}
            copies = shared._check.copies if shared and shared._check else None
            self._check = DeviceCheck(device, answers, inputs, copies)
        for name in self.buffers:
            self._refill(name)

    def with_other_options(self) -> Workbench | None:
        """The same arrays, with options that are neither 0 nor 1: a kernel that ignores alpha is right at alpha = 1.

        None where no option is 0 or 1, or where shapes depend on one.
        """
        integers = {a.name for a in self.op.arguments if "int" in a.dtype}
        options = {n: v + (2 if n in integers else 0.5) if v in (0, 1) else v for n, v in self.scope.options.items()}
        scope = Scope(self.scope.sizes, options, self.scope.language, self.scope.limits)
        same_shapes = all(operation.shape(a, scope) == operation.shape(a, self.scope) for a in self.op.arrays)
        if options == self.scope.options or not same_shapes:
            return None
        return Workbench(self.device, self.op, scope, shared=self)

    @property
    def arguments(self) -> list[Any]:
        """Handles of buffers and NumPy scalars, in the kernel's order."""
        scalars = iter(operation.scalars(self.op, self.scope))
        return [self.buffers[a.name].handle if a.shape is not None else next(scalars) for a in self.op.arguments]

    def library(self) -> Library | None:
        """The vendor's routine on these arrays; None where there is none."""
        if self.op.library is None:
            return None
        handles = {name: buffer.handle for name, buffer in self.buffers.items()}
        dtypes = {a.name: a.dtype for a in self.op.arrays}
        return self.device.library(self.op.library, {**self.scope.names, **handles}, dtypes)

    def bind(self, function: Function) -> Callable[[], None]:
        """A launch of `function` on these arrays."""
        return self.device.bind(function, self.arguments)

    def verify(self, call: Callable[[], None]) -> Verdict:
        """Run `call` once on fresh outputs and compare every element.

        Raises WrongResult, or LaunchError where `call` does not run. An earlier kernel may have written to the inputs.
        So a wrong result counts only where they are intact; else they are restored, and `call` runs again.
        """
        try:
            return self._verify_once(call)
        except WrongResult:
            if not self._restore_inputs():
                raise
        try:
            return self._verify_once(call)
        except WrongResult:
            self._restore_inputs()  # this kernel may write to them too; the next one starts from clean inputs
            raise

    def verify_after(self, runs: int) -> None:
        """Compare the outputs that the last of `runs` further runs of a verified kernel has left.

        Outputs that the kernel also reads change from run to run; only their guards are compared. Raises WrongResult.
        """
        try:
            for name in self.outputs:
                if name in self.write_only:
                    self._compare(name)
                self._check_guards(name)
        except WrongResult as error:
            raise WrongResult(
                f"right at first, wrong after {runs} more runs: {error}", "changes from run to run"
            ) from None

    def _verify_once(self, call: Callable[[], None]) -> Verdict:
        for name in self.outputs:
            self._refill(name)
        self.device.synchronize()
        call()
        self.device.synchronize()
        errors = {name: self._compare(name) for name in self.outputs}
        for name in self.buffers:
            self._check_guards(name)
            if name not in self.outputs and self._input_changed(name):
                self._refill(name)
                raise WrongResult(f"writes into {name}, which it may only read", "writes to an input")
        worst = max(self.outputs, key=lambda name: errors[name])
        return Verdict(errors[worst], self.bounds[worst])

    def _compare(self, name: str) -> float:
        """The largest error of an output. It is compared on the device, and fetched only to name a wrong element."""
        if self._check is not None and name in self._check.references:
            comparison = self._check.output(name, self.buffers[name], self.bounds[name])
            if not comparison.wrong:
                return comparison.worst
        output = np.empty_like(self.contents[name])
        self.device.read(self.buffers[name].handle, output)
        return compare(name, output, self.answers[name], self.bounds[name])

    def _check_guards(self, name: str) -> None:
        """Raise WrongResult where a guard has changed, and restore it."""
        for changed, side in zip(self._changed_guards(name), ("before the start", "after the end"), strict=True):
            if changed:
                self._refill(name)
                raise WrongResult(f"writes {side} of {name}", "writes outside")

    def _guard(self, name: str) -> int:
        return OUTPUT_GUARD if name in self.outputs else POISON

    def _changed_guards(self, name: str) -> tuple[bool, bool]:
        buffer, expected = self.buffers[name], self._guard(name)
        if self._check is not None:
            return self._check.guards(buffer, expected)
        guard = np.empty(GUARD, dtype=np.uint8)
        self.device.read(buffer.whole, guard)
        before = not (guard == expected).all()
        self.device.read(buffer.whole, guard, GUARD + buffer.nbytes)
        return before, not (guard == expected).all()

    def _refill(self, name: str) -> None:
        """Write the guards, and the contents before a launch: poison where the kernel only writes."""
        buffer, data = self.buffers[name], self.contents[name]
        self.device.fill(buffer.whole, self._guard(name), buffer.nbytes + 2 * GUARD)
        if name not in self.write_only:
            self.device.write(buffer.handle, data)
        elif data.dtype.kind == "f":
            self.device.fill(buffer.handle, POISON, buffer.nbytes)
        else:  # no integer is NaN: each element gets a wrong value
            self.device.write(buffer.handle, ~self.answers[name].astype(data.dtype))

    def _restore_inputs(self) -> bool:
        """Restore the inputs and their guards; whether any of them had changed."""
        inputs = [name for name in self.buffers if name not in self.outputs]
        changed = [name for name in inputs if self._input_changed(name) or any(self._changed_guards(name))]
        for name in changed:
            self._refill(name)
        return bool(changed)

    def _input_changed(self, name: str) -> bool:
        if self._check is not None and not self._check.input_changed(name, self.buffers[name]):
            return False
        data = np.empty_like(self.contents[name])
        self.device.read(self.buffers[name].handle, data)
        if not np.array_equal(data, self.contents[name]):
            return True
        if self._check is not None:  # a stray write hit the copy instead
            self._check.renew(name, self.contents[name])
        return False
