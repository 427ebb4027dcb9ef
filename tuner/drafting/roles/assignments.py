"""The assignments on the paths through the body of a kernel, one of which may read what it has not written."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from tuner.space.sources.tokens import matching

_LEAVES = ("return", "break", "continue", "goto")


@dataclass(frozen=True)
class _State:
    """What is known after some statements: whether they surely write the array, whether they leave the path before
    the next statement, and whether they read what no statement before has written."""

    is_written: bool = False
    is_left: bool = False
    is_read: bool = False


@dataclass
class _Reader:
    """Reads the statements of a body whose accesses to one array are the token `store` or `load`."""

    tokens: Sequence[str]
    place: int = field(default=0)

    def block(self, state: _State, end: int) -> _State:
        """The state after the statements before the token `end`."""
        while self.place < end:
            state = self.statement(state, end)
        return state

    def statement(self, state: _State, end: int) -> _State:
        """The state after the next statement."""
        word = self.tokens[self.place]
        if word == "{":
            last = matching(self.tokens, self.place)
            self.place += 1
            state = self.block(state, min(last, end))
            self.place = last + 1
            return state
        if word == "if":
            return self._choice(state, end)
        if word in ("for", "while", "switch"):
            self.place += 1
            state = self._condition(state)
            return replace(self.statement(state, end), is_left=state.is_left) if self.place < end else state
        start = self.place
        while self.place < end and self.tokens[self.place] not in ("{", "}", ";"):
            self.place += 1
        self.place += self.place < end and self.tokens[self.place] != "{"
        state = self._simple(state, start, self.place)
        self.place += self.place == start  # a bracket that closes nothing
        return replace(state, is_left=True) if word in _LEAVES else state

    def _choice(self, state: _State, end: int) -> _State:
        """The state after an `if`. One without `else` counts as taken if it does not leave the path: a second one with
        the same condition may follow it."""
        self.place += 1 + (self.tokens[self.place + 1 : self.place + 2] == ["constexpr"])
        before = self._condition(state)
        taken = self.statement(before, end) if self.place < end else before
        if self.place >= end or self.tokens[self.place] != "else":
            return replace(before, is_read=taken.is_read) if taken.is_left else taken
        self.place += 1
        other = self.statement(before, end) if self.place < end else before
        ways = [way for way in (taken, other) if not way.is_left]
        return _State(all(way.is_written for way in ways) and bool(ways), not ways, taken.is_read or other.is_read)

    def _condition(self, state: _State) -> _State:
        """The state after the condition in brackets."""
        if self.place >= len(self.tokens) or self.tokens[self.place] != "(":
            return state
        last = matching(self.tokens, self.place)
        state = self._simple(state, self.place, last)
        self.place = last + 1
        return state

    def _simple(self, state: _State, start: int, end: int) -> _State:
        words = self.tokens[start:end]
        is_read = state.is_read or (not state.is_written and not state.is_left and "load" in words)
        return replace(state, is_read=is_read, is_written=state.is_written or "store" in words)


def is_read_unwritten(body: str, element: str, parts: str) -> bool:
    """Whether an array may be read on a path that has not written it. Loops count as run at least once.

    body: tokens joined by blanks
    element, parts: patterns of an element of the array, and of what may follow it
    """
    marked = re.sub(rf"{element}{parts}=(?! =)", "store = ", body)
    tokens = re.sub(element, "load ", marked).split()
    return _Reader(tokens).block(_State(), len(tokens)).is_read
