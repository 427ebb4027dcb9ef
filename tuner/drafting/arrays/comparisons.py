"""Reads the comparisons in a kernel's tokens, without those that bound no index."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from tuner.drafting.arrays.local_names import is_member
from tuner.drafting.polynomials import Polynomial, bare, text
from tuner.space.sources.tokens import matching

BOUNDS = ("<", ">=")  # `i < n`, and `i >= n` before a return
OPERAND_ENDS = (";", "{", "}", ",", "?", ":", "&", "|", "=", "return")  # tokens that end an operand of a comparison
_NAME = re.compile(r"[A-Za-z_]\w*")
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
            sign = body[position] + ("=" if body[position + 1] == "=" else "")
            is_other = body[position + 1] in "<>" or body[position - 1] in "<>-=!+*/%&|^"  # a shift, an arrow, a store
            if sign in (*BOUNDS, "<=", ">", "==", "!=") and not is_other:
                left, right = self._compared(position - 1, -1), self._compared(position + len(sign), 1)
                if self._chooses(left, right, position + len(sign) + len(right)):
                    continue
                if left and right and (sign != ">=" or self._leaves(position)):
                    smaller = self._polynomial(left)
                    if sign in BOUNDS and self._is_of_part(sign, left, position):
                        continue
                    if sign == "<" and _is_of_blocks(smaller) and self._has_alternative(position):
                        continue  # blocks beyond do something else
                    yield from ((sign, smaller, each) for each in (_limits(right) if sign in BOUNDS else [right]))

    def names_of_several(self) -> list[str]:
        """The names that are less than several limits."""
        body, limits = self._body, dict[str, set[str]]()
        for position, word in enumerate(body):
            is_less = body[position + 1 : position + 2] == ("<",) and body[position + 2] not in "<="
            if _NAME.fullmatch(word) and is_less and not is_member(body, position):
                limit = self._polynomial(self._compared(position + 2, 1))
                limits.setdefault(word, set()).add(text(bare(limit)))
        return [name for name, each in limits.items() if len(each) > 1]

    def _shifted_out(self, position: int) -> tuple[Polynomial, Sequence[str]] | None:
        """The index and the limit of `if (i >> bits) return;`; None if the shift at a position is no such condition."""
        body = self._body
        left, right = self._compared(position - 1, -1), self._compared(position + 2, 1)
        first, last = position - len(left), position + 2 + len(right)
        is_whole = body[first - 2 : first] == ("if", "(") and body[last : last + 1] == (")",)
        if not is_whole or len(right) != 1 or not _NAME.fullmatch(right[0]) or not self._leaves(position):
            return None
        return self._polynomial(left), ("1", "<", "<", *right)

    def _chooses(self, left: Sequence[str], right: Sequence[str], at: int) -> bool:
        """Whether a comparison that ends at `at` chooses the larger or smaller one of its sides: `a > b ? a : b`."""
        while self._body[at : at + 1] == (")",):
            at += 1
        first = self._compared(at + 1, 1) if self._body[at : at + 1] == ("?",) else ()
        colon = at + 1 + len(first)
        second = self._compared(colon + 1, 1) if first and self._body[colon : colon + 1] == (":",) else ()
        return bool(second) and {*map(_bare, (first, second))} == {*map(_bare, (left, right))}

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

    def _compared(self, at: int, step: int) -> Sequence[str]:
        """The tokens on one side of a comparison; `step` is -1 for the left and 1 for the right."""
        body, depth, end = self._body, 0, at
        while 0 <= end < len(body):
            word = body[end]
            depth += (word in "([") - (word in ")]") if step > 0 else (word in ")]") - (word in "([")
            if depth < 0 or (depth == 0 and word in OPERAND_ENDS):
                break
            end += step
        return body[at:end] if step > 0 else body[end + 1 : at + 1]


def _is_of_blocks(index: Polynomial) -> bool:
    """Whether an index is that of a block alone, without threads."""
    return bare(index).keys() <= {(f"blockIdx.{axis}",) for axis in "xyz"} and bool(bare(index))


def _bare(words: Sequence[str]) -> tuple[str, ...]:
    """An expression without brackets around it."""
    while len(words) > 2 and words[0] == "(" and matching(words, 0) == len(words) - 1:
        words = words[1:-1]
    return tuple(words)


def _limits(words: Sequence[str]) -> list[Sequence[str]]:
    """The upper limits that an expression implies: a and b for min(a, b), else the expression itself."""
    words = _bare(words)
    start = 2 if tuple(words[:2]) == ("std", "::") else 0
    if tuple(words[start : start + 2]) != ("min", "(") or matching(words, start + 1) != len(words) - 1:
        return [words]
    parts, depth = [list[str]()], 0
    for word in words[start + 2 : -1]:
        depth += (word in "([{") - (word in ")]}")
        parts.append([]) if word == "," and not depth else parts[-1].append(word)
    return [*parts]


def end_of_statement(body: Sequence[str], at: int) -> int:
    """The position after a statement, which may be a block."""
    while at < len(body) and body[at] not in (";", "{"):
        at = matching(body, at) + 1
    return (matching(body, at) if body[at : at + 1] == ("{",) else at) + 1
