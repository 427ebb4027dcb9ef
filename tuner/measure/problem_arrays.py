"""The arrays of a problem on a device, and the input sets that take turns in them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Self

from tuner.devices.base import Buffer, Device, Library, RoutineCall
from tuner.measure.answers.referee import Referee
from tuner.measure.kernels.bench_kernels import BenchKernels
from tuner.measure.verify import blindness, input_sets, precision, problems, strided
from tuner.measure.verify.blindness import Sight
from tuner.measure.verify.input_sets import InputSet
from tuner.measure.verify.layout import Layout
from tuner.space import operation
from tuner.space.answers.cache import ReferenceCache
from tuner.space.chosen_types import dtype
from tuner.space.instance import nominal
from tuner.space.model import Space
from tuner.space.scope import Scope


class ProblemArrays:
    """The device arrays of one problem, and input sets for them.

    Input sets alternate in the same buffers, so a kernel cannot recognise an answer by its address. Each array has a
    guard of `GUARD` bytes on each side, which reveals writes outside. Guards of inputs are NaN, so a read out of bounds
    spoils the result.
    """

    cache: ReferenceCache
    buffers: Mapping[str, Buffer]
    _kernels: BenchKernels
    _layouts: list[Layout]
    _drawn: int  # input sets drawn so far; the next one has this seed
    _held_back: Layout | None = None  # an input set that no kernel has seen
    _precision: precision.PrecisionVerdict | None = None
    _sight: Sight | None = None

    def __init__(
        self,
        device: Device,
        space: Space,
        scope: Scope,
        cache: ReferenceCache | None = None,
        sharing: Self | None = None,
        predecessor: Self | None = None,
        like: Self | None = None,
    ) -> None:
        """Draw the inputs and compute their answers.

        `cache` holds the references' matrix products. `sharing` has other options: its arrays and its first input set
        serve here, too, in which the contents of `also:` replace those of some arrays. `predecessor` is no longer used
        and `serves` this problem: its arrays and input sets are taken over. `like` is of another problem: its copies of
        large arrays serve this one, too, where they hold the same. Raises DeviceError if arrays and references do not
        fit in memory.
        """
        self.device, self.op, self.scope = device, space.operation, space.operation.own(scope)
        self.nominal = nominal(space, self.scope)
        self.cache = sharing.cache if sharing is not None else cache or ReferenceCache()
        self._referee = Referee(device, space, self.cache)
        self._is_renewed, words = False, list[str]()
        if sharing is not None:
            words = self._share(sharing)
        elif predecessor is not None:
            self.buffers, self._kernels, self._layouts = predecessor.buffers, predecessor._kernels, predecessor._layouts
            self._held_back, self._precision = predecessor._held_back, predecessor._precision
            self._sight = predecessor._sight
        else:
            self._draw(like._layouts[0] if like is not None else None)
        self._set_names = ["".join([str(layout.inputs.seed), *words]) for layout in self._layouts]
        self._drawn = predecessor._drawn if predecessor is not None else len(self._layouts) + bool(self._held_back)

    def _share(self, sharing: Self) -> list[str]:
        """Use the arrays and the first input set of another workbench. Returns what the name of the input set says
        beside its seed."""
        self.buffers, self._kernels, first = sharing.buffers, sharing._kernels, sharing._layouts[0]
        contents = {**first.inputs.contents, **(also := self._referee.also(self.nominal))}
        seed, copies = (input_sets.ALSO, None) if also else (first.inputs.seed, first.copies)
        inputs = input_sets.answered(self._referee, self.nominal, contents, seed)
        like = None if also else first  # which may get other contents
        self._layouts = [Layout(self._referee.placer, self._kernels, self.buffers, inputs, copies, like=like)]
        beside = [f" beside {sharing.inputs.seed}"] if also else []  # whose is the rest of the contents
        return [*beside, *(f" {name}={value}" for name, value in sorted(self.scope.options.items()))]

    def _draw(self, like: Layout | None) -> None:
        """Allocate the arrays and draw their input sets; `like` may have copies of the same large arrays."""
        space, device = self._referee.space, self.device
        with_padding = strided.nbytes(space, self.nominal)
        input_sets.check_fits(device, self.op, self.nominal, with_padding)
        began = time.perf_counter()
        inputs = input_sets.draw(self._referee, self.nominal, 0)
        is_slow = time.perf_counter() - began > input_sets.SLOW_SECONDS
        shared = {name: data for name, data in inputs.contents.items() if name not in space.varying}
        self.buffers = {name: device.allocate(data.nbytes) for name, data in shared.items()}
        self._kernels = BenchKernels(device, [argument.name for argument in self.op.arguments])
        more = range(1, input_sets.set_count(device, self.op, self.nominal, inputs, self.cache, with_padding))
        drawn = [inputs, *(input_sets.draw(self._referee, self.nominal, seed) for seed in more)]
        self._layouts = [
            Layout(self._referee.placer, self._kernels, self.buffers, inputs, like=like) for inputs in drawn
        ]
        if is_slow and len(self._layouts) > 1:  # the finals would draw another one when the budget is spent
            self._held_back = self._layouts.pop()

    @property
    def set_count(self) -> int:
        """How many input sets the workbench has had."""
        return len(self._layouts) + self._is_renewed

    @property
    def nbytes(self) -> int:
        """The device memory in use, in bytes."""
        layouts = [*self._layouts, *([self._held_back] if self._held_back is not None else [])]
        sets = [memory for layout in layouts for memory in (layout.copies, layout.references)]
        return sum(buffer.nbytes for memory in (self.buffers, *sets) for buffer in memory.values())

    @property
    def output_bytes(self) -> int:
        """The bytes of the outputs that are not private to a configuration."""
        return sum(self.buffers[name].nbytes for name in self.inputs.outputs & self.buffers.keys())

    @property
    def inputs(self) -> InputSet:
        """The first input set, on which kernels are verified."""
        return self._layouts[0].inputs

    @property
    def write_only(self) -> frozenset[str]:
        """The outputs whose previous content a run need not read."""
        return self._layouts[0].inputs.write_only

    def check_precision(self) -> precision.PrecisionVerdict:
        """Return whether rounded inputs and outputs would be accepted, on the first input set (see `precision.check`).

        Only before `renew_inputs`. A workbench that takes over the arrays of another one also takes over its verdict.
        """
        if self._precision is None:
            self._precision = precision.check(self._referee, self.nominal, self.inputs)
        return self._precision

    def check_sight(self) -> Sight:
        """Return what verification cannot see on the first input set (see `blindness.check`); as `check_precision`."""
        if self._sight is None:
            self._sight = blindness.check(self._referee, self.scope, self.inputs)
        return self._sight

    @property
    def missed_cases(self) -> list[str]:
        """Warnings about the reference: conditions with only one outcome, divisors that are 0, negative indices, and
        what `check_sight` has found."""
        arrays = {argument.name for argument in self.op.arrays}
        sentences = self._referee.cases.missed(arrays, operation.integers_without_fill(self.op))
        return [*sentences, *(self._sight.sentences if self._sight is not None else ())]

    def empty_launch(self) -> Callable[[], None]:
        """A launch of a kernel that does nothing."""
        return self._kernels.empty_launch()

    def renew_inputs(self) -> None:
        """Replace the first input set once by one that no kernel has seen, unless that takes too long."""
        first = self._layouts[0]
        if not self._is_renewed and self._held_back is not None:
            self._layouts[0], self._held_back, self._is_renewed = self._held_back, None, True
            self._set_names[0] = str(self._layouts[0].inputs.seed)
            return
        if self._is_renewed or not input_sets.is_renewable(self.op, first.inputs, self.cache):
            return
        inputs = input_sets.draw(self._referee, self.nominal, self._drawn)
        self._layouts[0] = Layout(
            self._referee.placer, self._kernels, self.buffers, inputs, first.copies, first.references
        )
        self._set_names[0] = str(inputs.seed)
        self._is_renewed, self._drawn = True, self._drawn + 1

    def serves(self, space: Space, scope: Scope) -> bool:
        """Whether a kernel of `space` may be measured on these arrays because it solves the same problem.

        Everything but scratch must agree, and neither shapes nor answers may depend on a configuration.
        """
        return scope == self.scope and problems.are_equal(self._referee.space, space) and self.has_room_for(space)

    def has_room_for(self, space: Space) -> bool:
        """Whether checks of the arguments of `space`, which has the same arrays, have room for their counts."""
        return self._kernels.add([argument.name for argument in space.operation.arguments])

    def library(self) -> Library | None:
        """The vendor library's routine, bound to these arrays; None if there is none."""
        return self.device.library(self._routine()) if self.op.library else None

    def library_algorithms(self) -> Sequence[Library]:
        """The algorithms that the vendor library offers for its routine; empty if there are none."""
        return self.device.library_algorithms(self._routine()) if self.op.library else ()

    def _routine(self) -> RoutineCall:
        """The operation's library routine on these arrays."""
        assert self.op.library is not None
        handles = {name: buffer.handle for name, buffer in self.buffers.items()}
        dtypes = {a.name: dtype(a, self.scope).name for a in self.op.arrays}
        return RoutineCall(self.op.library, {**self.scope.names, **handles}, dtypes, self.op.transposed)

    def _repair(self) -> bool:
        """Rewrite copies and references that a stray write has changed. Returns whether there were any."""
        repaired = [layout.repair() for layout in self._layouts]
        return any(repaired)

    def read_rate(self, measurements: int) -> float:
        """The device's memory bandwidth in bytes per ms: the fastest of several passes that read all arrays."""
        timer, calls = self.device.timer(), [self._kernels.touch(buffer) for buffer in self.buffers.values()]
        nbytes = sum(buffer.nbytes for buffer in self.buffers.values())
        rates: list[float] = []
        for _ in range(measurements):
            self.device.synchronize()
            timer.start()
            for call in calls:
                call()
            timer.stop()
            self.device.synchronize()
            rates.append(nbytes / timer.milliseconds())
        return max(rates)
