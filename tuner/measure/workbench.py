"""The arrays on which configurations are verified and timed."""

from __future__ import annotations

import functools
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tuner.children import memory
from tuner.devices.base import Buffer, Device, Library
from tuner.devices.program import Program
from tuner.errors import LaunchError, WrongResult
from tuner.measure.answers.poison import NAN
from tuner.measure.answers.referee import Referee
from tuner.measure.images import Images
from tuner.measure.kernels.bench_kernels import BenchKernels
from tuner.measure.timing.clock import MOST_ENQUEUED
from tuner.measure.verify import input_sets, other_options, precision, problems, strided
from tuner.measure.verify.array_guards import SMALL, ArrayGuards
from tuner.measure.verify.bits import RunBits
from tuner.measure.verify.comparison import Verdict
from tuner.measure.verify.input_sets import InputSet
from tuner.measure.verify.judge import Judge
from tuner.measure.verify.layout import Layout
from tuner.measure.verify.own_arrays import OwnArrays
from tuner.measure.verify.rotation import Rotation
from tuner.space import operation
from tuner.space.answers.cache import ReferenceCache
from tuner.space.chosen_types import dtype
from tuner.space.instance import nominal
from tuner.space.model import Space
from tuner.space.scope import Scope

# On a processor, some timed runs are compared in a frozen copy of the process: a random one of the first FIRST_FROZEN,
# then one in FREEZE_EVERY on average. Page faults slow the next run down, by several times if it takes only
# microseconds. Such runs are too rare to change a quartile.
FIRST_FROZEN, FREEZE_EVERY = 3, 16


class OwnLaunch:
    """A launch that uses arrays or images private to its configuration, or that launches several kernels."""

    def __init__(
        self,
        call: Callable[[], None],
        own: OwnArrays | None,
        images: Images | None,
        launches: int,
        graph: Callable[[int], Callable[[], None]],
    ) -> None:
        """`graph` takes a number of launches and returns a call that launches a graph of them, or raises
        LaunchError."""
        self.own, self.images, self.launches, self.graph, self._call = own, images, launches, graph, call

    def __call__(self) -> None:
        self._call()


def _no_graph(count: int) -> Callable[[], None]:
    """Raise LaunchError, because a launch on padded copies is never timed."""
    raise LaunchError(f"no graph of {count} launches on padded copies")


class Workbench:
    """The device arrays of one problem, and input sets for them.

    `prepare` makes the arrays ready for a run; `check` compares its outputs. Nothing is left over from an earlier run:
    inputs are restored from copies on the device, and outputs are poisoned. Input sets alternate in the same buffers,
    so a kernel cannot recognise an answer by its address.

    Each array has a guard of `GUARD` bytes on each side, which reveals writes outside. Guards of inputs are NaN, so a
    read out of bounds spoils the result.
    """

    cache: ReferenceCache
    buffers: Mapping[str, Buffer]
    _kernels: BenchKernels
    _layouts: list[Layout]
    _drawn: int  # input sets drawn so far; the next one has this seed
    _held_back: Layout | None = None  # an input set that no kernel has seen
    bits: RunBits | None = None  # of the configuration that runs next; None if nobody asks for them
    makes_graphs = False  # whether the launches of configurations can also be launched as graphs

    def __init__(
        self,
        device: Device,
        space: Space,
        scope: Scope,
        cache: ReferenceCache | None = None,
        sharing: Workbench | None = None,
        predecessor: Workbench | None = None,
        like: Workbench | None = None,
    ) -> None:
        """Draw the inputs and compute their answers.

        `cache` holds the references' matrix products. `sharing` is a workbench with other options. This one uses its
        arrays and its first input set, in which the contents of `also:` replace those of some arrays. `predecessor` is
        a workbench that is no longer used and `serves` this problem: its arrays and input sets are taken over. `like`
        is one of another problem, whose copies of large arrays serve this one, too, where they hold the same. Raises
        DeviceError if arrays and references do not fit in memory.
        """
        self.device, self.op, self.scope = device, space.operation, space.operation.own(scope)
        self.nominal = nominal(space, self.scope)
        self._own: OwnArrays | None = None  # arrays of the launch that runs next
        self._images: Images | None = None  # and its images
        self.cache = sharing.cache if sharing is not None else cache or ReferenceCache()
        self._referee = Referee(device, space, self.cache)
        self._current, self._is_renewed = 0, False
        self._precision: precision.PrecisionVerdict | None = predecessor._precision if predecessor is not None else None
        self._until_frozen, self._is_repaired = FIRST_FROZEN, False
        self._is_right_outside = device.isolation.outside(self._is_copy_right)
        self._owner, self._dirty = sharing or self, True  # dirty: the last run may have written out of bounds
        if sharing is not None:
            self.buffers, self._kernels, first = sharing.buffers, sharing._kernels, sharing._layouts[0]
            contents = {**first.inputs.contents, **(also := self._referee.also(self.nominal))}
            seed, copies = (input_sets.ALSO, None) if also else (first.inputs.seed, first.copies)
            inputs = input_sets.answered(self._referee, self.nominal, contents, seed)
            like_first = None if also else first  # which may get other contents
            self._layouts = [Layout(self._referee.placer, self._kernels, self.buffers, inputs, copies, like=like_first)]
        elif predecessor is not None:
            predecessor.release()
            self.buffers, self._kernels, self._layouts = predecessor.buffers, predecessor._kernels, predecessor._layouts
            self._held_back = predecessor._held_back
        else:
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
            layout = like._layouts[0] if like is not None else None
            self._layouts = [
                Layout(self._referee.placer, self._kernels, self.buffers, inputs, like=layout) for inputs in drawn
            ]
            if is_slow and len(self._layouts) > 1:  # the finals would draw another one when the budget is spent
                self._held_back = self._layouts.pop()
        self._judge = Judge(device, self.op, scope, self.buffers, self._kernels)
        options = sorted(self.scope.options.items()) if sharing is not None else []
        words = [f" {name}={value}" for name, value in options]
        if sharing is not None and self.inputs.seed == input_sets.ALSO:  # the rest of the contents is that of `sharing`
            words.insert(0, f" beside {sharing.inputs.seed}")
        self._set_names = [f"{layout.inputs.seed}{''.join(words)}" for layout in self._layouts]
        self.rotation = Rotation(len(self._layouts))
        self._drawn = predecessor._drawn if predecessor is not None else len(self._layouts) + bool(self._held_back)
        self._guards = ArrayGuards(device, self._kernels, self.buffers, self.inputs.outputs)
        if device.runs_in_process and self._owner is self and all(b.nbytes < SMALL for b in self.buffers.values()):
            self._guards.write()  # once here, instead of in each fork of this process
            self._dirty = False

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

    @property
    def missed_cases(self) -> list[str]:
        """Warnings about the reference: conditions with only one outcome, divisors that are 0, negative indices."""
        arrays = {argument.name for argument in self.op.arrays}
        return self._referee.cases.missed(arrays, operation.integers_without_fill(self.op))

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
        if scope != self.scope or not problems.are_equal(self._referee.space, space):
            return False
        return self._kernels.add([argument.name for argument in space.operation.arguments])

    def admits(self, space: Space) -> bool:
        """Whether kernels of `space`, made from another source, may run on these arrays and be held to these answers.

        Arrays, constants, sizes and options must agree.
        """
        if not problems.have_equal_arrays(self._referee.space, space, self.buffers.keys()):
            return False
        return self._kernels.add([argument.name for argument in space.operation.arguments])

    def with_other_options(self) -> Workbench | None:
        """A workbench on the same arrays with other option values, and with the contents of `also:`; None if neither
        differs.

        It reveals a kernel that ignores or rounds an option. Options are the same if the reference does not cover other
        values.
        """
        scope = other_options.varied(self.op, self.scope, self._referee.options(self.scope))
        if scope is not None and not self._referee.covers(scope):
            scope = None
        if scope is None and self.op.also is None:
            return None
        return Workbench(self.device, self._referee.space, scope or self.scope, sharing=self)

    def library(self) -> Library | None:
        """The vendor library's routine, bound to these arrays; None if there is none."""
        return self.device.library(*self._routine()) if self.op.library else None

    def library_algorithms(self) -> Sequence[Library]:
        """The algorithms that the vendor library offers for its routine; empty if there are none."""
        return self.device.library_algorithms(*self._routine()) if self.op.library else ()

    def _routine(self) -> tuple[str, dict[str, Any], dict[str, str], frozenset[str]]:
        """The operation's library routine, and its arguments."""
        assert self.op.library is not None
        handles = {name: buffer.handle for name, buffer in self.buffers.items()}
        dtypes = {a.name: dtype(a, self.scope).name for a in self.op.arrays}
        return self.op.library, {**self.scope.names, **handles}, dtypes, self.op.transposed

    def bind(self, program: Program) -> Callable[[], None]:
        """Bind a configuration to these arrays and to arrays of its own. Returns the launch."""
        self.release()
        own = OwnArrays(program, self._kernels)
        work = program.work(own.allocate, constants={a.name: self.buffers[a.name] for a in self.op.constants})
        images = Images(program, {**self.buffers, **own.buffers})
        call = self.device.bind_whole(work, images.handles, MOST_ENQUEUED)
        if not own.buffers and not images and work.launches == 1 and not self.makes_graphs:
            return call
        own.bound()
        graph = functools.cache(functools.partial(self.device.bind_graph, work, images.handles))
        return OwnLaunch(call, own if own.buffers or images else None, images or None, work.launches, graph)

    def release(self) -> None:
        """Free the private arrays of the last configuration, because those of two may not fit."""
        self._own = self._images = None

    def expect(self, call: Callable[[], None]) -> None:
        """Announce that the next runs launch `call`, so that its private arrays are prepared and checked too."""
        self._own, self._images = (call.own, call.images) if isinstance(call, OwnLaunch) else (None, None)

    def pin_inputs(self, runs: int) -> int:
        """Use one input set for the next `runs` runs and return its number. Sets alternate between calls."""
        return self.rotation.pin_inputs(runs)

    def prepare(self) -> None:
        """Enqueue the preparation of a run: the rotation's next input set and poison."""
        self._owner._dirty = True  # until `inspect` finds no write out of bounds
        self._prepare(*self.rotation.draw())

    def check(self) -> None:
        """Compare every output element of the last run. Raises WrongResult.

        An earlier kernel may have overwritten the references. They are then repaired, once for each candidate, and
        later runs show whether this one is right. Some runs, chosen at random, are compared in a frozen copy of the
        process, in which threads that the kernel left behind do not run.
        """
        if self._until_frozen:
            was_right, self._until_frozen = True, self._until_frozen - 1
        else:
            was_right, self._until_frozen = self._is_right_frozen(), secrets.randbelow(2 * FREEZE_EVERY)
        try:
            self._judged()
        except WrongResult as error:
            self._kernels.clear()
            if not self._is_repaired and self._repair():
                self._is_repaired = True
                return
            inputs = "on other inputs" if self._current else "on the same inputs"
            raise WrongResult(
                f"right in its first run, wrong in a later one {inputs}: {error}", "wrong in a later run"
            ) from None
        if not was_right:
            raise WrongResult("still writes its outputs after the launch has finished", "unfinished")

    def may_repeat(self) -> bool:
        """Whether several launches give the outputs of one, because none reads what another one wrote."""
        inputs = self._layouts[self._current].inputs
        return inputs.write_only.issuperset(inputs.outputs)

    def check_repeated(self) -> None:
        """Compare the outputs after back-to-back runs. Raises WrongResult.

        Skipped if a run reads an output: then the answer after several runs is unknown.
        """
        if self.may_repeat():
            self.check()

    def occupy(self) -> None:
        """Make the arrays ready again after `vacate`."""
        self._guards.write()

    def vacate(self) -> None:
        """Give the memory of the arrays back to the system, if the device can."""
        self._owner._dirty = True
        for buffer in self.buffers.values():
            self.device.vacate(buffer)

    def _verdicts(self, with_digests: bool = False) -> list[Verdict]:
        """The verdicts on the outputs of the last run. Raises WrongResult."""
        if self._images is not None:
            self._images.collect()
        with self.device.plain_arithmetic():
            return self._judge.verdicts(self._layouts[self._current], self._own, with_digests)

    def _judged(self) -> list[Verdict]:
        """The same verdicts; notes the digests of the outputs, if somebody asks for them. Raises WrongResult."""
        bits = self.bits if self.bits is not None and self.bits.has_room else None
        verdicts = self._verdicts(with_digests=bits is not None)
        if bits is not None:
            bits.add(self._set_names[self._current], self._judge.digests)
        return verdicts

    def _is_right(self) -> bool:
        try:
            self._verdicts()
        except WrongResult:
            return False
        return True

    def _is_right_frozen(self) -> bool:
        """Whether the outputs are right in a snapshot, to which no thread of the kernel writes.

        If this process is a fork, its outputs are small, none is private, and no value is derived from them, the
        process that forked it stops it, copies the outputs and compares them. This writes to no page of the fork. In
        all other cases, this process is forked, and the new fork compares.
        """
        outputs = [self.buffers[name] for name in self._layouts[0].inputs.outputs if name in self.buffers]
        verdict: bool | None = None
        if self._own is None and not self.op.derive and all(buffer.nbytes < SMALL for buffer in outputs):
            verdict = self._is_right_outside(self._current)
        return self.device.frozen(self._is_right) if verdict is None else verdict

    def _is_copy_right(self, process: int, current: int) -> bool | None:
        """Whether the outputs in a fork of this process are right for an input set; None if it cannot be read."""
        outputs = [self.buffers[name] for name in self._layouts[0].inputs.outputs]
        if not all(memory.copy(process, buffer.handle, buffer.nbytes) for buffer in outputs):
            return None
        self._current = current
        self._kernels.clear()
        return self._is_right()

    def _repair(self) -> bool:
        """Rewrite copies and references that a stray write has changed. Returns whether there were any."""
        repaired = [layout.repair() for layout in self._layouts]
        return any(repaired)

    def verify(self, call: Callable[[], None]) -> Verdict:
        """Run `call` once on the first input set and compare every element.

        Raises WrongResult, or LaunchError if `call` does not run. An earlier kernel may have overwritten the copies and
        references on the device. So a wrong result counts only if these are intact; otherwise they are rewritten and
        `call` runs again.
        """
        self.expect(getattr(call, "call", call))
        if self._owner._dirty and not self._guards.are_whole():
            self._guards.write()
        self._owner._dirty, self._is_repaired = True, False
        self._until_frozen = secrets.randbelow(FIRST_FROZEN)
        try:
            verdict = self._verify_repaired(call)
        except WrongResult as error:
            hint = operation.index_hint(self.op) if self._referee.may_index(error.reason) else ""
            raise WrongResult(f"{error}; {hint}", error.reason) if hint else error from None
        self._owner._dirty = False
        return verdict

    def verify_padded(self, program: Program) -> None:
        """Run a configuration once on copies of the arrays with padded rows, and compare every element and the padding.

        Raises as `verify` does.
        """
        bits, self.bits = self.bits, None  # of the run without padding
        own = OwnArrays(program, self._kernels)
        own.bound()
        call = strided.padded_call(program, {**self.buffers, **own.buffers}, self._kernels)
        try:
            self.verify(OwnLaunch(call, own, None, 1, _no_graph) if own.buffers else call)
        except WrongResult as error:
            given = ", ".join(f"{name}={value}" for name, value in strided.leading_of(program).items())
            raise WrongResult(f"with {given}: {error}", error.reason) from None
        finally:
            self.bits = bits

    def _verify_repaired(self, call: Callable[[], None]) -> Verdict:
        try:
            return self._verify_once(call)
        except WrongResult:
            if not self._repair():
                raise
            self._guards.write()
            return self._verify_once(call)

    def inspect(self) -> None:
        """Check guards and inputs after a run. Raises WrongResult if one has changed."""
        self._owner._dirty = True
        self._layouts[self._current].check_inputs()
        self._guards.check()
        if self._own is not None:
            self._own.inspect()
        for name, counts in self._kernels.counts().items():
            for changed, side in ((counts.before, "before the start"), (counts.after, "after the end")):
                if changed:
                    raise WrongResult(f"writes {side} of {name}", "writes outside")
            if counts.changed:
                raise WrongResult(f"writes into {name}, which it may only read", "writes to an input")
        self._owner._dirty = False

    def _verify_once(self, call: Callable[[], None]) -> Verdict:
        self._kernels.clear()
        self._prepare(0, NAN)
        self.rotation.verified()
        self.device.synchronize()
        call()
        self.device.synchronize()
        verdicts = self._judged()
        self.inspect()
        if not verdicts:  # the operation has no reference
            return Verdict(0.0, 0.0)
        worst = max(verdicts, key=lambda verdict: verdict.share)
        return replace(worst, wrong=sum(verdict.wrong for verdict in verdicts))

    def _prepare(self, index: int, fill: int) -> None:
        if self._own is not None:
            self._own.prepare()
        self._layouts[index].prepare(fill)
        if self._images is not None:
            self._images.fill()
        self._current = index

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
