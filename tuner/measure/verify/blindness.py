"""Blindness: options, inputs and parts of the reference whose change no output shows.

A kernel that leaves out a term passes if the term is below the tolerance everywhere, such as `a * y` in `x + a * y`
for `a` = 1e-8.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from tuner.errors import SpaceError, TunerError
from tuner.measure.verify import compared_outputs, formula_parts, input_sets, other_options
from tuner.measure.verify.judgement import Mutant, judged
from tuner.space import operation
from tuner.space.chosen_types import dtype
from tuner.space.instance import nominal
from tuner.space.values.elements import Held
from tuner.space.values.forms import ExpressionReference, NoReference, PythonReference

if TYPE_CHECKING:
    from tuner.devices.base import Array
    from tuner.measure.answers.referee import Referee
    from tuner.measure.bound import Bound
    from tuner.measure.verify.formula_parts import FormulaPart
    from tuner.measure.verify.input_sets import InputSet
    from tuner.space.argument import Argument
    from tuner.space.scope import Scope
    from tuner.space.values.elements import Elements

MOST_SECONDS = 1.0  # for all answers together; what is not tried by then is left out
SMALL_BYTES = 1 << 18  # of arrays: a larger problem is examined at smaller sizes, if its reference is an expression
SMALL_SIZE = 64  # sizes up to this one may be counts, such as those of heads and taps, and stay
MOST = 1.0  # an option grows by powers of ten until an output shows it, but not beyond this value
OTHER_SEED = 1 << 29  # of other contents of an input: no input set has it
MARGIN = 4  # times its tolerance: by how much an output must change to show what its own rounding does not hide
_NONE: Mapping[str, Any] = MappingProxyType({})
_SEED = -8  # of the verdict in the cache, beside those of precision


@dataclass
class Sight:
    """What verification cannot see. `unseen` names options, inputs and parts, as in `option a`; `untried` those whose
    change would have taken too long, or has no answers, or shows only with the smaller tolerance of a smaller size.
    `options` are values of options at which outputs show what they do not show at the problem's own, or are finite;
    `sentences` say all this to the user."""

    unseen: list[str] = field(default_factory=list)
    untried: list[str] = field(default_factory=list)
    options: dict[str, float] = field(default_factory=dict)
    sentences: list[str] = field(default_factory=list)

    @property
    def skipped(self) -> list[str]:
        """What is not seen or not tried, as a record names the mutants that need not be rejected."""
        return [f"change of {name}" for name in (*self.unseen, *self.untried)]


def check(referee: Referee, problem: Scope, inputs: InputSet) -> Sight:
    """Change each option and input by itself, and leave out each part of the reference, on the input set `inputs`.

    An output shows the change if an element changes by more than its tolerance. All processes that share the referee's
    cache share the verdict.
    """

    def computed() -> Array:
        return np.array(json.dumps(asdict(_sight(referee, problem, inputs))))

    name = f"sight {sorted(problem.options.items())}"
    return Sight(**json.loads(str(referee.cache.get(_SEED, name, computed))))


def _sight(referee: Referee, problem: Scope, inputs: InputSet) -> Sight:
    form = referee.space.operation.reference
    if isinstance(form, NoReference) or (isinstance(form, PythonReference) and form.is_fixed):
        return Sight()
    seconds = max(inputs.seconds, referee.cache.seconds(inputs.seed))
    own = referee.apart()
    try:
        if (small := _small(own, problem)) is not None:
            return _Examination(own, *small, wide=inputs.bounds).sight()
    except (TunerError, MemoryError):  # the operation has no such sizes
        pass
    return _Examination(own, nominal(referee.space, problem), inputs, seconds).sight()


def _small(referee: Referee, problem: Scope) -> tuple[Scope, InputSet, float] | None:
    """The problem at smaller sizes, its inputs, and the seconds that its answers take; None if it is small itself, or
    if other code than an expression computes its answers, which may be made for these sizes."""
    op = referee.space.operation
    if not isinstance(op.reference, ExpressionReference) or op.python_functions:
        return None
    scope = nominal(referee.space, problem)
    if operation.array_bytes(op, scope) <= SMALL_BYTES:
        return None
    while operation.array_bytes(op, scope) > SMALL_BYTES and max(scope.sizes.values()) > SMALL_SIZE:
        sizes = {name: size if size <= SMALL_SIZE else size // 2 for name, size in scope.sizes.items()}
        scope = nominal(referee.space, replace(problem, sizes=sizes))
    inputs = input_sets.draw(referee, scope, 0)
    return scope, inputs, inputs.seconds


class _Examination:
    """The changes of one problem, tried one after the other."""

    def __init__(
        self, referee: Referee, scope: Scope, inputs: InputSet, seconds: float, wide: Mapping[str, Bound] = _NONE
    ) -> None:
        """`seconds` is the time that the answers of `inputs` took. `wide` are the bounds of a larger problem, for which
        `inputs` stand: what only smaller bounds show is neither seen nor unseen there."""
        self._referee, self._scope, self._inputs, self._seconds = referee, scope, inputs, seconds
        self._op, self._sight, self._answers = referee.space.operation, Sight(), 0
        self._wide, self._is_unclear = wide, False
        self._late: list[str] = []  # small options for which the time did not suffice
        self._deadline = time.perf_counter() + MOST_SECONDS

    def sight(self) -> Sight:
        self._sight.sentences += compared_outputs.warnings(self._op, self._inputs)
        form = self._op.reference
        formulas = form.outputs if isinstance(form, ExpressionReference) else {}
        named = frozenset[str]().union(*(formula.names for formula in formulas.values()))
        named = named.union(*(value.names for name, (value, _) in self._scope.computed.items() if name in named))
        for name in sorted(self._referee.options(self._scope)):
            if not formulas or name in named:
                self._try(f"option {name}", functools.partial(self._is_option_seen, name))
        for position, argument in enumerate(self._op.arrays):
            if argument.name not in self._inputs.write_only and (not formulas or argument.name in named):
                self._try(f"argument {argument.name}", functools.partial(self._is_input_seen, argument, position))
        arrays = {argument.name for argument in self._op.arrays}
        for output, formula in formulas.items():
            hidden = set[int]()  # the nodes within parts that are not seen
            for part in formula_parts.of(formula, arrays):
                if id(part.part) not in hidden:
                    self._try(part.name, functools.partial(self._is_part_seen, output, part))
                if part.name in self._sight.unseen:
                    hidden.update(id(inner) for inner in ast.walk(part.part))
        if unseen := self._sight.unseen:
            it = "it" if len(unseen) == 1 else "them"
            self._sight.sentences.append(
                f"verification does not see {', '.join(unseen)}: no output changes by more than its tolerance with "
                f"other values of {it}, or without {it}, so a kernel that ignores {it} passes; give inputs a `fill:`, "
                "or options other values, by which an output changes, or write a smaller `tolerance:`"
            )
        if late := self._late:
            them = "it" if len(late) == 1 else "them"
            self._sight.sentences.append(
                f"verification did not try other values of {', '.join(late)}: the expected outputs take too long; so "
                f"a kernel that ignores {them} may pass; tune a smaller size, too, where they are tried"
            )
        return self._sight

    def _try(self, name: str, is_seen: Callable[[], bool]) -> None:
        self._is_unclear = False
        try:
            if is_seen():
                return
            names = self._sight.untried if self._is_unclear else self._sight.unseen
        except _TooSlow:
            names = self._sight.untried
            if 0 < abs(self._scope.passed_options.get(name.removeprefix("option "), 0)) < MOST / 10:
                self._late.append(name)
        except (TunerError, MemoryError, _Diverges):  # a reference may refuse what was changed, such as another shape
            names = self._sight.untried
        if name not in names:
            names.append(name)

    def _is_option_seen(self, name: str) -> bool:
        """Whether outputs show the option, perhaps at a larger value, which is then noted."""
        other = other_options.varied(self._op, self._scope, {name})
        if other is None or not self._referee.covers(other):
            return True
        try:
            if self._shows(other):
                return True
        except _Diverges:
            return self._is_option_seen_nearer(name, other)
        value, own = other.options[name], self._scope.passed_options[name]
        types = [dtype(argument, self._scope) for argument in self._op.takers[name]]
        while abs(value) < MOST / 10 and all(each.kind == "real" and each.holds(10 * value) for each in types):
            value *= 10
            if self._shows(replace(other, options={**other.options, name: value}), MARGIN):
                self._sight.options[name] = value
                self._sight.sentences.append(
                    f"option {name}: no output changes by more than its tolerance if it is "
                    f"{other.options[name]:.3g} instead of {own:.3g}; so the finals verify with {value:.3g}, too, "
                    "where outputs show it"
                )
                return True
        return False

    def _is_option_seen_nearer(self, name: str, other: Scope) -> bool:
        """The same at a value that is nearer to 0, because the computation diverges at that of `other`."""
        own, value = self._scope.passed_options[name], other_options.nearer(self._op, self._scope).get(name)
        self._sight.options[name] = own
        with contextlib.suppress(_Diverges):
            if value is not None:
                is_shown = self._shows(replace(other, options={**other.options, name: value}))
                self._sight.options[name] = value
                return is_shown
        tried = " and ".join(f"{each:.3g}" for each in (other.options[name], value) if each is not None)
        self._sight.sentences.append(
            f"verification did not try other values of option {name}: with {tried}, expected outputs are NaN, infinite "
            f"or too large for their type; so a kernel that ignores it may pass; if {name} is always {own:g}, write "
            f"`value: {own:g}` at its argument in place of the option; else give inputs a `fill:` of smaller numbers"
        )
        raise _Diverges

    def _is_input_seen(self, argument: Argument, position: int) -> bool:
        self._watch()  # before other contents take memory
        contents = self._changed(argument, position)
        if contents is None:
            return True
        changed = {argument.name: contents}
        return self._shows(self._scope, contents=changed) or self._shows_elsewhere(contents=changed)

    def _is_part_seen(self, output: str, part: FormulaPart) -> bool:
        """Whether outputs show that the formula of an output lacks a part. Raises as `FormulaPart.left_out_of` does."""
        self._watch()
        form = self._op.reference
        assert isinstance(form, ExpressionReference)
        rest = part.left_out_of(form.outputs[output])
        reference = ExpressionReference({**form.outputs, output: rest})
        referee = self._referee.apart(reference)
        try:
            return self._shows(self._scope, referee=referee) or self._shows_elsewhere(referee=referee)
        except SpaceError:  # the rest has another shape, as without a factor that is an input: whose own change tells
            return True

    def _changed(self, argument: Argument, position: int) -> Elements | None:
        """Other contents of an input that are as valid; None if there are none, or none are known."""
        fill, own = argument.fill, self._inputs.contents[argument.name]
        if fill is None or (fill.is_random and fill.function is None):
            return operation.content(argument, self._scope, self._inputs.seed + OTHER_SEED, position)
        if own.element.is_exact:  # indices, of which some have an order
            return None
        elements = own.array()
        order = np.random.default_rng(0).integers(0, elements.size, elements.size)  # its own elements, some repeated
        changed = elements.reshape(-1)[order].reshape(elements.shape)
        return None if changed.tobytes() == elements.tobytes() else Held(changed)  # NaN of bfloat16 warns if compared

    def _shows_elsewhere(self, referee: Referee | None = None, contents: Mapping[str, Elements] = _NONE) -> bool:
        """Whether outputs show a change at the values of options with which the finals verify, too."""
        other = other_options.varied(self._op, self._scope, self._referee.options(self._scope), self._sight.options)
        if other is None or not self._referee.covers(other):
            return False
        self._watch()
        inputs = input_sets.answered(self._referee, other, self._inputs.contents, OTHER_SEED)
        return self._shows(other, referee=referee, contents=contents, inputs=inputs)

    def _shows(
        self,
        scope: Scope,
        margin: float = 1.0,
        referee: Referee | None = None,
        contents: Mapping[str, Elements] = _NONE,
        inputs: InputSet | None = None,
    ) -> bool:
        """Whether an output of this changed problem differs from `inputs` by more than `margin` times its tolerance.

        Raises _Diverges if the problem has other options, and answers that are not finite with them.
        """
        self._watch()
        began = time.perf_counter()
        self._answers += 1
        inputs = inputs or self._inputs
        all_contents = {**inputs.contents, **contents}
        answers, _ = (referee or self._referee).answers(scope, all_contents, OTHER_SEED + self._answers)
        is_shown, changed = False, replace(inputs, answers=answers)
        with np.errstate(all="ignore"):
            if scope.options != self._scope.options and compared_outputs.diverges(self._op, self._inputs, changed):
                raise _Diverges
            for output in compared_outputs.of(self._op, inputs):
                other = Mutant("other", replace(output, answer=answers[output.name]).right)
                wide = output.bound.widened(self._wide.get(output.name, output.bound))
                is_shown = is_shown or judged(replace(output, bound=wide.scaled(margin)), other).is_rejected
                if not is_shown and wide != output.bound:
                    own = replace(output, bound=output.bound.scaled(margin))
                    self._is_unclear = self._is_unclear or judged(own, other).is_rejected
        self._seconds = max(self._seconds, time.perf_counter() - began)  # comparing large outputs takes long, too
        return is_shown

    def _watch(self) -> None:
        """Raise _TooSlow if further answers would take too long."""
        if time.perf_counter() + self._seconds > self._deadline:
            raise _TooSlow


class _Diverges(Exception):
    """Expected outputs are not finite with other values of options."""


class _TooSlow(Exception):
    """Further answers would take too long."""
