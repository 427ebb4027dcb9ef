"""The protocol of runs: how configurations are launched on the arrays of a problem, checked and inspected."""

from __future__ import annotations

import functools
import secrets
from collections.abc import Callable, Mapping
from dataclasses import replace

from tuner.children import memory
from tuner.classes import dataclass
from tuner.devices.base import Device
from tuner.devices.program import Program
from tuner.errors import WrongResult
from tuner.measure.answers.poison import NAN
from tuner.measure.images import Images
from tuner.measure.problem_arrays import ProblemArrays
from tuner.measure.timing.clock import MOST_ENQUEUED, RunConditions
from tuner.measure.verify import other_options, strided
from tuner.measure.verify.array_guards import SMALL, ArrayGuards
from tuner.measure.verify.bits import RunBits
from tuner.measure.verify.compared_outputs import diverges
from tuner.measure.verify.comparison import Verdict
from tuner.measure.verify.judge import Judge
from tuner.measure.verify.own_arrays import OwnArrays
from tuner.measure.verify.rotation import Rotation
from tuner.space import operation
from tuner.space.answers.cache import ReferenceCache
from tuner.space.model import Space
from tuner.space.scope import Scope

# On a processor, some timed runs are compared in a frozen copy of the process: a random one of the first FIRST_FROZEN,
# then one in FREEZE_EVERY on average. Page faults slow the next run down, by several times if it takes only
# microseconds. Such runs are too rare to change a quartile.
FIRST_FROZEN, FREEZE_EVERY = 3, 16


@dataclass(frozen=True)
class OwnLaunch:
    """A launch that uses arrays or images private to its configuration, or that launches several kernels.

    `graph` takes a number of launches and returns a call that launches a graph of them, or raises LaunchError.
    """

    enqueue: Callable[[], None]
    own: OwnArrays | None
    images: Images | None = None
    launches: int = 1
    graph: Callable[[int], Callable[[], None]] | None = None

    def __call__(self) -> None:
        self.enqueue()


class Workbench(ProblemArrays, RunConditions):
    """Runs configurations on the arrays of one problem.

    `prepare` makes the arrays ready for a run; `check` compares its outputs. Nothing is left over from an earlier run:
    inputs are restored from copies on the device, and outputs are poisoned.
    """

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
        """The arguments are those of `ProblemArrays`, and so are the errors."""
        if predecessor is not None:
            predecessor.release()
        super().__init__(device, space, scope, cache, sharing, predecessor, like)
        self._own: OwnArrays | None = None  # arrays of the launch that runs next
        self._images: Images | None = None  # and its images
        self._current = 0
        self._until_frozen, self._is_repaired = FIRST_FROZEN, False
        self._is_right_outside = device.isolation.outside(self._is_copy_right)
        self._owner, self._dirty = sharing or self, True  # dirty: the last run may have written out of bounds
        self._judge = Judge(device, self.op, scope, self.buffers, self._kernels)
        self.rotation = Rotation(len(self._layouts))
        self._guards = ArrayGuards(device, self._kernels, self.buffers, self.inputs.outputs)
        if device.runs_in_process and self._owner is self and all(b.nbytes < SMALL for b in self.buffers.values()):
            self._guards.write()  # once here, instead of in each fork of this process
            self._dirty = False

    def with_other_options(self) -> Workbench | None:
        """A workbench on the same arrays with other option values, and with the contents of `also:`; None if neither
        differs.

        It reveals a kernel that ignores or rounds an option. Options are the same if the reference does not cover other
        values, or has no finite answers with them.
        """
        seen = self._sight.options if self._sight is not None else {}
        nearer = other_options.nearer(self.op, self.scope)
        for options in (seen, {**nearer, **seen}):  # sight may have taken too long to see at which answers diverge
            other = self._with_options(options)
            # The answers of `also:` may have NaN on purpose, whatever the options are.
            if other is None or self.op.also is not None or not diverges(self.op, self.inputs, other.inputs):
                return other
            del other  # before another one takes memory
        return None

    def _with_options(self, seen: Mapping[str, float]) -> Workbench | None:
        scope = other_options.varied(self.op, self.scope, self._referee.options(self.scope), seen)
        if scope is not None and not self._referee.covers(scope):
            scope = None
        if scope is None and self.op.also is None:
            return None
        return Workbench(self.device, self._referee.space, scope or self.scope, sharing=self)

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
        call = strided.padded_call(program, self.buffers, own, self._kernels)
        own.bound()
        try:
            self.verify(OwnLaunch(call, own) if own.buffers else call)
        except WrongResult as error:
            given = ", ".join(f"{name}={value}" for name, value in strided.leading_of(program).items())
            raise WrongResult(f"with {given}: {error}", error.reason) from None
        finally:
            self.bits = bits
            self.release()

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
            counts.check_guards(name)
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
