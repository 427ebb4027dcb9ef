"""Loops of steps: how often their steps are launched, and what changes from pass to pass."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from tuner.classes import dataclass
from tuner.errors import ExpressionError
from tuner.quoting import shown
from tuner.space.expressions import Expression

MOST_PASSES = 1_000_000  # of a loop variable; bounds the time that unrolling takes
# The forms of `repeat:`, each with the number of its expressions; a list has any number.
COUNT, LIST, RANGE, POWERS, HALVING = "count", "list", "range", "powers_of_two", "halving"


@dataclass(frozen=True)
class Values:
    """The values that a loop variable takes, in order. `form` is one of those above."""

    form: str
    expressions: tuple[Expression, ...]

    def at(self, names: Mapping[str, Any]) -> Iterable[int]:
        """The values for these values of names. Raises ExpressionError if they cannot be computed."""
        numbers = [expression.integer(names) for expression in self.expressions]
        if self.form == LIST:
            return numbers
        values = self._range(numbers)
        if len(values) > MOST_PASSES:
            raise ExpressionError(f"`{self.text}` has {len(values):,} values; at most {MOST_PASSES:,} are allowed")
        return values

    def _range(self, numbers: list[int]) -> range | list[int]:
        if self.form == COUNT:
            return range(numbers[0])
        if self.form == RANGE:
            first, last, step = numbers
            if step == 0:
                raise ExpressionError(f"`{shown(self.expressions[2].text)}` is 0; a step is above or below 0")
            return range(first, last + (1 if step > 0 else -1), step)
        first, last = numbers
        if self.form == POWERS:
            if first < 1 or first & (first - 1):
                raise ExpressionError(f"`{shown(self.expressions[0].text)}` is {first}; a power of two is needed")
            return [1 << exponent for exponent in range(first.bit_length() - 1, max(last, 0).bit_length())]
        return [first >> shift for shift in range(max(first, 0).bit_length()) if first >> shift >= last]

    @property
    def text(self) -> str:
        """The values as in a space file."""
        texts = [expression.text for expression in self.expressions]
        if self.form == COUNT:
            return texts[0]
        if self.form == RANGE:
            step = "" if texts[2] == "1" else f", step: {texts[2]}"
            return f"{{from: {texts[0]}, to: {texts[1]}{step}}}"
        return f"[{', '.join(texts)}]" if self.form == LIST else f"{{{self.form}: [{', '.join(texts)}]}}"


@dataclass(frozen=True)
class Loop:
    """Steps that are launched in several passes.

    body: in order, the numbers of steps in the space, and loops.
    variables: the values of each loop variable, the outermost first; a count has the name "". A `while` has none.
    swap: the pairs of arrays that are exchanged after each pass. The first of a pair holds its content afterwards.
    flag: of a `while`: the scratch that is set to 0 before each pass; the last pass leaves it 0. Otherwise empty.
    most: of a `while`: the most passes.
    """

    body: tuple[int | Loop, ...]
    variables: tuple[tuple[str, Values], ...] = ()
    swap: tuple[tuple[str, str], ...] = ()
    flag: str = ""
    most: int = 1

    @property
    def names(self) -> list[str]:
        """The names of its own variables."""
        return [name for name, _ in self.variables if name]

    @property
    def expressions(self) -> list[Expression]:
        """The expressions of its own variables."""
        return [expression for _, values in self.variables for expression in values.expressions]

    @property
    def head(self) -> str:
        """Its keys other than `steps`, as in a space file."""
        if self.flag:
            words = [f"while: {self.flag}", f"most: {self.most}"]
        elif self.names:
            words = [f"repeat: {{{', '.join(f'{name}: {values.text}' for name, values in self.variables)}}}"]
        else:
            words = [f"repeat: {self.variables[0][1].text}"]
        return ", ".join([*words, *(f"swap: [{first}, {other}]" for first, other in self.swap)])


Order = tuple[int | Loop, ...]


def loops_in(order: Order) -> Iterator[Loop]:
    """All loops, each before the loops in it."""
    for part in order:
        if isinstance(part, Loop):
            yield part
            yield from loops_in(part.body)


def place(order: Order, number: int) -> tuple[int | str, ...]:
    """The key of a step below `steps:` in a file with this order, which is empty if each step is launched once."""
    for position, part in enumerate(order):
        if part == number:
            return (position,)
        if isinstance(part, Loop) and (inside := place(part.body, number)):
            return (position, "steps", *inside)
    return () if order else (number,)


def to_json(order: Order) -> list[Any]:
    """`order` as JSON data, for signatures and for commands."""
    return [part if isinstance(part, int) else _loop_data(part) for part in order]


def _loop_data(loop: Loop) -> dict[str, Any]:
    variables = [[name, v.form, [e.text for e in v.expressions]] for name, v in loop.variables]
    kept = {"flag": loop.flag, "most": loop.most} if loop.flag else {}
    return {"body": to_json(loop.body), "variables": variables, "swap": [list(pair) for pair in loop.swap], **kept}
