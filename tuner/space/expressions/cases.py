"""What a reference meets in the inputs: cases of its conditions, and divisors that are 0.

Where a condition holds for every element, a kernel that ignores it is right.
"""

from __future__ import annotations

import ast
import contextlib
from collections.abc import Container, Iterator, Sequence
from contextvars import ContextVar
from typing import Any

import numpy as np

from tuner.quoting import shown
from tuner.space.expressions.evaluator import names_in

FEWEST = 16  # elements; of fewer, all may be alike by chance


class Cases:
    """Whether conditions over arrays were true, and whether they were false, for any element so far; and the whole
    numbers that were 0, and divided."""

    def __init__(self) -> None:
        self._met: dict[str, set[bool]] = {}
        self._zero = dict[str, None]()

    def see(self, condition: ast.expr, value: Any) -> None:
        """A condition has had this value, an array that has its truth by element."""
        if np.size(value) >= FEWEST:
            met = self._met.setdefault(ast.unparse(condition), set())
            met.update([True] if np.any(value) else [], [] if np.all(value) else [False])

    def see_divisor(self, divisor: ast.expr, value: Any) -> None:
        """Something was divided by this value, an array or a number."""
        if np.asarray(value).dtype.kind in "iu" and not np.all(value):
            self._zero[ast.unparse(divisor)] = None

    def missed(self, arrays: Container[str]) -> list[str]:
        """A sentence about each condition on `arrays` that was the same for every element, and about each divisor."""
        sentences = [_sentence(text, arrays, *met) for text, met in self._met.items() if len(met) == 1]
        return list(filter(None, [*sentences, *(_divisor_sentence(text, arrays) for text in self._zero)]))


_watched: ContextVar[Cases | None] = ContextVar("watched", default=None)


@contextlib.contextmanager
def watched(cases: Cases) -> Iterator[None]:
    """Meanwhile `cases` sees what conditions and divisors are."""
    token = _watched.set(cases)
    try:
        yield
    finally:
        _watched.reset(token)


def see(condition: ast.expr, value: Any) -> None:
    """Show the value of a condition to those who watch."""
    if (cases := _watched.get()) is not None:
        cases.see(condition, value)


def see_divisor(divisor: ast.expr, value: Any) -> None:
    """Show the value of a divisor to those who watch."""
    if (cases := _watched.get()) is not None:
        cases.see_divisor(divisor, value)


def _sentence(text: str, arrays: Container[str], met: bool) -> str:
    """About a condition; empty where no array decides it."""
    names, tree = _arrays_of(text, arrays), ast.parse(text)
    if not names:
        return ""
    numbers = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)}
    example = " such as {choice: [0, 1]}," if numbers <= {0, 1} and len(names) == 1 else ""
    return (
        f"reference: `{shown(text)}` is {str(met).lower()} for every element of these inputs, so a kernel that "
        f"ignores it passes; give {' or '.join(names)} a `fill:`{example} with which it is both"
    )


def _divisor_sentence(text: str, arrays: Container[str]) -> str:
    """About a divisor that was 0; empty where no array decides it."""
    if not (names := _arrays_of(text, arrays)):
        return ""
    return (
        f"reference: divides by `{shown(text)}`, which is 0 for some elements of these inputs; {_without_zero(names)}"
    )


def division_hint(integers: Sequence[str]) -> str:
    """Why a kernel may have divided a whole number by 0, and the cure. `integers` are the inputs of whole numbers that
    have no `fill:`; empty without any."""
    if not integers:
        return ""
    have = "has" if len(integers) == 1 else "have"
    why = f"{' and '.join(integers)} {have} no `fill:`, so that some elements are 0"
    return f"a whole number was divided by 0: {why}; {_without_zero(integers)}"


def _without_zero(names: Sequence[str]) -> str:
    advice = f"give {' or '.join(names)} a `fill:` without it, such as {{integers: [1, 8]}}"
    return f"if no caller passes that, {advice}"


def _arrays_of(text: str, arrays: Container[str]) -> list[str]:
    """The arrays that an expression names. It is parsed again: products of matrices are names in what is evaluated."""
    return [name for name in sorted(names_in(ast.parse(text, mode="eval").body)) if name in arrays]
