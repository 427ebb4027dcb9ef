"""Finds the loops of host code around a launch, and says them as `repeat:` and `while:` do."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from tuner.classes import dataclass
from tuner.drafting.expansion import split_arguments
from tuner.drafting.host.program import HostFunction, HostProgram
from tuner.drafting.host.uses import spelled
from tuner.space.sources import tokens
from tuner.space.sources.tokens import matching

MOST_CALLERS = 3
_NAME = re.compile(r"[A-Za-z_]\w*")


@dataclass(frozen=True)
class HostLoop:
    """A loop: its function, the tokens of its header, and where its body begins and ends."""

    function: HostFunction
    word: str
    header: tuple[str, ...]
    first: int
    last: int

    def __str__(self) -> str:
        return f"{self.word} ({spelled(self.header)})"

    @property
    def body(self) -> tuple[str, ...]:
        """The tokens of its body."""
        return self.function.body[self.first : self.last]

    @property
    def variable(self) -> str:
        """The variable that a `for` counts; empty for any other loop."""
        start = self._parts[0] if self.word == "for" and len(self._parts) == 3 else ()
        return start[start.index("=") - 1] if "=" in start[1:] else ""

    @property
    def _parts(self) -> list[tuple[str, ...]]:
        parts = [list[str]()]
        for word in self.header:
            parts.append([]) if word == ";" else parts[-1].append(word)
        return [*map(tuple, parts)]

    def values(self) -> tuple[str, str]:
        """The number of passes and the values of the variable, as expressions; empty if the header is another."""
        if not (name := self.variable):
            return "", ""
        (start, *_), (until, *_), changes = map(split_arguments, self._parts)
        change = next((each for each in changes if name in each), [])
        first, step = " ".join(start[start.index("=") + 1 :]), "".join(change)
        limit = re.fullmatch(rf"{name} (< =|> =|! =|<|>) (.+)", " ".join(until))
        if limit is None:
            return "", ""
        sign, first, last = limit[1].replace(" ", ""), _unwrapped(first), _unwrapped(limit[2])
        if re.fullmatch(rf"{name}\+\+|\+\+{name}|{name}\+=\w+", step) and sign in ("<", "<=", "!="):
            by = step.rpartition("=")[2] if "=" in step else "1"
            return _counted(first, last, sign == "<=", by)
        if re.fullmatch(rf"{name}--|--{name}", step) and sign in (">", ">="):
            low = last if sign == ">=" else _plus(last, 1)
            return _count(low, first), f"{{from: {first}, to: {low}, step: -1}}"
        if step in (f"{name}*=2", f"{name}<<=1", f"{name}={name}*2", f"{name}={name}<<1") and sign in ("<", "<="):
            return "", f"{{powers_of_two: [{first}, {last if sign == '<=' else _plus(last, -1)}]}}"
        if step in (f"{name}/=2", f"{name}>>=1", f"{name}={name}/2", f"{name}={name}>>1"):
            low = last if sign == ">=" else _plus(last, 1)
            return "", f"{{halving: [{first}, {low}]}}"
        return "", ""

    def swaps(self) -> Iterator[tuple[str, str]]:
        """The pairs of variables, of members such as `g.now`, or of elements such as `d[t & 1]`, that its body
        exchanges."""
        body = re.sub(r" (?:\.|- >) (?=\w)", ".", " ".join(self.body))
        for one, other in re.findall(r"\bswap \( ([\w.]+) , ([\w.]+) \)", body):
            yield one, other
        for _, one, other in re.findall(r"\b(\w+) = ([\w.]+) ; \2 = ([\w.]+) ; \3 = \1 ;", body):
            yield one, other
        yield from self._alternating()

    def _alternating(self) -> Iterator[tuple[str, str]]:
        """The pairs of elements of an array that change places in each pass, as `d[t & 1]` and `d[1 - (t & 1)]` do."""
        found, body = dict[str, dict[str, tuple[str, int]]](), self.body
        for at in (at for at, word in enumerate(body) if word == "[" and _NAME.fullmatch(body[at - 1])):
            index = body[at + 1 : matching(body, at)]
            if (parity := self._parity(index)) is not None:
                found.setdefault(body[at - 1], {})["".join((body[at - 1], "[", *index, "]"))] = parity
        for elements in found.values():
            if len(elements) == 2 and len({base for base, _ in elements.values()}) == 1 == sum(
                is_odd for _, is_odd in elements.values()
            ):
                first, second = elements
                yield first, second

    def _parity(self, words: Sequence[str], depth: int = 0) -> tuple[str, int] | None:
        """A variable that is even in every other pass, and 1 if an index of two elements is its opposite; None for any
        other index."""
        text = _unwrapped(" ".join(words))
        if depth > MOST_CALLERS or not text:
            return None
        if opposite := re.fullmatch(r"(?:1 - (?=\w+(?: % 2)?$|\()|! (?=\w+$|\()|1 \^ )(.+)|(.+) \^ 1", text):
            inner = self._parity(tokens.words(opposite[1] or opposite[2]), depth + 1)
            return inner and (inner[0], 1 - inner[1])
        if counted := re.fullmatch(r"\(? ?(\w+)(?: \+ (\d+))? ?\)? (?:& 1|% 2)", text):
            is_step = re.search(rf"\b{counted[1]} \+ \+|\+ \+ {counted[1]}\b", self._text)
            return (f"{counted[1]} % 2", int(counted[2] or 0) % 2) if is_step else None
        if re.search(rf"\b{text} \^ = 1\b|\b{text} = (?:1 - {text}|! {text}|{text} \^ 1)(?= [;,)]|$)", self._text):
            return text, 0
        assigned = [each for each in self.function.assignments.get(text, ()) if self.first <= each.position < self.last]
        return self._parity(assigned[0].words, depth + 1) if len(assigned) == 1 else None

    @property
    def _text(self) -> str:
        return " ".join((*self.header, ";", *self.body))

    def sets_members(self, name: str) -> bool:
        """Whether its body assigns to a member of a variable."""
        assigns = rf"\b{re.escape(name)} (?:\.|- >) [\w. ]*(?:\[[^\[\]]*\] )?(?:=(?! =)|[-+*/] =|\+ \+|- -)"
        return re.search(assigns, " ".join(self.body)) is not None

    def restored(self) -> set[str]:
        """The variables of the device that its body clears or copies to."""
        return {*re.findall(r"\b\w*(?:Memset|Memcpy|memset|memcpy)\w* \( (\w+) ,", " ".join(self.body))}

    def allocated(self) -> set[str]:
        """The variables of the device that its body allocates."""
        text = " ".join(self.body)
        made = re.findall(r"\b(?:cuda|hip)Malloc\w* (?:< .{1,40}? > )?\( (?:\( [^()]*\) )?& (\w+)\b", text)
        return {*made, *re.findall(r"\b(\w+) = clCreateBuffer\b", text)}

    def flag(self) -> str:
        """The variable of the device that its body copies to the only variable of the header; empty if none is."""
        names = [word for word in self.header if _NAME.fullmatch(word) and word not in ("true", "false")]
        if len(names) != 1:
            return ""
        copied = re.search(rf"\b\w*Memcpy\w* \( & {names[0]} , (\w+) ", " ".join(self.body))
        return copied[1] if copied else ""


def loops(program: HostProgram, function: HostFunction, position: int, depth: int = 0) -> list[HostLoop]:
    """The loops around a position of a function and, if only one call leads there, around that; the outermost first."""
    own = [loop for loop in _loops(function) if loop.first <= position < loop.last]
    callers = list(program.callers(function)) if depth < MOST_CALLERS else []
    if len(callers) != 1 or not function.name:
        return own
    return [*loops(program, callers[0][0], callers[0][1], depth + 1), *own]


def _loops(function: HostFunction) -> Iterator[HostLoop]:
    body = function.body
    for at, word in enumerate(body):
        if word in ("for", "while") and body[at + 1 : at + 2] == ("(",):
            end = matching(body, at + 1)
            if ":" in body[at + 2 : end] or body[end + 1 : end + 2] == (";",):  # over a container; the end of a `do`
                continue
            yield HostLoop(function, word, tuple(body[at + 2 : end]), end + 1, _end(body, end + 1))
        elif word == "do" and body[at + 1 : at + 2] == ("{",):
            last = matching(body, at + 1)
            if body[last + 1 : last + 3] == ("while", "("):
                header = tuple(body[last + 3 : matching(body, last + 2)])
                if header not in (("0",), ("false",)):  # `do { } while (0)` is how macros make a statement
                    yield HostLoop(function, "while", header, at + 1, last)


def _end(body: Sequence[str], start: int) -> int:
    """The end of the statement or block at a position."""
    at = start
    if body[at : at + 1] == ("{",):
        return matching(body, at) + 1
    while at < len(body) and body[at] != ";":
        at = (matching(body, at) if body[at] in "([{" else at) + 1
        if body[at - 1 : at] == ("}",):
            return at
    return at + 1


def _counted(first: str, last: str, is_whole: bool, by: str) -> tuple[str, str]:
    end = last if is_whole else _plus(last, -1)
    step = "" if by == "1" else f", step: {by}"
    count = _count(first, end)
    return count if by == "1" else f"ceil_div({count}, {by})", f"{{from: {first}, to: {end}{step}}}"


def _count(first: str, last: str) -> str:
    """How many whole numbers there are between two, both included."""
    if first.isdecimal():
        return _plus(last, 1 - int(first))
    return f"{_plus(last, 1)} - {_bracketed(first)}"


def _plus(text: str, number: int) -> str:
    """A sum with a number that may be negative, without needless terms."""
    match = re.fullmatch(r"(.*) ([-+]) (\d+)", text)
    base = match[1] if match else "" if text.isdecimal() else text
    total = number + (int(f"{match[2]}{match[3]}") if match else int(text) if text.isdecimal() else 0)
    if not base:
        return str(total)
    return f"{base} {'+' if total > 0 else '-'} {abs(total)}" if total else base


def _unwrapped(text: str) -> str:
    """An expression without brackets around it, as somebody writes it."""
    words = text.split()
    while len(words) > 2 and words[0] == "(" and matching(words, 0) == len(words) - 1:
        words = words[1:-1]
    return re.sub(r"(?<=\() | (?=\))", "", " ".join(words))


def _bracketed(text: str) -> str:
    return text if re.fullmatch(r"\w+", text) else f"({text})"


def named(text: str, names: Mapping[str, str]) -> str:
    """An expression of host code with the names and the divisions of a draft."""
    text = re.sub(r" / | > > 1$", lambda sign: " // 2" if ">" in sign[0] else " // ", text)
    return _NAME.sub(lambda name: names.get(name[0], name[0]), text)
