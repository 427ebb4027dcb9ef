"""The tokens of a CUDA file, as NVRTC sees it, and the brackets among them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from tuner.classes import dataclass
from tuner.space.sources.source import GUARD

_TOKEN = re.compile(
    r"""(?P<blank>\s+|//(?:[^\\\n]|\\.)*|/\*.*?(?:\*/|\Z)|\\\n)"""
    r"""|(?P<raw>(?:u8|[uUL])?R"(?P<mark>[^()\\\s]{0,16})\(.*?\)(?P=mark)")"""
    r"""|(?P<quoted>"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')"""
    r"""|(?P<word>[A-Za-z_$][\w$]*)|(?P<number>\.?\d(?:[eEpP][+-]|[\w.'])*)|(?P<other>::|->|\S)""",
    re.DOTALL,
)
_DIRECTIVE = re.compile(r"[ \t]*#(?:/\*.*?\*/|[^\n\\]|\\\r?\n|\\.)*", re.DOTALL)
WORDS = re.compile(r"[A-Za-z_]\w*")
_CONDITION = re.compile(r"[ \t]*#[ \t]*(if|ifdef|ifndef|elif|else|endif)\b(.*)", re.DOTALL)
_OPEN, CLOSE = {"(": ")", "[": "]", "{": "}"}, frozenset({")", "]", "}"})


@dataclass(frozen=True)
class Token:
    """A word, a number, a text, a mark, or a directive with all its lines."""

    text: str
    start: int
    end: int
    is_directive: bool = False

    @property
    def is_word(self) -> bool:
        return not self.is_directive and (self.text[0].isalpha() or self.text[0] in "_$")


def tokens(text: str) -> Iterator[Token]:
    """The tokens of a text, without comments and without what NVRTC does not see."""
    at, is_line_start = 0, True
    guards = list[tuple[bool, bool]]()  # for each condition: whether it is on GUARD, and whether its branch is hidden
    is_hidden = False
    while at < len(text):
        match = _DIRECTIVE.match(text, at) if is_line_start else None
        if match is not None:
            was_hidden = is_hidden
            _follow(match[0], guards)
            is_hidden = any(hidden for _, hidden in guards)
            if not (was_hidden and is_hidden):
                yield Token(match[0], match.start(), match.end(), True)
        else:
            match = _TOKEN.match(text, at)
            assert match is not None
            if match["blank"] is None and not is_hidden:
                yield Token(match[0], match.start(), match.end())
        is_blank = match.re is _TOKEN and match["blank"] is not None
        is_line_start = is_blank and (is_line_start or "\n" in match[0])
        at = match.end()


def _follow(directive: str, guards: list[tuple[bool, bool]]) -> None:
    """Keep track of the conditions around a line."""
    match = _CONDITION.match(directive)
    if match is None:
        return
    if match[1] == "endif":
        del guards[-1:]
    elif match[1] == "else":
        guards[-1:] = [(is_guard, is_guard and not hidden) for is_guard, hidden in guards[-1:]]
    elif match[1] == "elif":
        guards[-1:] = [(False, False)]
    else:
        is_absent = match[1] == "ifndef" or re.search(rf"!\s*(defined\W+)?{GUARD}", match[2]) is not None
        guards.append((GUARD in match[2], GUARD in match[2] and is_absent))


def brackets(tokens: Sequence[Token]) -> dict[int, int]:
    """The positions of closing brackets, by those of the opening ones. Each branch of a condition begins with the
    brackets that were open before it."""
    closes, opened, saved = dict[int, int](), list[int](), list[list[int]]()
    for at, token in enumerate(tokens):
        if token.is_directive:
            match = _CONDITION.match(token.text)
            kind = match[1] if match else ""
            if kind.startswith("if"):
                saved.append(list(opened))
            elif kind in ("else", "elif") and saved:
                opened = list(saved[-1])
            elif kind == "endif" and saved:
                saved.pop()
        elif token.text in _OPEN:
            opened.append(at)
        elif token.text in CLOSE:
            while opened and _OPEN[tokens[opened[-1]].text] != token.text:
                opened.pop()
            if opened:
                closes[opened.pop()] = at
    return closes
