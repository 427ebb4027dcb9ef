"""One size of an operation: it draws inputs with their answers, and compares what a launch made of them."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Mapping
from dataclasses import field
from typing import TYPE_CHECKING

import numpy as np

from tuner.classes import dataclass
from tuner.devices.base import Array
from tuner.errors import SpaceError
from tuner.judging.comparison import ComparedRuns
from tuner.judging.layout import RowLayout
from tuner.judging.verdict import Refusal
from tuner.measure.answers import python_calls
from tuner.measure.answers.poison import NAN, NUMBER
from tuner.measure.answers.referee import Referee
from tuner.measure.verify import input_sets
from tuner.space import operation
from tuner.space.answers import derivation
from tuner.space.answers.cache import ReferenceCache
from tuner.space.instance import Instance
from tuner.space.values.elements import Elements, Held

if TYPE_CHECKING:
    from tuner.devices.base import Device
    from tuner.judging.memory import ArrayPlace, SharedMemory
    from tuner.measure.verify.input_sets import InputSet
    from tuner.space.config import Config
    from tuner.space.model import Space
    from tuner.space.scope import Scope

STALE, RANDOM = -1, -2  # poisons: the answers of other inputs, and random bits


@dataclass(frozen=True)
class DrawnSet:
    """A set of inputs, with the layout of each array, and the bytes of its memory before a launch. `leading` are the
    leading dimensions, by name, if rows have padding."""

    inputs: InputSet
    layouts: Mapping[str, RowLayout]
    contents: Mapping[str, Array]
    leading: Mapping[str, int] = field(default_factory=dict)

    @property
    def seed(self) -> int:
        return self.inputs.seed

    @property
    def nbytes(self) -> dict[str, int]:
        """The bytes of each array, with its padding."""
        return {name: layout.nbytes for name, layout in self.layouts.items()}


class JudgedProblem:
    """One size of the operation of a space, on one device."""

    def __init__(self, device: Device, space: Space, scope: Scope, config: Config) -> None:
        """`config` is that with which candidates run: the shapes of arrays may depend on it.

        Raises SpaceError if no arrays, contiguous or padded, have the declared strides.
        """
        self._device, self.space, self.scope = device, space, space.operation.own(scope)
        self.op = space.operation
        self.nominal = Instance(space, config, self.scope).scope if space.varying else self.scope
        self.outputs = frozenset(a.name for a in self.op.outputs)
        self._padded = operation.padded(self.op, self.nominal, space.alignment) if self.op.leading else {}
        self._known: dict[int, dict[str, Array]] = {}  # answers by seed, as the poison of other sets

    @property
    def size(self) -> dict[str, int]:
        return dict(self.scope.sizes)

    @property
    def has_padding(self) -> bool:
        """Whether the kernel takes leading dimensions, so that rows may have padding."""
        return bool(self._padded)

    @property
    def most_bytes(self) -> list[int]:
        """The bytes of each array, with padding."""
        return [layout.nbytes for layout in self._layouts(self._padded).values()]

    def draw(self, seed: int, with_also: bool = False, padded: bool = False) -> DrawnSet:
        """The set of inputs of a seed, or that of the operation's `also:`. Raises SpaceError."""
        referee = Referee(self._device, self.space, ReferenceCache())
        contents = referee.inputs(self.nominal, seed)
        if with_also:
            contents, seed = {**contents, **referee.also(self.nominal)}, input_sets.ALSO
        inputs = input_sets.answered(referee, self.nominal, contents, seed)
        held = {name: Held(answer.array()) for name, answer in inputs.answers.items()}
        inputs = input_sets.InputSet(
            inputs.seed, contents, held, inputs.bounds, inputs.outputs, inputs.write_only, inputs.seconds
        )
        leading = self._padded if padded else {}
        layouts = self._layouts(leading)
        memory = {name: layout.spread(contents[name].array()) for name, layout in layouts.items()}
        return DrawnSet(inputs, layouts, memory, leading)

    def _layouts(self, leading: Mapping[str, int]) -> dict[str, RowLayout]:
        return {argument.name: RowLayout.of(argument, self.nominal, leading) for argument in self.op.arrays}

    def fill(self, memory: SharedMemory, places: Mapping[str, ArrayPlace], drawn: DrawnSet) -> dict[str, Array]:
        """Write guards, inputs and poison into memory. Returns the poison of each output that no run need read."""
        poisons = dict[str, Array]()
        memory.guard(places, self.outputs)
        for name, place in places.items():
            content = drawn.contents[name]
            if name in drawn.inputs.write_only:
                poisons[name] = self._poison(name, drawn)
                content = drawn.layouts[name].spread(poisons[name])
            memory.array(place)[:] = content
        if drawn.seed not in self._known:
            self._known = {**dict([*self._known.items()][-1:]), drawn.seed: self._stale(drawn)}
        return poisons

    def _stale(self, drawn: DrawnSet) -> dict[str, Array]:
        """The answers of a set of inputs, as a kernel would have left them in its outputs."""
        return {
            name: _as_stored(answer, drawn.inputs.contents[name])
            for name, answer in drawn.inputs.answers.items()
            if name in self.outputs and not drawn.inputs.contents[name].element.foreign
        }

    def _poison(self, name: str, drawn: DrawnSet) -> Array:
        """What the elements of an output hold before a run, as bytes. It tells nothing of the answers of this set of
        inputs."""
        content = drawn.inputs.contents[name]
        others = [known[name] for seed, known in self._known.items() if seed != drawn.seed and name in known]
        kinds = [RANDOM] if content.element.is_exact else [NAN, NUMBER]
        kind = secrets.choice([*kinds, *([STALE] if others else [])])
        if kind == STALE:
            return _bytes(secrets.choice(others))
        if kind == RANDOM:
            return np.frombuffer(np.random.default_rng(secrets.randbits(128)).bytes(content.nbytes), np.uint8)
        return np.full(content.nbytes, kind, np.uint8)

    def judge(
        self,
        memory: SharedMemory,
        places: Mapping[str, ArrayPlace],
        drawn: DrawnSet,
        poisons: Mapping[str, Array],
        compared: ComparedRuns,
        code: str,
    ) -> str:
        """Compare what a run left in memory, and return a digest of the outputs' bits.

        Raises Refusal with `code` if an output is wrong, and with another if the run wrote where it must not.
        """
        if (damage := memory.damage(places, self.outputs)) is not None:
            raise Refusal("writes_outside", damage)
        found = {name: memory.array(place) for name, place in places.items()}
        for name in sorted(found.keys() - self.outputs):
            if not np.array_equal(found[name], drawn.contents[name]):
                raise Refusal("writes_input", f"writes into {name}, which it may only read")
        try:
            digest = self._compared(found, drawn, poisons, compared, code)
        except Refusal as refusal:
            if not drawn.leading:
                raise
            given = ", ".join(f"{name}={value}" for name, value in drawn.leading.items())
            raise Refusal(refusal.reason.code, f"with {given}: {refusal}") from None
        compared.runs += 1
        return digest

    def _compared(
        self,
        found: Mapping[str, Array],
        drawn: DrawnSet,
        poisons: Mapping[str, Array],
        compared: ComparedRuns,
        code: str,
    ) -> str:
        """The digest of the outputs' bits in the memory that was `found`, once they are compared."""
        outputs = dict[str, Elements]()
        for name in sorted(self.outputs):
            if drawn.layouts[name].is_damaged(found[name]):
                raise Refusal("writes_outside", f"writes into the padding behind the rows of {name}")
            outputs[name] = Held(drawn.layouts[name].gathered(found[name]))
        digest = hashlib.blake2b(digest_size=8)
        for name, output in self._compared_values(drawn, outputs, code).items():
            answer, bound = drawn.inputs.answers[name], drawn.inputs.bounds[name]
            compared.compare(name, output, answer, bound, poisons.get(name), code)
            digest.update(output.array().tobytes())
        return digest.hexdigest()

    def is_right(
        self, memory: SharedMemory, places: Mapping[str, ArrayPlace], drawn: DrawnSet, poisons: Mapping[str, Array]
    ) -> bool:
        """Whether the outputs in memory are right."""
        try:
            self.judge(memory, places, drawn, poisons, ComparedRuns(), "wrong")
        except Refusal:
            return False
        return True

    def _compared_values(self, drawn: DrawnSet, outputs: Mapping[str, Elements], code: str) -> dict[str, Elements]:
        """The outputs and derived values that have answers."""
        inputs = drawn.inputs
        values = {name: output for name, output in outputs.items() if name in inputs.answers}
        if self.op.derive and inputs.answers:
            try:
                derived = derivation.values(self.op, self.nominal, {**inputs.contents, **outputs}, python_calls.call)
            except SpaceError as error:
                raise Refusal(code, f"its outputs have no derived value: {error}") from None
            values |= {name: Held(value) for name, value in derived.items()}
        return values


def _as_stored(answer: Elements, content: Elements) -> Array:
    with np.errstate(all="ignore"):
        return answer.array().astype(content.dtype).reshape(-1)


def _bytes(array: Array) -> Array:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)
