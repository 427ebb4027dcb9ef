"""Reads the comparisons in a kernel's tokens, without those that bound no index."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from tuner.drafting.arrays.local_names import is_member
from tuner.drafting.expansion import split_arguments
from tuner.drafting.polynomials import Polynomial, bare, text
from tuner.space.sources.tokens import matching

BOUNDS = ("<", ">=")  # `i < n`, and `i >= n` before a return
OPERAND_ENDS = (";", "{", "}", ",", "?", ":", "&", "|", "=", "return")  # tokens that end an operand of a comparison
_NAME = re.compile(r"[A-Za-z_]\w*")
_MINIMA = (("min", "("), ("fmin", "("))
_LEAVES = {"return", "continue", "break", "goto", "exit"}


class Comparisons:
    """The comparisons in the body of a kernel that indexes `arrays`; `polynomial` reads the tokens of a side."""

    def __init__(
        self, body: Sequence[str], arrays: set[str], polynomial: Callable[[Sequence[str]], Polynomial]
    ) -> None:
        self._body, self._arrays, self._polynomial = body, arrays, polynomial

    def found(self) -> Iterator[tuple[str, Polynomial, Sequence[str]]]:
        """The comparisons: operator, left side, and tokens of the right side."""
        body = self._body
        for position in range(1, len(body) - 1):
            if body[position : position + 2] == (">", ">") and (bits := self._shifted_out(position)):
                yield ">=", *bits
                continue
            if sign := self._sign(position):
                left, right = _compared(body, position - 1, -1), _compared(body, position + len(sign), 1)
                if left and right and (sign != ">=" or self._leaves(position)):
                    smaller = self._polynomial(left)
                    if sign in BOUNDS and self._is_of_part(sign, left, position):
                        continue
                    if sign == "<" and _is_of_blocks(smaller) and self._has_alternative(position):
                        continue  # blocks beyond do something else
                    yield from ((sign, smaller, each) for each in (_limits(right) if sign in BOUNDS else [right]))

    def _sign(self, position: int) -> str:
        """The operator of a comparison at a position; empty if there is another one: a shift, an arrow, a store."""
        before, word, after = self._body[position - 1 : position + 2]
        sign = word + "=" * (after == "=")
        is_other = after in "<>" or before in "<>-=!+*/%&|^"
        return sign if sign in (*BOUNDS, "<=", ">", "==", "!=") and not is_other else ""

    def limited(self) -> Iterator[Polynomial]:
        """What is less or more than something, except where that only chooses a value, as in `i < n ? a : b`."""
        for position in range(1, len(self._body) - 1):
            sign = self._sign(position)
            if sign and sign[0] in "<>" and not self._chooses(position):
                yield self._polynomial(_compared(self._body, position - 1, -1))
                yield self._polynomial(_compared(self._body, position + len(sign), 1))

    def _chooses(self, position: int) -> bool:
        """Whether a comparison at a position is the condition of a value."""
        body, at = self._body, position
        while at < len(body) and body[at] not in ";{,?":
            if body[at] == ")" and body[at + 1] not in ")?&|":
                return False
            at = (matching(body, at) if body[at] in "([" else at) + 1
        return body[at : at + 1] == ("?",)

    def names_of_several(self) -> list[str]:
        """The names that are less than several limits."""
        body, limits = self._body, dict[str, set[str]]()
        for position, word in enumerate(body):
            is_less = body[position + 1 : position + 2] == ("<",) and body[position + 2] not in "<="
            if _NAME.fullmatch(word) and is_less and not is_member(body, position):
                limit = self._polynomial(_compared(body, position + 2, 1))
                limits.setdefault(word, set()).add(text(bare(limit)))
        return [name for name, each in limits.items() if len(each) > 1]

    def _shifted_out(self, position: int) -> tuple[Polynomial, Sequence[str]] | None:
        """The index and the limit of `if (i >> bits) return;`; None if the shift at a position is no such condition."""
        body = self._body
        left, right = _compared(body, position - 1, -1), _compared(body, position + 2, 1)
        first, last = position - len(left), position + 2 + len(right)
        is_whole = body[first - 2 : first] == ("if", "(") and body[last : last + 1] == (")",)
        if not is_whole or len(right) != 1 or not _NAME.fullmatch(right[0]) or not self._leaves(position):
            return None
        return self._polynomial(left), ("1", "<", "<", *right)

    def _leaves(self, position: int) -> bool:
        """Whether what a condition at a position guards leaves the kernel or a loop, or is an alternative."""
        after, end = self._guarded(position)
        is_if = end > 0  # else a loop's condition, or a value
        return not is_if or not _LEAVES.isdisjoint(self._body[after:end]) or self._has_alternative(position)

    def _has_alternative(self, position: int) -> bool:
        """Whether an `else` follows what a condition at a position guards."""
        _, end = self._guarded(position)
        return end > 0 and self._body[end + 1 : end + 2] == ("else",)

    def _is_of_part(self, sign: str, left: Sequence[str], position: int) -> bool:
        """Whether the comparison of an `if` bounds nothing: another part of its condition may decide, or arrays are
        indexed by what is compared, on the left, also where it is beyond."""
        body, (after, end) = self._body, self._guarded(position)
        if not end:
            return False
        other, at = ("|", "|") if sign == "<" else ("&", "&"), position
        while at > 0 and body[at] != "if":
            if body[at] == "(" and matching(body, at) > position and self._joins(at, other):
                return True
            at -= 1
        if sign == "<":  # then what is beyond is in the `else`
            after = end = end + 1
            while body[end : end + 1] == ("else",):
                end = end_of_statement(body, end + 1)
        pairs = zip(("", *left), left, strict=False)
        names = {word for before, word in pairs if _NAME.fullmatch(word) and before != "."}
        opened = (at + 1 for at in range(after, end) if body[at] in self._arrays and body[at + 1 : at + 2] == ("[",))
        return any(not names.isdisjoint(body[at : matching(body, at)]) for at in opened)

    def _joins(self, opening: int, operator: tuple[str, str]) -> bool:
        """Whether the expression in brackets has an operator, outside of brackets in it."""
        at, end = opening + 1, matching(self._body, opening)
        while at < end:
            if self._body[at : at + 2] == operator:
                return True
            at = (matching(self._body, at) if self._body[at] in "([" else at) + 1
        return False

    def _guarded(self, position: int) -> tuple[int, int]:
        """Where the statements begin and end that the `if` around a position guards; zeros if there is no `if`."""
        body, start = self._body, position
        while start > 0 and body[start] not in (";", "{", "}") and body[start - 1 : start + 1] != ("if", "("):
            start -= 1
        if body[start - 1 : start + 1] != ("if", "("):
            return 0, 0
        after = matching(body, start) + 1
        end = matching(body, after) if body[after : after + 1] == ("{",) else after
        while end < len(body) and body[end] not in (";", "}"):
            end += 1
        return after, end


def _compared(body: Sequence[str], at: int, step: int) -> Sequence[str]:
    """The tokens on one side of a comparison; `step` is -1 for the left and 1 for the right."""
    depth, end = 0, at
    while 0 <= end < len(body):
        word = body[end]
        depth += (word in "([") - (word in ")]") if step > 0 else (word in ")]") - (word in "([")
        if depth < 0 or (depth == 0 and word in OPERAND_ENDS):
            break
        end += step
    return body[at:end] if step > 0 else body[end + 1 : at + 1]


def with_extremes(body: Sequence[str]) -> tuple[str, ...]:
    """The tokens of a function with `min(a, b)` in the place of `a < b ? a : b`, and likewise with `max`."""
    found = [*body]
    while "?" in found:
        before, at = len(found), 0
        while (at := at + 1) < len(found) - 1:
            if found[at] in "<>" and (extreme := _extreme(found, at)) is not None:
                first, words, end = extreme
                found[first:end] = words
        if len(found) == before:
            break
    return tuple(found)


def _extreme(body: Sequence[str], at: int) -> tuple[int, list[str], int] | None:
    """Where the choice of the larger or smaller side of a comparison at a position begins and ends, with what it is;
    None for anything else."""
    right = at + 1 + (body[at + 1] == "=")
    sides = _compared(body, at - 1, -1), _compared(body, right, 1)
    begin, mark = at - len(sides[0]), right + len(sides[1])
    while begin > 0 and (body[begin - 1], *body[mark : mark + 1]) == ("(", ")"):
        begin, mark = begin - 1, mark + 1
    if [*body[mark : mark + 1]] != ["?"]:
        return None
    first = _compared(body, mark + 1, 1)
    colon = mark + 1 + len(first)
    second = _compared(body, colon + 1, 1) if [*body[colon : colon + 1]] == [":"] else ()
    one, other, *chosen = map(_bare, (*sides, first, second))
    is_one = [each == one or (each[:2] in _MINIMA and [*one] in split_arguments(each[2:-1])) for each in chosen]
    last = (*other, "-", "1") if (body[at] == "<") == (right == at + 1) else other  # i < n ? i : n - 1
    is_other = [each in (other, last) for each in chosen]
    if not second or not ((is_one[0] and is_other[1]) or (is_other[0] and is_one[1])):
        return None
    name = "min" if (body[at] == "<") == (is_one[0] and is_other[1]) else "max"
    return begin, [name, "(", *chosen[0], ",", *chosen[1], ")"], colon + 1 + len(second)


def _is_of_blocks(index: Polynomial) -> bool:
    """Whether an index is that of a block alone, without threads."""
    return bare(index).keys() <= {(f"blockIdx.{axis}",) for axis in "xyz"} and bool(bare(index))


def _bare(words: Sequence[str]) -> tuple[str, ...]:
    """An expression without brackets around it."""
    while len(words) > 2 and words[0] == "(" and matching(words, 0) == len(words) - 1:
        words = words[1:-1]
    return tuple(words)


def _limits(words: Sequence[str]) -> Sequence[Sequence[str]]:
    """The upper limits that an expression implies: a and b for min(a, b), else the expression itself."""
    words = _bare(words)
    start = 2 if tuple(words[:2]) == ("std", "::") else 0
    is_call = tuple(words[start : start + 2]) in _MINIMA
    return (
        split_arguments(words[start + 2 : -1]) if is_call and matching(words, start + 1) == len(words) - 1 else [words]
    )


def end_of_statement(body: Sequence[str], at: int) -> int:
    """The position after a statement, which may be a block."""
    while at < len(body) and body[at] not in (";", "{"):
        at = matching(body, at) + 1
    return (matching(body, at) if body[at : at + 1] == ("{",) else at) + 1
