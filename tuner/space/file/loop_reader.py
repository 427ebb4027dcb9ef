"""Reads the loops of `steps:`: which steps repeat, and what changes from pass to pass."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from tuner.classes import dataclass
from tuner.quoting import quoted, shown
from tuner.space import structs
from tuner.space.argument import Argument
from tuner.space.computation import Operation
from tuner.space.dtypes import DTYPES
from tuner.space.expressions import Expression, arithmetic, evaluator
from tuner.space.file.schema import MAX_STEPS, GeometryModel, SpaceModel, StepModel
from tuner.space.file.yamlfile import Document, Where
from tuner.space.loops import Loop, Order, loops_in
from tuner.space.scope import DEVICE_NAMES

OF_A_LOOP = ("repeat", "while", "most", "steps", "swap")
Check = Callable[[Where, Expression, frozenset[str]], None]
Pair = tuple[str, str]


@dataclass(frozen=True)
class Written:
    """A step as in the file: its key, and the loop variables that it may read."""

    where: Where
    model: StepModel
    names: frozenset[str]


class LoopReader:
    """Reads the loops of a space."""

    def __init__(self, document: Document, model: SpaceModel) -> None:
        self.document, self.model = document, model
        self.written = list(_written(("steps",), model.steps or [], frozenset()))

    @property
    def names(self) -> frozenset[str]:
        """All loop variables."""
        models = [step for _, step in _all(("steps",), self.model.steps or [])]
        return frozenset(name for step in models for name in step.repeat or () if name)

    def misplaced(self, name: str) -> str:
        """The message about a loop variable in a place that cannot read it; empty if `name` is none."""
        if name not in self.names:
            return ""
        return (
            f"{name} is a loop variable, which only `grid:`, `when:` and inner loops of its own loop, and the `value:` "
            "of scalars and fields, can read"
        )

    def where(self, where: Where) -> Where:
        """The key of a step, given as ("steps", number, ...), in the file, in which loops have steps of their own."""
        if self.model.steps is None or where[:1] != ("steps",) or len(where) < 2:
            return where
        return (*self.written[int(where[1])].where, *where[2:])

    def step(self, number: int) -> GeometryModel:
        """The step of this number as in the file; the file itself if it has `kernel:`."""
        return self.model if self.model.steps is None else self.written[number].model

    def check_form(self) -> None:
        """Raise SpaceError for a step or loop that lacks a key, or has one of the other."""
        for where, step in _all(("steps",), self.model.steps or []):
            given = {name.rstrip("_") for name in step.model_fields_set}
            if step.repeat is not None or step.while_ is not None:
                self._check_loop(where, step, given)
            elif others := [key for key in OF_A_LOOP if key in given]:
                message = "only for a loop; write `repeat:` or `while:` beside it"
                raise self.document.error((*where, others[0]), message)
            elif step.kernel is None:
                message = "this key is missing; add it, or `repeat:` or `while:` with `steps:` of their own"
                raise self.document.error((*where, "kernel"), message)
        if len(self.written) > MAX_STEPS:
            message = f"{len(self.written)} steps, with those in loops; at most {MAX_STEPS} are allowed"
            raise self.document.error(("steps",), message)

    def _check_loop(self, where: Where, step: StepModel, given: set[str]) -> None:
        for key in sorted(given.difference(OF_A_LOOP)):
            raise self.document.error((*where, key), "not allowed in a loop; write it in the loop's `steps:`")
        if not step.steps:
            raise self.document.error((*where, "steps"), "this key is missing; write what each pass launches")
        if step.repeat is not None and step.while_ is not None:
            raise self.document.error(
                (*where, "while"), "both `repeat` and `while`; keep one, or write one in the other"
            )
        if step.while_ is None and step.most is not None:
            raise self.document.error((*where, "most"), "only for `while:`; `repeat:` says how often it repeats")
        if step.while_ is not None and step.most is None:
            message = "this key is missing; write the most passes, after which the launch fails"
            raise self.document.error((*where, "most"), message)
        if step.while_ is not None and len(where) > 2:
            message = "a `while` cannot be in another loop, which could not be unrolled; write it beside that loop"
            raise self.document.error((*where, "while"), message)

    def order(self, operation: Operation, check: Check, taken: set[str]) -> Order:
        """The order of the steps; empty if each is launched once. Raises SpaceError.

        check: raises SpaceError if an expression uses a name that is neither the space's nor a given loop variable.
        taken: the names that loop variables must not have.
        """
        self._operation, self._check, self._taken = operation, check, taken | {*DEVICE_NAMES, *arithmetic.FUNCTIONS}
        self._taken |= {a.name for a in operation.arguments if a.shape is not None}
        self._arguments = {a.name: a for a in operation.arguments}
        self._pairs: list[Pair] = []
        numbers = {written.where: number for number, written in enumerate(self.written)}
        order = self._parts(("steps",), self.model.steps or [], frozenset(), numbers)
        for argument in operation.looped:
            self._check_takers(argument)
        is_plain = not any(loops_in(order)) and all(written.model.when is None for written in self.written)
        return () if is_plain else order

    def _parts(
        self, where: Where, models: Sequence[StepModel], names: frozenset[str], numbers: dict[Where, int]
    ) -> Order:
        return tuple(
            numbers[place] if step.kernel is not None else self._loop(place, step, names, numbers)
            for place, step in ((((*where, position)), step) for position, step in enumerate(models))
        )

    def _loop(self, where: Where, model: StepModel, names: frozenset[str], numbers: dict[Where, int]) -> Loop:
        for name, values in (model.repeat or {}).items():
            if name and name in self._taken | names:
                raise self.document.error((*where, "repeat", name), "this name is taken; choose another")
            for expression in values.expressions:
                self._check((*where, "repeat", *([name] if name else [])), expression, names)
            names |= {name} - {""}
        if model.while_ is not None:
            self._check_flag((*where, "while"), model.while_, where)
        swap = tuple(
            self._pair((*where, "swap"), pair) for pair in self._given_pairs((*where, "swap"), model.swap or [])
        )
        body = self._parts((*where, "steps"), model.steps or [], names, numbers)
        return Loop(body, tuple((model.repeat or {}).items()), swap, model.while_ or "", model.most or 1)

    def _check_flag(self, where: Where, name: str, loop: Where) -> None:
        flag = self._known(where, name)
        form = (flag.role, [extent.text for extent in flag.shape or ()], flag.zeroed, flag.kind)
        if form != ("scratch", ["1"], "never", None) or not (flag.dtype in DTYPES and DTYPES[flag.dtype].is_exact):
            raise self.document.error(
                where,
                f"{name}: the flag is {{name: {name}, dtype: int32, shape: [1], role: scratch}}, or of another type of "
                "integers, or bool, without `zeroed:`: it is set to 0 before each pass",
            )
        steps = [written for written in self.written if written.where[: len(loop)] == loop]
        takers = {name, *(a.name for a in self._operation.arguments if name in a.reaches)}
        if not any(written.model.arguments is None or takers & {*written.model.arguments} for written in steps):
            raise self.document.error(where, f"no step of the loop takes {name}, so it would stay 0; name it in one")

    def _given_pairs(self, where: Where, swap: list[object]) -> list[Pair]:
        pairs = [swap] if len(swap) == 2 and all(isinstance(name, str) for name in swap) else swap
        for pair in pairs:
            if not (isinstance(pair, list) and len(pair) == 2 and all(isinstance(name, str) for name in pair)):
                raise self.document.error(where, f"{quoted(pair)}: write two arrays, as in [a, b], or a list of pairs")
        return [(pair[0], pair[1]) for pair in pairs if isinstance(pair, list)]

    def _pair(self, where: Where, pair: Pair) -> Pair:
        """The pair, with the array first that holds its content after the loop."""
        first, other = (self._known(where, name) for name in pair)
        for kind in (a.kind for a in self._operation.arguments if a.kind is not None):
            if clash := {*pair} & {*kind.describes}:
                message = f"{min(clash)}: a {kind.name} describes it, which an exchange does not change; remove one"
                raise self.document.error(where, message)
        for argument in (first, other):
            if (fault := _unswappable(argument)) is not None:
                raise self.document.error(where, f"{argument.name}: {fault}")
        if first == other or _form(first) != _form(other):
            forms = f"{first.name} is {_form(first)}, {other.name} is {_form(other)}"
            raise self.document.error(where, f"{forms}; two arrays of the same dtype and shape can be exchanged")
        if "scratch" not in (first.role, other.role):
            raise self.document.error(
                where,
                f"{first.name} and {other.name}: the caller passes both, and only one can hold the result; write "
                "`role: scratch` for the other",
            )
        kept, rest = (other, first) if first.role == "scratch" else (first, other)
        found = (kept.name, rest.name)
        if found[::-1] in self._pairs:
            found = found[::-1]
        if found not in self._pairs:
            if clash := {*found} & {name for known in self._pairs for name in known}:
                raise self.document.error(where, f"{min(clash)} is exchanged with two arrays; keep one pair")
            self._pairs.append(found)
        return found

    def _known(self, where: Where, name: str) -> Argument:
        if name not in self._arguments:
            raise self.document.error(where, evaluator.unknown_name(name, self._arguments))
        return self._arguments[name]

    def _check_takers(self, argument: Argument) -> None:
        """Raise SpaceError for a step outside the loops whose variables an argument's value reads."""
        expressions = structs.expressions(argument)
        read = {name for each in expressions for name in each.names} & self._operation.loop_names
        for written in self.written:
            taken = written.model.arguments
            if (taken is None or argument.name in taken) and (outside := sorted(read - written.names)):
                text = next(each.text for each in expressions if outside[0] in each.names)
                raise self.document.error(
                    written.where,
                    f"takes {argument.name}, whose value `{shown(text)}` reads the loop variable "
                    f"{outside[0]}, but no loop around this step has it; move the step, or list other `arguments:`",
                )


def _unswappable(argument: Argument) -> str | None:
    """Why an argument cannot be exchanged with another one; None if it can."""
    if argument.shape is None or argument.kind is not None or argument.value:
        return "only plain arrays can be exchanged"
    if argument.role == "in":
        return "is of role in, and a loop writes to both arrays; write `role: inout`, or copy it in an earlier step"
    if argument.strides:
        return "has `strides`; only contiguous arrays can be exchanged"
    if argument.zeroed == "once":
        return "is zeroed once, which an exchange would break; write `zeroed: each`"
    return None


def _form(argument: Argument) -> str:
    return f"{argument.dtype} [{', '.join(extent.text for extent in argument.shape or ())}]"


def _all(where: Where, models: Sequence[StepModel]) -> Iterator[tuple[Where, StepModel]]:
    """All steps and loops with their keys, each before those in it."""
    for position, step in enumerate(models):
        yield (*where, position), step
        yield from _all((*where, position, "steps"), step.steps or [])


def _written(where: Where, models: Sequence[StepModel], names: frozenset[str]) -> Iterator[Written]:
    """The steps that launch a kernel, in order."""
    for position, step in enumerate(models):
        if step.steps is None:
            yield Written((*where, position), step, names)
        else:
            inner = names | {name for name in step.repeat or () if name}
            yield from _written((*where, position, "steps"), step.steps, inner)
