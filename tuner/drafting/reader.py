"""Reads a polynomial from the tokens of an expression, in a scope that says what its names stand for."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Protocol

from tuner.drafting.polynomials import MOST_TERMS, Polynomial, added, atom, is_short, text, times
from tuner.space.sources.prototype import is_type_word
from tuner.space.sources.tokens import matching

_NAME = re.compile(r"[A-Za-z_]\w*")
_NUMBER = re.compile(r"(\d{1,20})[uUlL]*")
POWER = "2 ** "  # before a name: a power of two
_CASTS = ("static_cast", "reinterpret_cast", "const_cast")


class NameValues(Protocol):
    """What names stand for. `remainders` and `quotients` receive dividend and divisor of each."""

    remainders: dict[str, tuple[Polynomial, Polynomial]]
    quotients: dict[str, tuple[Polynomial, Polynomial]]

    def polynomial(self, words: Sequence[str], depth: int) -> Polynomial:
        """The polynomial of an expression in tokens."""

    def named(self, name: str, depth: int) -> Polynomial:
        """The value of a name."""

    def indexed(self, name: str, depth: int) -> Polynomial:
        """The value of an element of an array, such as x[0]."""

    def called(self, function: str, arguments: Sequence[str], depth: int) -> Polynomial | None:
        """The value of a call; None if it is only a text."""


class Reader:
    """Reads a polynomial from tokens; methods return None if an expression is no polynomial."""

    def __init__(self, scope: NameValues, words: Sequence[str], depth: int) -> None:
        self._scope, self._words, self._depth, self.at = scope, words, depth, 0

    def _next(self) -> str:
        return self._words[self.at] if self.at < len(self._words) else ""

    def shifted(self) -> Polynomial | None:
        """A sum, optionally shifted by a literal: multiplied or divided by a power of two."""
        found = self.sum()
        sign, number = self._words[self.at : self.at + 2], self._words[self.at + 2 : self.at + 3]
        if found == {(): 1} and tuple(sign) == ("<", "<") and number and _NAME.fullmatch(number[0]):
            exponent = [*self._scope.named(number[0], self._depth + 1).items()]
            if len(exponent) == 1 and exponent[0][1] == len(exponent[0][0]) == 1:
                self.at += 3
                return atom(f"{POWER}{exponent[0][0][0]}")
        if (
            found is None
            or tuple(sign) not in ((">", ">"), ("<", "<"))
            or not number
            or not _NUMBER.fullmatch(number[0])
        ):
            return found
        self.at += 3
        power = 1 << min(int(number[0].rstrip("uUlL")), 62)
        if sign[0] == "<":
            return times(found, {(): power})
        name = f"({text(found)}) / ({power})"
        self._scope.quotients[name] = found, {(): power}
        return atom(name)

    def sum(self) -> Polynomial | None:
        total = self._product()
        while total is not None and len(total) <= MOST_TERMS and self._next() in ("+", "-"):
            sign = 1 if self._next() == "+" else -1
            self.at += 1
            other = self._product()
            total = None if other is None else added(total, other, sign)
        return total

    def _product(self) -> Polynomial | None:
        found = self._factor()
        while found is not None and self._next() in ("*", "/", "%"):
            operator = self._next()
            self.at += 1
            other = self._factor()
            if other is None or len(found) * len(other) > MOST_TERMS or not (is_short(found) and is_short(other)):
                return None
            if operator == "*":
                found = times(found, other)
                if not is_short(found):
                    return None
                continue
            name = f"({text(found)}) {operator} ({text(other)})"
            if operator == "%":
                self._scope.remainders[name] = found, other
            else:
                self._scope.quotients[name] = found, other
            found = atom(name)
        return found

    def _factor(self) -> Polynomial | None:
        words, sign = self._words, 1
        while self._next() in ("+", "-") or self._is_cast():
            sign = -sign if self._next() == "-" else sign
            self.at = matching(words, self.at) + 1  # matching() of a sign is its own position
        found = self._unsigned()
        return found if found is None or sign == 1 else times(found, {(): -1})

    def _is_cast(self) -> bool:
        """Whether a C-style cast is next."""
        if self._next() != "(":
            return False
        inner = self._words[self.at + 1 : matching(self._words, self.at)]
        return bool(inner) and all(is_type_word(w) or w in ("const", "*") or w.endswith("_t") for w in inner)

    def _unsigned(self) -> Polynomial | None:
        word, words = self._next(), self._words
        self.at += 1
        if number := _NUMBER.fullmatch(word):
            return {(): int(number[1])}
        if word == "(":
            end = matching(words, self.at - 1)
            inner, self.at = words[self.at : end], end + 1
            return self._scope.polynomial(inner, self._depth + 1)
        if not _NAME.fullmatch(word):
            return None
        return self._named(word)

    def _named(self, word: str) -> Polynomial | None:
        words, start = self._words, self.at - 1
        if word in _CASTS and ">" in words[start:]:
            self.at = start + words[start:].index(">") + 1
            return self._factor()
        if word == "sizeof" and self._next() != "(":  # of an expression, as in `sizeof *x`
            end = self.at
            while end < len(words) and words[end] == "*":
                end += 1
            inner, self.at = words[self.at : end + 1], end + 1
            return self._scope.called(word, inner, self._depth + 1) or atom(" ".join(words[start : self.at]))
        while self._next() == ".":
            self.at += 2
        if self._next() == "(" and (is_type_word(word) or word.endswith("_t")):
            return self._unsigned()  # a cast, as in `size_t(row)`
        if self._next() == "(":
            at, end = self.at, matching(words, self.at)
            inner, self.at = words[self.at + 1 : end], end + 1
            return self._scope.called("".join(words[start:at]), inner, self._depth + 1) or atom(
                " ".join(words[start : self.at])
            )
        if self._next() == "[":
            name = word
            while self._next() == "[":
                end = matching(words, self.at)
                index = self._scope.polynomial(words[self.at + 1 : end], self._depth + 1)
                name, self.at = f"{name}[{text(index)}]", end + 1
            return self._scope.indexed(name, self._depth + 1)
        return self._scope.named("".join(words[start : self.at]), self._depth + 1)
