"""One size of an operation: it draws inputs with their answers, and compares what a launch made of them."""

from __future__ import annotations

import hashlib
import math
import random
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from tuner.devices.base import Array
from tuner.errors import SpaceError, WrongResult
from tuner.judging.verdict import Errors, Refusal
from tuner.measure.answers import python_calls
from tuner.measure.answers.poison import NAN, NUMBER
from tuner.measure.answers.referee import Referee
from tuner.measure.verify import input_sets
from tuner.measure.verify.comparison import CHUNK, Tally, compare, element_name, error_of
from tuner.space import operation
from tuner.space.answers import derivation
from tuner.space.answers.cache import ReferenceCache
from tuner.space.instance import nominal
from tuner.space.values.elements import Held

if TYPE_CHECKING:
    from tuner.devices.base import Device
    from tuner.judging.memory import ArrayPlace, SharedMemory
    from tuner.measure.bound import Bound
    from tuner.measure.verify.input_sets import InputSet
    from tuner.space.model import Space
    from tuner.space.scope import Scope
    from tuner.space.values.elements import Elements

STALE, RANDOM = -1, -2  # poisons: the answers of other inputs, and random bits
# Times the error of the space's own kernel: between honest sums of a million numbers, up to some 300 times that of a
# sum in double precision, and sums of inputs in half precision, from 2,300 times.
PRECISION = 512.0
EXPLAINED = 0.99  # of the variance of the answers, which outputs must explain


@dataclass(frozen=True)
class DrawnSet:
    """A set of inputs, with the bytes of each array before a launch."""

    inputs: InputSet
    contents: Mapping[str, Array]

    @property
    def seed(self) -> int:
        return self.inputs.seed


@dataclass
class ErrorSums:
    """Sums over the elements of one output, over all runs: squares of errors and of answers, and the answers."""

    errors: float = 0.0
    squares: float = 0.0
    answers: float = 0.0
    count: int = 0

    @property
    def relative(self) -> float:
        """The root mean square of the errors over that of the answers."""
        return math.sqrt(self.errors / self.squares) if self.squares else math.sqrt(self.errors)

    @property
    def unexplained(self) -> float:
        """The fraction of the variance of the answers that the outputs do not explain; 0 if answers do not vary."""
        variance = self.squares - self.answers**2 / self.count if self.count else 0.0
        return self.errors / variance if variance > 1e-12 * self.squares else 0.0


@dataclass
class ComparedRuns:
    """What the compared runs of one candidate have shown at one size."""

    precision: dict[str, ErrorSums] = field(default_factory=dict)  # by the name of the output
    worst: Errors | None = None
    runs: int = 0


class JudgedProblem:
    """One size of the operation of a space, on one device."""

    def __init__(self, device: Device, space: Space, scope: Scope) -> None:
        self._device, self.space, self.scope = device, space, space.operation.own(scope)
        self.op = space.operation
        self.nominal = nominal(space, self.scope)
        self.arrays = {a.name: operation.nbytes(a, self.nominal) for a in self.op.arrays}
        self.outputs = frozenset(a.name for a in self.op.outputs)
        self._known: dict[int, dict[str, Array]] = {}  # answers by seed, as the poison of other sets

    @property
    def size(self) -> dict[str, int]:
        return dict(self.scope.sizes)

    def draw(self, seed: int, with_also: bool = False) -> DrawnSet:
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
        return DrawnSet(inputs, {name: _bytes(contents[name].array()) for name in self.arrays})

    def fill(self, memory: SharedMemory, places: Mapping[str, ArrayPlace], drawn: DrawnSet) -> dict[str, Array]:
        """Write guards, inputs and poison into memory. Returns the poison of each output that no run need read."""
        poisons = dict[str, Array]()
        memory.guard(places, self.outputs)
        for name, place in places.items():
            content = drawn.contents[name]
            if name in drawn.inputs.write_only:
                content = poisons[name] = self._poison(name, drawn)
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
        """What an output holds before a run. It tells nothing of the answers of this set of inputs."""
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
            raise Refusal("writes_outside", damage, self.size)
        for name in self.arrays.keys() - self.outputs:
            if not np.array_equal(memory.array(places[name]), drawn.contents[name]):
                raise Refusal("writes_input", f"writes into {name}, which it may only read", self.size)
        inputs = drawn.inputs
        outputs = {
            name: Held(memory.array(places[name], inputs.contents[name].dtype).reshape(inputs.contents[name].shape))
            for name in sorted(self.outputs)
        }
        digest = hashlib.blake2b(digest_size=8)
        for name, output in self._compared_values(drawn, outputs, code).items():
            self._compare(name, output, drawn, poisons.get(name), compared, code)
            digest.update(output.array().tobytes())
        compared.runs += 1
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
                raise Refusal(code, f"its outputs have no derived value: {error}", self.size) from None
            values |= {name: Held(value) for name, value in derived.items()}
        return values

    def _compare(
        self, name: str, output: Elements, drawn: DrawnSet, poison: Array | None, compared: ComparedRuns, code: str
    ) -> None:
        answer, bound = drawn.inputs.answers[name], drawn.inputs.bounds[name]
        before = None if poison is None or not output.element.is_exact else poison.view(output.dtype)
        tally, sums = Tally(bound, output.size), compared.precision.setdefault(name, ErrorSums())
        worst, place, limit = -1.0, 0, 0.0
        with np.errstate(all="ignore"):
            for start, actual in output.parts(CHUNK):
                expected = answer.part(start, start + actual.size)
                part = None if before is None else before[start : start + actual.size]
                tally.add(start, actual, expected, part)
                error = _errors(actual, expected, output)
                top = int(np.argmax(error))
                if float(error[top]) > worst:
                    limits = np.broadcast_to(bound.limits(expected), error.shape)
                    worst, place, limit = float(error[top]), start + top, float(limits[top])
                _add(sums, error, expected)
        found = Errors(
            worst=worst,
            bound=limit,
            output=name,
            where=element_name(name, place, answer.shape),
            wrong=tally.wrong,
            elements=output.size,
            relative=sums.relative,
        )
        if compared.worst is None or _share(found) >= _share(compared.worst):
            compared.worst = found
        if not tally.is_right:
            compared.worst = found
            raise self._wrong(name, output, answer, bound, before, poison, code)

    def _wrong(
        self,
        name: str,
        output: Elements,
        answer: Elements,
        bound: Bound,
        before: Array | None,
        poison: Array | None,
        code: str,
    ) -> Refusal:
        try:
            compare(name, output, answer, bound, before)
            message = "is wrong"
        except WrongResult as error:
            message = str(error)
        if poison is not None:
            same = (_bytes(output.array()) == poison).reshape(output.size, -1).all(axis=1)
            if (count := int(np.count_nonzero(same))) and code == "wrong":
                return Refusal("unwritten", f"{message}; {count} hold what was there before the run", self.size)
        return Refusal(code, message, self.size)


def check_precision(own: ComparedRuns, baseline: ComparedRuns, problem: JudgedProblem, drawn: DrawnSet) -> None:
    """Raise Refusal if a candidate makes too much of the tolerance, compared with the space's own kernel on the same
    sets of inputs."""
    for name, sums in own.precision.items():
        bound, theirs = drawn.inputs.bounds[name], baseline.precision.get(name, ErrorSums())
        if bound.is_exact or not sums.count:
            continue
        if sums.unexplained > 1 - EXPLAINED and theirs.unexplained <= (1 - EXPLAINED) / 2:
            raise Refusal(
                "ignores_inputs",
                f"{name} is within the tolerance of {bound}, but explains only {max(0.0, 1 - sums.unexplained):.0%} of "
                "how the answers vary with the inputs",
                problem.size,
            )
        least = max(theirs.relative, 0.0 if bound.dtype.is_exact else bound.dtype.epsilon)
        if least and sums.relative > PRECISION * least:
            raise Refusal(
                "less_precise",
                f"{name} is within the tolerance of {bound}, but its relative error of {sums.relative:.2g} is "
                f"{sums.relative / least:,.0f} times that of the space's own kernel; {PRECISION:g} are allowed",
                problem.size,
            )


def hidden(
    space: Space, scope: Scope, config: Mapping[str, Any], count: int, chance: random.Random
) -> list[dict[str, int]]:
    """Sizes near those of `scope` at which a configuration is valid, drawn by `chance`; fewer if few are valid."""
    found = list[dict[str, int]]()
    for attempt in range(400 * count):
        if len(found) == count:
            break
        step = 1 << min(9, attempt // (20 * count))  # restrictions may ask for multiples
        is_odd = not found and attempt < 10 * count  # one at least, where odd sizes are valid
        sizes = {name: _near(value, step, chance, is_odd) for name, value in scope.sizes.items()}
        if sizes != dict(scope.sizes) and sizes not in found and _is_launchable(space, scope, config, sizes):
            found.append(sizes)
    return found


def _near(value: int, step: int, chance: random.Random, is_odd: bool) -> int:
    if value == 1:
        return chance.choice((1, 1, 2, 3))
    near = value * math.exp(chance.uniform(math.log(0.5), math.log(1.2)))
    return max(step, round(near / step) * step) | is_odd


def _is_launchable(space: Space, scope: Scope, config: Mapping[str, Any], sizes: dict[str, int]) -> bool:
    op = space.operation
    try:
        other = op.scope(sizes, dict(scope.options), scope.language, scope.limits, dict(scope.types))
        if not space.valid(config, other):
            return False
        for step in space.steps:
            step.geometry(space.names(config, other))
        return all(operation.nbytes(a, nominal(space, other)) > 0 for a in op.arrays)
    except SpaceError:
        return False


def _errors(actual: Array, expected: Array, output: Elements) -> Array:
    kind = output.element
    if kind.kind == "boolean":
        actual = actual.view(kind.bits)
    error = error_of(actual.astype(kind.wide, copy=False) if kind.foreign else actual, expected)
    return np.where(np.isnan(error), np.inf, error)


def _add(sums: ErrorSums, error: Array, expected: Array) -> None:
    wide = np.abs(expected) if np.iscomplexobj(expected) else expected.astype(np.float64)
    finite = np.isfinite(wide) & np.isfinite(error)
    sums.errors += float(np.sum(np.square(error), where=finite))
    sums.squares += float(np.sum(np.square(wide), where=finite))
    sums.answers += float(np.sum(wide, where=finite))
    sums.count += int(np.count_nonzero(finite))


def _share(found: Errors) -> float:
    return found.worst / found.bound if found.bound else found.worst * math.inf if found.worst else 0.0


def _as_stored(answer: Elements, content: Elements) -> Array:
    with np.errstate(all="ignore"):
        return answer.array().astype(content.dtype).reshape(-1)


def _bytes(array: Array) -> Array:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)
