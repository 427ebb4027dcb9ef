"""The judgement of a run: compares everything that the run wrote with its answers."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from tuner.errors import SpaceError, WrongResult
from tuner.measure.answers import python_calls
from tuner.measure.verify import accumulation, bits
from tuner.measure.verify.comparison import Verdict, compare
from tuner.space.answers import derivation
from tuner.space.values.elements import Fetched, Held

if TYPE_CHECKING:
    from tuner.devices.base import Array, Buffer, Device
    from tuner.measure.kernels.bench_kernels import BenchKernels, Counts
    from tuner.measure.verify.input_sets import InputSet
    from tuner.measure.verify.layout import Layout
    from tuner.measure.verify.own_arrays import OwnArrays
    from tuner.space.computation import Operation
    from tuner.space.scope import Scope


class Judge:
    """Compares the outputs in `buffers` with their answers, on the device if possible.

    An output is copied to the host only to name a wrong element, if the device cannot compare it, or if a value is
    derived from it. `digests` has the name, the size in bytes and the digest of each output and each derived value of
    the last run that was compared with an answer; it is empty if the run was judged without digests.
    """

    digests: list[tuple[str, int, int]]

    def __init__(
        self, device: Device, op: Operation, scope: Scope, buffers: Mapping[str, Buffer], kernels: BenchKernels
    ) -> None:
        self._device, self._op, self._scope = device, op, scope
        self._buffers, self._kernels = buffers, kernels

    def verdicts(self, layout: Layout, own: OwnArrays | None, with_digests: bool = False) -> list[Verdict]:
        """The verdicts on all outputs and derived values, after a run on the input set of `layout`.

        `own` are the configuration's private arrays, if any. Raises WrongResult.
        """
        layout.check_outputs()
        if own is not None:
            own.check()
        digests = layout.digests if with_digests else {}
        for take in digests.values():
            take()
        counts = self._kernels.counts()
        self.digests = [(name, self._buffers[name].nbytes, counts[name].digest) for name in digests]
        if any(count.wrong for count in counts.values()):
            self._kernels.clear()  # allowed wrong elements must not add up over runs
        inputs = layout.inputs
        verdicts = [self._verdict(name, layout, own, counts[name]) for name in inputs.answers if name in inputs.outputs]
        if self._op.derive and inputs.answers:
            derived = self._derived(inputs, own).items()
            verdicts += [
                compare(name, Held(value), inputs.answers[name], inputs.bounds[name]) for name, value in derived
            ]
            if with_digests:
                self.digests += [(name, value.nbytes, bits.digest_of(value)) for name, value in derived]
        if own is not None:
            own.judge(counts)
        return verdicts

    def _verdict(self, name: str, layout: Layout, own: OwnArrays | None, counts: Counts) -> Verdict:
        inputs = layout.inputs
        bound, answer = inputs.bounds[name], inputs.answers[name]
        if name in layout.compared and counts.wrong <= bound.most_wrong(answer.size) and not counts.unwritten:
            return Verdict.of(counts.worst, counts.wrong, bound)
        output, poison = Held(self._read(name, inputs, own)), layout.poison_of(name)
        try:
            return compare(name, output, answer, bound, poison if bound.wrong else None)
        except WrongResult as error:
            is_poisoned = name in inputs.write_only
            argument = next(argument for argument in self._op.outputs if argument.name == name)
            if is_poisoned and (reason := accumulation.diagnose(argument, output, answer, poison)):
                raise WrongResult(reason, error.reason) from None
            raise

    def _derived(self, inputs: InputSet, own: OwnArrays | None) -> dict[str, Array]:
        """The derived values of the outputs. Raises WrongResult if they cannot be computed."""
        read = {name for derived in self._op.derive for name in derivation.outputs_read(self._op, derived)}
        contents = inputs.contents
        outputs = {
            name: Fetched(contents[name].shape, contents[name].dtype, partial(self._read, name, inputs, own))
            for name in read
        }
        try:
            return derivation.values(self._op, self._scope, {**contents, **outputs}, python_calls.call)
        except SpaceError as error:
            raise WrongResult(f"its outputs have no derived value: {error}") from None

    def _read(self, name: str, inputs: InputSet, own: OwnArrays | None) -> Array:
        if own is not None and name in own.buffers:
            return own.read(name)
        output = np.empty(inputs.contents[name].shape, inputs.contents[name].dtype)
        self._device.read(self._buffers[name].handle, output)
        return output
