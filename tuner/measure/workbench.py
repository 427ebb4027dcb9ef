"""The arrays that kernels are verified and timed on."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tuner.devices.base import GUARD, Buffer, Device, Library
from tuner.devices.program import Program
from tuner.errors import WrongResult
from tuner.measure.answers.poison import INPUT_GUARD, NAN, OUTPUT_GUARD
from tuner.measure.answers.referee import Referee
from tuner.measure.kernels.bench_kernels import BenchKernels
from tuner.measure.verify import input_sets, other_options, strided
from tuner.measure.verify.comparison import Verdict
from tuner.measure.verify.input_sets import InputSet
from tuner.measure.verify.judge import Judge
from tuner.measure.verify.layout import Layout
from tuner.measure.verify.own_arrays import OwnArrays
from tuner.measure.verify.rotation import Rotation
from tuner.space.answers.cache import ReferenceCache
from tuner.space.chosen_types import dtype
from tuner.space.instance import nominal
from tuner.space.model import Operation, Space
from tuner.space.scope import Scope
from tuner.space.values.forms import ExpressionReference

# One of the first so many timed runs is compared in a frozen copy, and then one of so many on average. The run after it
# takes longer by page faults, several times as long where it takes microseconds. Few do, so that no quartile knows.
FIRST_FROZEN, FREEZE_EVERY = 3, 16


class OwnLaunch:
    """A launch that has arrays of its own."""

    def __init__(self, call: Callable[[], None], own: OwnArrays) -> None:
        self.own, self._call = own, call

    def __call__(self) -> None:
        self._call()


class Workbench:
    """The arrays of one problem on one device, and sets of inputs for them.

    `prepare` makes the arrays ready for a run, `check` compares its outputs. No run finds what an earlier one left:
    inputs are restored from copies on the device, and outputs are poisoned. Sets of inputs take turns in the same
    arrays, so that no kernel knows an answer by its address.

    Each array lies between two guards of `GUARD` bytes, so that a write outside is seen. Guards of inputs are NaN: a
    read beyond an edge spoils the result.
    """

    cache: ReferenceCache
    buffers: Mapping[str, Buffer]
    _kernels: BenchKernels
    _layouts: list[Layout]
    _drawn: int  # sets, by their seeds from 0 on

    def __init__(
        self,
        device: Device,
        space: Space,
        scope: Scope,
        cache: ReferenceCache | None = None,
        of: Workbench | None = None,
        after: Workbench | None = None,
    ) -> None:
        """Makes the inputs and computes their references.

        `cache` keeps the references' matrix products. `of` is a workbench with other options, whose arrays and first
        set this one shares. `after` is one that nobody uses any more, and that `serves` this kernel: its arrays and
        sets are taken over. Raises DeviceError where arrays and references do not fit in memory.
        """
        self.device, self.op, self.scope = device, space.operation, scope
        self.nominal = nominal(space, scope)
        self._own: OwnArrays | None = None  # of the launch that runs next
        self.cache = of.cache if of is not None else cache or ReferenceCache()
        self._referee = Referee(device, space, self.cache)
        self._current, self._is_renewed = 0, False
        self._until_frozen, self._is_mended = FIRST_FROZEN, False
        self._owner, self._dirty = of or self, True  # dirty: the last kernel may have written outside its outputs
        if of is not None:
            self.buffers, self._kernels, first = of.buffers, of._kernels, of._layouts[0]
            inputs = input_sets.answered(self._referee, self.nominal, first.inputs.contents, first.inputs.seed)
            self._layouts = [Layout(self._referee.placer, self._kernels, self.buffers, inputs, first.copies)]
        elif after is not None:
            after.release()
            self.buffers, self._kernels, self._layouts = after.buffers, after._kernels, after._layouts
        else:
            with_padding = strided.nbytes(space, self.nominal)
            input_sets.check_fits(device, self.op, self.nominal, with_padding)
            inputs = input_sets.draw(self._referee, self.nominal, 0)
            shared = {name: data for name, data in inputs.contents.items() if name not in space.varying}
            self.buffers = {name: device.allocate(data.nbytes) for name, data in shared.items()}
            self._kernels = BenchKernels(device, [argument.name for argument in self.op.arguments])
            more = range(1, input_sets.affordable(device, self.op, self.nominal, inputs, self.cache, with_padding))
            drawn = [inputs, *(input_sets.draw(self._referee, self.nominal, seed) for seed in more)]
            self._layouts = [Layout(self._referee.placer, self._kernels, self.buffers, inputs) for inputs in drawn]
        self._judge = Judge(device, self.op, scope, self.buffers, self._kernels)
        self.rotation = Rotation(len(self._layouts))
        self._drawn = after._drawn if after is not None else len(self._layouts)
        self._guard_checks = [
            self._kernels.check_guards(name, buffer, self._guard(name)) for name, buffer in self.buffers.items()
        ]

    @property
    def set_count(self) -> int:
        """How many sets of inputs there have been."""
        return len(self._layouts) + self._is_renewed

    @property
    def nbytes(self) -> int:
        """The bytes on the device."""
        sets = [memory for layout in self._layouts for memory in (layout.copies, layout.references)]
        return sum(buffer.nbytes for memory in (self.buffers, *sets) for buffer in memory.values())

    @property
    def inputs(self) -> InputSet:
        """The first set, on which kernels are verified."""
        return self._layouts[0].inputs

    @property
    def write_only(self) -> frozenset[str]:
        """The outputs that a run need not read."""
        return self._layouts[0].inputs.write_only

    @property
    def missed_cases(self) -> list[str]:
        """A sentence about each condition of the reference that no input decides."""
        return self._referee.cases.missed({argument.name for argument in self.op.arrays})

    def nothing(self) -> Callable[[], None]:
        """A launch that does no work."""
        return self._kernels.nothing()

    def renew_inputs(self) -> None:
        """Put a set that no kernel has seen in the place of the first one, once, where time allows it."""
        first = self._layouts[0]
        if self._is_renewed or not input_sets.is_renewable(self.op, first.inputs, self.cache):
            return
        inputs = input_sets.draw(self._referee, self.nominal, self._drawn)
        self._layouts[0] = Layout(
            self._referee.placer, self._kernels, self.buffers, inputs, first.copies, first.references
        )
        self._is_renewed, self._drawn = True, self._drawn + 1

    def serves(self, space: Space, scope: Scope) -> bool:
        """Whether a kernel may be measured on these arrays, because it is of the same problem: all but its scratch is
        the same, and neither shapes nor answers depend on a configuration."""
        own = self._referee.space
        if scope != self.scope or any(_is_varied(each) for each in (own, space)) or _problem(own) != _problem(space):
            return False
        return self._kernels.add([argument.name for argument in space.operation.arguments])

    def with_other_options(self) -> Workbench | None:
        """The same arrays, with other options: a kernel that ignores one, or rounds it, is right with its default.

        None where none may differ, or where nothing tells what is right with others.
        """
        scope = other_options.varied(self.op, self.scope, self._referee.options(self.scope))
        if scope is None or not self._referee.covers(scope):
            return None
        return Workbench(self.device, self._referee.space, scope, of=self)

    def library(self) -> Library | None:
        """The vendor's routine on these arrays; None where there is none."""
        return self.device.library(*self._routine()) if self.op.library else None

    def library_algorithms(self) -> Sequence[Library]:
        """The ways in which the vendor can run it; empty where there are none."""
        return self.device.library_algorithms(*self._routine()) if self.op.library else ()

    def _routine(self) -> tuple[str, dict[str, Any], dict[str, str], frozenset[str]]:
        """The operation's routine, and what it needs of these arrays."""
        assert self.op.library is not None
        handles = {name: buffer.handle for name, buffer in self.buffers.items()}
        dtypes = {a.name: dtype(a, self.scope).name for a in self.op.arrays}
        return self.op.library, {**self.scope.names, **handles}, dtypes, self.op.transposed

    def bind(self, program: Program) -> Callable[[], None]:
        """A launch of a configuration on these arrays, and on arrays of its own."""
        self.release()
        own = OwnArrays(program, self._kernels)
        work = program.work(own.allocate, constants={a.name: self.buffers[a.name] for a in self.op.constants})
        buffers = {**self.buffers, **own.buffers}
        call = self.device.bind(work, [buffers[argument.name].handle for argument in self.op.arrays])
        if not own.buffers:
            return call
        own.bound()
        return OwnLaunch(call, own)

    def release(self) -> None:
        """Let go of the arrays of the configuration that ran last: there may be no room for those of two."""
        self._own = None

    def expect(self, call: Callable[[], None]) -> None:
        """The next runs are of this call: its own arrays are prepared and looked at with all others."""
        self._own = call.own if isinstance(call, OwnLaunch) else None

    def share(self, runs: int) -> int:
        """The next `runs` runs find the same set of inputs, the number of which is returned. Sets take turns."""
        return self.rotation.share(runs)

    def prepare(self) -> None:
        """Enqueue what makes the arrays ready for a run: a set of inputs, and poison, as the rotation has them."""
        self._owner._dirty = True  # until `inspect` says that the run wrote nowhere else
        self._prepare(*self.rotation.draw())

    def check(self) -> None:
        """Compare every element that the last run has left. Raises WrongResult.

        An earlier kernel may have spoilt what is compared with. Then that is mended, once for each candidate, and later
        runs show whether this one is right. Some runs, drawn at random, are compared in a frozen copy, where no thread
        that the kernel has left behind goes on.
        """
        if self._until_frozen:
            was_right, self._until_frozen = True, self._until_frozen - 1
        else:
            was_right, self._until_frozen = self.device.frozen(self._is_right), secrets.randbelow(2 * FREEZE_EVERY)
        try:
            self._verdicts()
        except WrongResult as error:
            self._kernels.clear()
            if not self._is_mended and self._mend():
                self._is_mended = True
                return
            inputs = "on other inputs" if self._current else "on the same inputs"
            raise WrongResult(f"right at first, {inputs} no more: {error}", "wrong in a later run") from None
        if not was_right:
            raise WrongResult("still works on its outputs after it has returned", "unfinished")

    def check_repeated(self) -> None:
        """The same after runs without anything between them, where a run reads no output: else nothing tells what is
        right. Raises WrongResult."""
        inputs = self._layouts[self._current].inputs
        if inputs.write_only.issuperset(inputs.outputs):
            self.check()

    def _verdicts(self) -> list[Verdict]:
        """The verdicts on what the last run has left. Raises WrongResult."""
        return self._judge.verdicts(self._layouts[self._current], self._own)

    def _is_right(self) -> bool:
        try:
            self._verdicts()
        except WrongResult:
            return False
        return True

    def _mend(self) -> bool:
        """Write again what a stray write has hit of all that lies on the device for comparison; whether one has."""
        mended = [layout.mend() for layout in self._layouts]
        return any(mended)

    def verify(self, call: Callable[[], None]) -> Verdict:
        """Run `call` once on the first set and compare every element.

        Raises WrongResult, or LaunchError where `call` does not run. An earlier kernel may have written where it may
        not, into what lies on the device for the comparison. So a wrong result counts only where that is intact; else
        it is written again, and `call` runs again.
        """
        self.expect(getattr(call, "call", call))
        if self._owner._dirty:
            self._write_guards()
        self._owner._dirty, self._is_mended = True, False
        self._until_frozen = secrets.randbelow(FIRST_FROZEN)
        try:
            verdict = self._verify_once(call)
        except WrongResult:
            if not self._mend():
                raise
            self._write_guards()
            verdict = self._verify_once(call)
        self._owner._dirty = False
        return verdict

    def inspect(self) -> None:
        """Look at guards and inputs after a run. Raises WrongResult where one has changed."""
        self._owner._dirty = True
        self._layouts[self._current].check_inputs()
        for call in self._guard_checks:
            call()
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
        verdicts = self._verdicts()
        self.inspect()
        if not verdicts:  # nothing tells what is right
            return Verdict(0.0, 0.0)
        worst = max(verdicts, key=lambda verdict: verdict.share)
        return replace(worst, wrong=sum(verdict.wrong for verdict in verdicts))

    def _prepare(self, index: int, fill: int) -> None:
        if self._own is not None:
            self._own.prepare()
        self._layouts[index].prepare(fill)
        self._current = index

    def _guard(self, name: str) -> int:
        return OUTPUT_GUARD if name in self._layouts[0].inputs.outputs else INPUT_GUARD

    def _write_guards(self) -> None:
        for name, buffer in self.buffers.items():
            self.device.fill(buffer.whole, self._guard(name), buffer.nbytes + 2 * GUARD)

    def read_rate(self, measurements: int) -> float:
        """The fastest of several measurements of the device's memory rate, in bytes per ms: all arrays are read."""
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


def _is_varied(space: Space) -> bool:
    """Whether arrays or answers of a kernel may depend on its configuration."""
    arrays = {argument.name for argument in space.operation.arrays}
    return bool(space.varying & arrays) or not isinstance(space.operation.reference, ExpressionReference)


def _problem(space: Space) -> Operation:
    """What a kernel computes, without what is its own."""
    op = space.operation
    arrays = tuple(a for a in op.arguments if a.role != "scratch" and (a.is_array or (a.shape is None and not a.kind)))
    return replace(op, arguments=arrays, extent=())
