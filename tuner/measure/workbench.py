"""Is every element of the output right? Asked of each configuration before it is timed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tuner.devices.base import GUARD, Array, Buffer, Device, Function, Library
from tuner.errors import DeviceError, WrongResult
from tuner.measure.device_check import DeviceCheck
from tuner.space import operation
from tuner.space.model import Operation, Scope
from tuner.space.reference_cache import ReferenceCache

POISON = 0xFF  # every floating-point type reads a run of these bytes as NaN
# Around outputs stand other bytes than around inputs: what a kernel computes from a NaN beyond its input is often that
# same NaN, and would not be seen where it lands beyond the output.
OUTPUT_GUARD = 0x5A
_CHUNK = 1 << 20  # elements compared at a time; keeps the temporaries in cache


@dataclass(frozen=True)
class Verdict:
    """The largest error over all outputs, and the bound it was held to."""

    error: float
    bound: float


def bound(op: Operation, scope: Scope, dtype: str, largest: float) -> float:
    """The largest error an output of `dtype` may have, where the answer's largest magnitude is `largest`.

    The operation's `tolerance` says it, with `epsilon` the unit round-off of `dtype`; without one it is
    16 epsilon times `largest` (at least 1). Integers must be exact.
    """
    kind = np.dtype(dtype)
    if kind.kind != "f":
        return 0.0
    epsilon = float(np.finfo(kind).eps) / 2
    if op.tolerance is not None:
        return float(op.tolerance.evaluate({**scope.names, "epsilon": epsilon}))
    return 16 * epsilon * max(1.0, largest)


def compare(name: str, output: Array, answer: Array, limit: float) -> float:
    """The largest error of `output`. Raises WrongResult, naming the first wrong element, if it exceeds `limit`.

    NaN counts as wrong wherever it stands.
    """
    flat, right = output.reshape(-1), answer.reshape(-1)
    worst, wrong, first = 0.0, 0, -1
    for start in range(0, flat.size, _CHUNK):
        with np.errstate(invalid="ignore", over="ignore"):
            error = np.abs(np.subtract(flat[start : start + _CHUNK], right[start : start + _CHUNK], dtype=np.float64))
        good = error <= limit
        if not good.all():
            wrong += int(good.size - np.count_nonzero(good))
            first = start + int(np.argmin(good)) if first < 0 else first
        worst = max(worst, float(np.max(error, initial=0.0, where=good)))
    if wrong:
        where = ", ".join(str(int(i)) for i in np.unravel_index(first, answer.shape))
        raise WrongResult(
            f"{name}[{where}] = {flat[first]:.7g}, {right[first]:.7g} expected; "
            f"{wrong} of {flat.size} elements are off by more than {limit:.2g}",
            "not a number" if np.isnan(flat[first]) else None,  # or not written: outputs begin as NaN
        )
    return worst


def check_fits(device: Device, op: Operation, scope: Scope) -> int:
    """Bytes on the device that a workbench needs. Raises DeviceError where there are fewer."""
    outputs = sum(operation.nbytes(a, scope) for a in op.arrays if a.role != "in")
    needed = operation.array_bytes(op, scope)
    if device.backend.runs_device_check:  # a copy of each input, and for two sets of options two references per output
        needed += needed - outputs + 4 * outputs
    if needed > device.memory:
        raise DeviceError(
            f"{device.id}: arrays and references take {needed / 1e9:.1f} GB, {device.memory / 1e9:.1f} GB can be "
            f"had on {device.name}; try a smaller size"
        )
    return needed


class Workbench:
    """The arrays of one problem on one device, with the right answer, ready to try kernels on.

    Outputs lie between guards of `GUARD` bytes and are poisoned before each run, so that an element that is not
    written, or written outside, is seen. Guards of inputs are NaN: what is read beyond an edge shows in the result.
    """

    def __init__(
        self,
        device: Device,
        op: Operation,
        scope: Scope,
        shared: Workbench | None = None,
        products: ReferenceCache | None = None,
    ) -> None:
        """Makes inputs and answer; `shared` is another workbench for the same sizes, whose arrays are used; `products`
        keeps what the answer is made of.

        Raises DeviceError where the arrays, and what they are compared with, do not fit.
        """
        self.device, self.op, self.scope = device, op, scope
        needed = check_fits(device, op, scope)
        try:
            self.given = operation.inputs(op, scope)
            self.products: ReferenceCache = products or (shared.products if shared else ReferenceCache())
            self.answers, read = operation.answers(op, scope, self.given, self.products)
        except MemoryError:
            raise DeviceError(f"the reference for {needed / 1e9:.1f} GB of arrays does not fit in memory") from None
        self.outputs = [a.name for a in op.arrays if a.role != "in"]
        self.poisoned = [name for name in self.outputs if name not in read]
        self.bounds = {
            a.name: bound(op, scope, a.dtype, float(np.max(np.abs(self.answers[a.name]), initial=0.0)))
            for a in op.arrays
            if a.name in self.answers
        }
        new = {} if shared else {name: device.allocate(data.nbytes) for name, data in self.given.items()}
        self.buffers: Mapping[str, Buffer] = shared.buffers if shared else new
        on_device = {name: self.answers[name] for name in self.outputs if self.given[name].dtype == np.float32}
        inputs = {name: data for name, data in self.given.items() if name not in self.outputs}
        copies = shared._check.copies if shared and shared._check else None
        self._check: DeviceCheck | None = None
        if device.backend.runs_device_check:
            self._check = DeviceCheck(device, on_device, inputs, copies)
        self._checked_there = on_device if self._check else {}
        for name in self.buffers:
            self._refill(name)

    def with_other_options(self) -> Workbench | None:
        """The same arrays, with options that are neither 0 nor 1; None where that changes nothing, or the shapes.

        A kernel that ignores alpha is right at alpha = 1.
        """
        whole = {a.name for a in self.op.arguments if "int" in a.dtype}
        other = {n: v + (2 if n in whole else 0.5) if v in (0, 1) else v for n, v in self.scope.options.items()}
        scope = Scope(self.scope.sizes, other, self.scope.language, self.scope.limits)
        same_shapes = all(operation.shape(a, scope) == operation.shape(a, self.scope) for a in self.op.arrays)
        if other == self.scope.options or not same_shapes:
            return None
        return Workbench(self.device, self.op, scope, shared=self)

    @property
    def arguments(self) -> list[Any]:
        """Buffers' handles and NumPy scalars, in the kernel's order."""
        values = iter(operation.scalars(self.op, self.scope))
        return [self.buffers[a.name].handle if a.shape is not None else next(values) for a in self.op.arguments]

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

        Raises WrongResult, or LaunchError where it does not run. An earlier kernel may have written into the
        inputs, so a wrong result is believed only where they are intact; else they are restored and it runs again.
        """
        try:
            return self._verify_once(call)
        except WrongResult:
            if not self._restored():
                raise
        try:
            return self._verify_once(call)
        except WrongResult:
            self._restored()  # the next kernel starts from clean inputs, whatever this one did
            raise

    def verify_after(self, runs: int) -> None:
        """Look again, after `runs` more runs of what has been verified, at what the last of them left.

        Outputs that the kernel reads have changed from run to run, and are not looked at. Raises WrongResult.
        """
        try:
            for name in self.outputs:
                if name in self.poisoned:
                    self._compare(name)
                self._see_guards(name)
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
        errors: Mapping[str, float] = {name: self._compare(name) for name in self.outputs}
        for name in self.buffers:
            self._see_guards(name)
            if name not in self.outputs and self._changed(name):
                self._refill(name)
                raise WrongResult(f"writes into {name}, which it may only read", "writes to an input")
        worst = max(self.outputs, key=lambda name: errors[name])
        return Verdict(errors[worst], self.bounds[worst])

    def _compare(self, name: str) -> float:
        """The largest error of an output; compared where it lies, and fetched only to say which element is wrong."""
        if self._check is not None and name in self._checked_there:
            seen = self._check.output(name, self.buffers[name], self.bounds[name])
            if not seen.wrong:
                return seen.worst
        output = np.empty_like(self.given[name])
        self.device.read(self.buffers[name].handle, output)
        return compare(name, output, self.answers[name], self.bounds[name])

    def _see_guards(self, name: str) -> None:
        """Raise WrongResult, and put the guards right, where one of them was written to."""
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
        """Guards anew, and the contents from before a launch: poison, or the data where the reference reads it."""
        buffer = self.buffers[name]
        self.device.fill(buffer.whole, self._guard(name), buffer.nbytes + 2 * GUARD)
        if name in self.poisoned:
            self.device.fill(buffer.handle, POISON, buffer.nbytes)
        if name not in self.poisoned:
            self.device.write(buffer.handle, self.given[name])
        elif self.given[name].dtype.kind != "f":  # no integer is NaN: one that is wrong everywhere
            self.device.write(buffer.handle, ~self.answers[name].astype(self.given[name].dtype))

    def _restored(self) -> bool:
        """Whether an input, or a guard of one, had been changed; all are as they were afterwards."""
        inputs = [name for name in self.buffers if name not in self.outputs]
        changed = [name for name in inputs if self._changed(name) or any(self._changed_guards(name))]
        for name in changed:
            self._refill(name)
        return bool(changed)

    def _changed(self, name: str) -> bool:
        """Whether an input is no longer what was given."""
        if self._check is not None and not self._check.input_changed(name, self.buffers[name]):
            return False
        now = np.empty_like(self.given[name])
        self.device.read(self.buffers[name].handle, now)
        if not np.array_equal(now, self.given[name]):
            return True
        if self._check is not None:  # a stray write hit the copy instead
            self._check.renew(name, self.given[name])
        return False
