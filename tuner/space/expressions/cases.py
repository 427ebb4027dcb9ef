"""Check that the inputs reach all cases of a reference: conditions with one outcome, integer divisors that are 0,
negative indices.

If a condition holds for every element, verification cannot detect a kernel that ignores it.
"""

from __future__ import annotations

import ast
import contextlib
from collections.abc import Container, Sequence
from contextvars import ContextVar
from typing import Any

import numpy as np

from tuner.classes import setting
from tuner.quoting import shown
from tuner.space.expressions.evaluator import names_in

FEWEST = 16  # elements of a condition; fewer may all be equal by chance


class Cases:
    """The outcomes of each condition over arrays so far, and the integer divisors that were 0 for some element."""

    def __init__(self) -> None:
        self.met: dict[str, set[bool]] = {}
        self.zero = dict[str, None]()
        self.negative = dict[str, int]()  # the extent of the array, by index

    def has_negative_index(self, unfilled: Container[str]) -> bool:
        """Whether an index that depends on `unfilled` was negative. NumPy counts it from the end, a kernel does not."""
        return any(_arrays_of(text, unfilled) for text in self.negative)

    def missed(self, arrays: Container[str], unfilled: Container[str] = ()) -> list[str]:
        """A sentence for each condition on `arrays` with one outcome only, and each divisor on `arrays` that was 0.

        And for each index that was negative, if it depends on `unfilled`, the integer inputs without a `fill:`.
        """
        sentences = [_sentence(text, arrays, *met) for text, met in self.met.items() if len(met) == 1]
        sentences += [_divisor_sentence(text, arrays) for text in self.zero]
        sentences += [_index_sentence(text, unfilled, extent) for text, extent in self.negative.items()]
        return list(filter(None, sentences))


_current: ContextVar[Cases | None] = ContextVar("current", default=None)


def recorded_in(cases: Cases) -> contextlib.AbstractContextManager[None]:
    """Record conditions and divisors in `cases` inside the `with` block."""
    return setting(_current, cases)


def see(condition: ast.expr, value: Any) -> None:
    """Record the element-wise truth of `condition` in the current `Cases`, if any."""
    if (cases := _current.get()) is not None and np.size(value) >= FEWEST:
        met = cases.met.setdefault(ast.unparse(condition), set())
        met.update([True] if np.any(value) else [], [] if np.all(value) else [False])


def see_divisor(divisor: ast.expr, value: Any) -> None:
    """Record `divisor` in the current `Cases`, if any, if `value`, array or number, is an integer and 0 somewhere."""
    if (cases := _current.get()) is not None and np.asarray(value).dtype.kind in "iu" and not np.all(value):
        cases.zero[ast.unparse(divisor)] = None


def see_index(index: ast.expr, value: Any, extent: int) -> None:
    """Record `index` into an axis of this extent in the current `Cases`, if any, if `value`, an array, is a negative
    integer for some element."""
    if (cases := _current.get()) is None or not np.ndim(value) or np.asarray(value).dtype.kind != "i":
        return
    if np.min(value, initial=0) < 0:
        cases.negative[ast.unparse(index)] = extent


def _sentence(text: str, arrays: Container[str], met: bool) -> str:
    """The sentence about a condition; empty if it depends on no array."""
    names, tree = _arrays_of(text, arrays), ast.parse(text)
    if not names:
        return ""
    numbers = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)}
    example = " such as {choice: [0, 1]}" if numbers <= {0, 1} and len(names) == 1 else ""
    return (
        f"reference: `{shown(text)}` is {str(met).lower()} for every element of these inputs, so a kernel that "
        f"ignores it passes; give {' or '.join(names)} a `fill:`{example} that makes it both true and false"
    )


def _divisor_sentence(text: str, arrays: Container[str]) -> str:
    """The sentence about a divisor that was 0; empty if it depends on no array."""
    if not (names := _arrays_of(text, arrays)):
        return ""
    return (
        f"reference: divides by `{shown(text)}`, which is 0 for some elements of these inputs; {_without_zero(names)}"
    )


def _index_sentence(text: str, unfilled: Container[str], extent: int) -> str:
    """The sentence about an index that was negative; empty if it depends on no array without `fill:`."""
    if not (names := _arrays_of(text, unfilled)):
        return ""
    return (
        f"reference: `{shown(text)}` is negative for some elements of these inputs, and indexes an array; if no caller "
        f"passes such indices, give {' or '.join(names)} a `fill:`, such as {{integers: [0, {extent - 1}]}}"
    )


def division_hint(integers: Sequence[str]) -> str:
    """The likely reason for an integer division by 0, and the remedy.

    `integers` are the integer inputs without a `fill:`. Empty if there are none.
    """
    if not integers:
        return ""
    have = "has" if len(integers) == 1 else "have"
    why = f"{' and '.join(integers)} {have} no `fill:`, so some elements are 0"
    return f"an integer was divided by 0: {why}; {_without_zero(integers)}"


def _without_zero(names: Sequence[str]) -> str:
    advice = f"give {' or '.join(names)} a `fill:` without zeros, such as {{integers: [1, 8]}}"
    return f"if no caller passes zeros, {advice}"


def _arrays_of(text: str, arrays: Container[str]) -> list[str]:
    """The names in an expression that are in `arrays`, sorted.

    The text is parsed again, because the evaluated tree may hold cached matrix products as names.
    """
    return [name for name in sorted(names_in(ast.parse(text, mode="eval").body)) if name in arrays]
