"""The assignments on the paths through the body of a kernel, one of which may read what it has not written, or leave
elements as they are because of what others hold."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tuner.space.sources.tokens import matching

_LEAVES = ("return", "break", "continue", "goto")
_OF_LOOPS = {"break", "continue"}
_ELEMENT = r"(?<!\. )\b({0}) \[(?! 0 \])[^\[\]]*(?:\[[^\[\]]*\][^\[\]]*)*\]"
_OPERATORS = "-+*/%|&^<>"  # before the sign of a compound assignment


@dataclass(frozen=True)
class _State:
    """What is known after some statements.

    is_written: they surely write the array.
    left: the word by which they leave the path before the next statement, such as `return`; empty if they do not.
    is_read: they read what no statement before has written.
    returns, skips: the arrays whose elements decide whether the next statements run, and whether those of this loop
        do; empty if they surely do.
    decides: the array whose elements decide whether some statement writes; empty if none does.
    """

    is_written: bool = False
    left: str = ""
    is_read: bool = False
    returns: str = ""
    skips: str = ""
    decides: str = ""


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
            return self._repeated(state, end)
        start = self.place
        while self.place < end and self.tokens[self.place] not in ("{", "}", ";"):
            self.place += 1
        self.place += self.place < end and self.tokens[self.place] != "{"
        state = self._simple(state, start, self.place)
        self.place += self.place == start  # a bracket that closes nothing
        return replace(state, left=word) if word in _LEAVES else state

    def _repeated(self, state: _State, end: int) -> _State:
        """The state after a loop or a `switch`. If elements decide how often a loop runs, or which case does, they
        decide what is written, unless all cases write and one is the `default`."""
        word, start = self.tokens[self.place], self.place + 1
        self.place = start
        before = self._condition(state)
        array, opening = self._array_since(start), self.place
        after = self.statement(before, end) if self.place < end else before
        if array and after.is_written and not before.is_written and not (word == "switch" and self._all_write(opening)):
            after = replace(after, is_written=False, decides=array)
        return replace(after, left=state.left, skips=state.skips)

    def _all_write(self, opening: int) -> bool:
        """Whether all cases of the block at a token write, and one is the `default`."""
        last, at, starts, ends = matching(self.tokens, opening), opening + 1, list[int](), list[int]()
        has_default = False
        while at < last:
            word = self.tokens[at]
            if word in ("case", "default"):
                has_default |= word == "default"
                starts.append(at := self.tokens.index(":", at))
            elif word in _LEAVES:
                ends.append(at)
            is_inner = word in "([" or (word == "{" and self.tokens[at - 1] != ":")  # `case 1: { ... break; }`
            at = (matching(self.tokens, at) if is_inner else at) + 1
        cases = (range(start, next((end for end in ends if end > start), last)) for start in starts)
        return has_default and all(_Reader(self.tokens, c.start + 1).block(_State(), c.stop).is_written for c in cases)

    def _array_since(self, start: int) -> str:
        """The first array of which there is an element between a token and the present one; empty if none."""
        return next((word[1:] for word in self.tokens[start : self.place] if word[0] == "@"), "")

    def _choice(self, state: _State, end: int) -> _State:
        """The state after an `if`. One without `else` counts as taken if it does not leave the path: a second one with
        the same condition may follow it. If elements decide, it may not be taken."""
        start = self.place = self.place + 1 + (self.tokens[self.place + 1 : self.place + 2] == ["constexpr"])
        before = self._condition(state)
        array = self._array_since(start)
        taken = self.statement(before, end) if self.place < end else before
        other = before
        if has_other := self.place < end and self.tokens[self.place] == "else":
            self.place += 1
            other = self.statement(before, end) if self.place < end else before
        is_read = taken.is_read or other.is_read
        if not has_other and not array:
            return replace(before, is_read=is_read, decides=taken.decides) if taken.left else taken
        ways = [way for way in (taken, other) if not way.left]
        if array and taken.is_written != other.is_written:
            taken = replace(taken, decides=array)
        leaving = [way.left for way in (taken, other) if array and way.left and not way.is_written]
        return _State(
            bool(ways) and all(way.is_written for way in ways),
            "" if ways else taken.left,
            is_read,
            array if {*leaving} - _OF_LOOPS else taken.returns or other.returns,
            array if {*leaving} & _OF_LOOPS else taken.skips or other.skips,
            taken.decides or other.decides,
        )

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
        is_read = state.is_read or (not state.is_written and not state.left and "load" in words)
        if "store" not in words or state.is_written:
            return replace(state, is_read=is_read)
        array = state.returns or state.skips
        return replace(state, is_read=is_read, is_written=not array, decides=array or state.decides)


def is_read_unwritten(body: str, element: str, parts: str) -> bool:
    """Whether an array may be read on a path that has not written it. Loops count as run at least once.

    body: tokens joined by blanks
    element, parts: patterns of an element of the array, and of what may follow it
    """
    marked = re.sub(rf"{element}{parts}=(?! =)", "store = ", body)
    tokens = re.sub(element, "load ", marked).split()
    return _Reader(tokens).block(_State(), len(tokens)).is_read


def decides(element: str, parts: str, body: str, names: Mapping[str, str]) -> str:
    """The array whose elements decide which elements of another array are written; empty if there is none.

    element, parts: as those of `is_read_unwritten`
    names: the arrays that a kernel reads, by their names and aliases
    """
    pattern = re.compile(_ELEMENT.format("|".join(map(re.escape, sorted(names)))))
    marked = pattern.sub(lambda match: f"@{names[match[1]]}", re.sub(rf"{element}{parts}=(?! =)", "store = ", body))
    tokens, computed = marked.split(), dict[str, str]()
    assigned = [(name, value) for name, value in _assigned(tokens) if name not in names]
    while more := {n: a for n, words in assigned if n not in computed and (a := _array_in(words, computed))}:
        computed |= more
    words = [f"@{computed[w]}" if w in computed and tokens[at - 1] != "." else w for at, w in enumerate(tokens)]
    state = _Reader(words).block(_State(), len(words))
    return "" if state.is_written else state.decides


def _array_in(words: Sequence[str], computed: Mapping[str, str]) -> str:
    """The first array of which an expression has an element, or a variable that is computed from one."""
    every = (w[1:] if w[0] == "@" else computed.get(w, "") for at, w in enumerate(words) if words[at - 1 : at] != ["."])
    return next(filter(None, every), "")


def _assigned(tokens: Sequence[str]) -> Iterator[tuple[str, Sequence[str]]]:
    """The local variables to which the tokens of a body assign, each with an expression."""
    for at in range(1, len(tokens) - 1):
        before = tokens[at - 1]
        is_compared = before in "=!" or (before in "<>" and tokens[at - 2] != before)
        if tokens[at] != "=" or tokens[at + 1] == "=" or is_compared:
            continue
        first = at - 1 - (before in _OPERATORS) - (before in "<>")
        while tokens[first] == "]":
            first = next(i for i in range(first, -1, -1) if tokens[i] == "[" and matching(tokens, i) == first) - 1
        while first > 1 and tokens[first - 1] == ".":
            first -= 2
        end = at + 1
        while end < len(tokens) and tokens[end] not in ";,)}":
            end = (matching(tokens, end) if tokens[end] in "([{" else end) + 1
        if tokens[first] != "store":
            yield tokens[first], tokens[at + 1 : end]
