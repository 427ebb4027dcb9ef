"""Every element that a run has left against what is right."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from tuner.errors import SpaceError, WrongResult
from tuner.measure.verify import accumulation
from tuner.measure.verify.comparison import Verdict, compare
from tuner.space.answers import derivation
from tuner.space.values.elements import Held, held

if TYPE_CHECKING:
    from tuner.devices.base import Array, Buffer, Device
    from tuner.measure.kernels.bench_kernels import BenchKernels, Counts
    from tuner.measure.verify.input_sets import InputSet
    from tuner.measure.verify.layout import Layout
    from tuner.measure.verify.own_arrays import OwnArrays
    from tuner.space.model import Operation
    from tuner.space.scope import Scope


class Judge:
    """Compares the outputs in `buffers`, on the device where it can. An output is fetched only to name a wrong element,
    where the device cannot compare, or where a value is derived from it."""

    def __init__(
        self, device: Device, op: Operation, scope: Scope, buffers: Mapping[str, Buffer], kernels: BenchKernels
    ) -> None:
        self._device, self._op, self._scope = device, op, scope
        self._buffers, self._kernels = buffers, kernels

    def verdicts(self, layout: Layout, own: OwnArrays | None) -> list[Verdict]:
        """The verdicts on all that is compared, after a run on the set of `layout` by a configuration that may have
        arrays of its `own`. Raises WrongResult."""
        layout.check_outputs()
        if own is not None:
            own.check()
        counts = self._kernels.counts()
        if any(count.wrong for count in counts.values()):
            self._kernels.clear()  # those that are allowed do not add up over runs
        inputs = layout.inputs
        verdicts = [self._verdict(name, layout, own, counts[name]) for name in inputs.answers if name in inputs.outputs]
        if self._op.derive and inputs.answers:
            derived = self._derived(inputs, own).items()
            verdicts += [
                compare(name, Held(value), inputs.answers[name], inputs.bounds[name]) for name, value in derived
            ]
        if own is not None:
            own.judge(counts)
        return verdicts

    def _verdict(self, name: str, layout: Layout, own: OwnArrays | None, counts: Counts) -> Verdict:
        inputs = layout.inputs
        bound, answer = inputs.bounds[name], inputs.answers[name]
        if name in layout.compared and counts.wrong <= bound.most_wrong(answer.size) and not counts.unwritten:
            return Verdict.of(counts.worst, counts.wrong, bound)
        output, poison = Held(self._fetched(name, inputs, own)), layout.poison_of(name)
        try:
            return compare(name, output, answer, bound, poison if bound.wrong else None)
        except WrongResult as error:
            is_poisoned = name in inputs.write_only
            argument = next(argument for argument in self._op.outputs if argument.name == name)
            if is_poisoned and (reason := accumulation.added(argument, output, answer, poison)):
                raise WrongResult(reason, error.reason) from None
            raise

    def _derived(self, inputs: InputSet, own: OwnArrays | None) -> dict[str, Array]:
        """The derived values of what the outputs hold. Raises WrongResult where that has none."""
        read = {name for derived in self._op.derive for name in derivation.outputs_read(self._op, derived)}
        arrays = {**inputs.contents, **held({name: self._fetched(name, inputs, own) for name in read})}
        try:
            return derivation.values(self._op, self._scope, arrays)
        except SpaceError as error:
            raise WrongResult(f"its outputs have no derived value: {error}") from None

    def _fetched(self, name: str, inputs: InputSet, own: OwnArrays | None) -> Array:
        if own is not None and name in own.buffers:
            return own.read(name)
        output = np.empty(inputs.contents[name].shape, inputs.contents[name].dtype)
        self._device.read(self._buffers[name].handle, output)
        return output
