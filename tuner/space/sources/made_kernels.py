"""Writes out the kernels that macros make, whose names no text has: `SCALE(float, f32)`, `void JOIN(scale_, T)(...)`.

All other macros stay, because they may be parameters. Directives and #undef are not followed, so a macro with several
definitions stays, and so does a name that it is joined to.
"""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Mapping, Sequence

from tuner.classes import dataclass

_DEFINE = re.compile(
    r"^[ \t]*#[ \t]*define[ \t]+([A-Za-z_]\w*)(\([^()\n]*\))?(?:[ \t]+((?:[^\n]*\\\n)*[^\n]*))?$", re.MULTILINE
)
_DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*$", re.MULTILINE)
_TOKEN = re.compile(r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|[A-Za-z_]\w*|\d[\w.]*|##|\s+|.', re.DOTALL)
_KERNEL = re.compile(r"\b(?:__global__|__kernel)\b")
MOST_DEPTH, MOST_LETTERS = 12, 1_000_000  # of macros in macros; of the text: beyond, nothing is written out


@dataclass(frozen=True)
class _Macro:
    """The parameters of a macro and the tokens that it stands for."""

    parameters: tuple[str, ...] | None  # None: it is used without parentheses
    tokens: tuple[str, ...]


class _TooLong(Exception):
    """The text grows beyond MOST_LETTERS, or macros expand without end."""


class _IsOpen(Exception):
    """A name is joined to a macro with several definitions."""


def written_out(code: str, build: str = "") -> str:
    """`code`, without comments, with the macros expanded that make kernels or join names.

    build: what one build reads of the code, whose definitions count where there are several
    """
    return _written(code, build)[0]


def has_open_names(code: str) -> bool:
    """Whether a kernel or its name is not written out, because a macro that makes it has several definitions."""
    return _written(code, "")[1]


@functools.lru_cache(maxsize=8)
def _written(code: str, build: str) -> tuple[str, bool]:
    if "define" not in code or not _KERNEL.search(code):
        return code, False
    reader = _Reader(code, build)
    if not reader.made:
        return code, False
    parts, end = list[str](), 0
    try:
        for directive in _DIRECTIVE.finditer(code):
            parts += [reader.expanded(code[end : directive.start()]), directive[0]]
            end = directive.end()
        return "".join([*parts, reader.expanded(code[end:])]), reader.has_open_names
    except _TooLong:
        return code, False


class _Reader:
    """The macros of a code that make kernels or join names, whose names are `made`.

    has_open_names: whether one with several definitions was left as it is
    """

    def __init__(self, code: str, build: str) -> None:
        found, built = _definitions(code), _definitions(build)
        settled = {name for name, _, _ in found & built}
        found = {each for each in found if each in built or each[0] not in settled}
        self._open = {name for name, times in Counter(name for name, _, _ in found).items() if times > 1}
        made = {name for name, parameters, text in found if "##" in text or _makes_kernel(parameters, text)}
        while more := {n for n, _, text in found if n not in made and made & {*re.findall(r"\w+", text)}}:
            made |= more
        known = [each for each in found if each[0] not in self._open]
        self._words = {name: text for name, parameters, text in known if not parameters and text.isidentifier()}
        self._macros: Mapping[str, _Macro] = {
            name: _Macro(tuple(re.findall(r"\w+", parameters)) if parameters else None, tuple(_TOKEN.findall(text)))
            for name, parameters, text in known
            if name in made and "..." not in parameters
        }
        self._looked_at = {*self._macros, *(self._open & made)}
        self.made = made
        self.has_open_names = False
        self._letters = 0

    def expanded(self, text: str, depth: int = 0) -> str:
        """A text with these macros expanded."""
        tokens, parts, at = _TOKEN.findall(text), list[str](), 0
        self._letters += len(text)
        if depth > MOST_DEPTH or self._letters > MOST_LETTERS:
            raise _TooLong
        if self._looked_at.isdisjoint(tokens):
            return text
        while at < len(tokens):
            made, last = self._made(tokens, at, depth) if tokens[at] in self._looked_at else (None, at)
            parts.append(tokens[at] if made is None else made)
            at = last + 1
        return "".join(parts)

    def _made(self, tokens: Sequence[str], at: int, depth: int) -> tuple[str | None, int]:
        """What the macro at a position expands to, None if it stays, and where the macro ends."""
        macro = self._macros.get(tokens[at])
        if macro is None:
            self.has_open_names = True
            return None, at
        given, last = list[str](), at
        if macro.parameters is not None:
            opening = at + 1 + (at + 2 < len(tokens) and tokens[at + 1].isspace())
            given, last = _arguments(tokens, opening)
            given = given if macro.parameters or "".join(given).strip() else []
            if not last or len(given) != len(macro.parameters):
                return None, at
        try:
            return self.expanded(self._called(macro, given, depth), depth + 1), last
        except _IsOpen:
            if depth:
                raise
            self.has_open_names = True
            return None, at

    def _called(self, macro: _Macro, given: Sequence[str], depth: int) -> str:
        """The text of a macro with these arguments, its parts joined."""
        raw = dict(zip(macro.parameters or (), (each.strip() for each in given), strict=True))
        whole = {name: self.expanded(self._meant(each), depth + 1) for name, each in raw.items()}
        plain = [token for token in macro.tokens if not token.isspace()]
        places = [at for at, token in enumerate(macro.tokens) if not token.isspace()]
        parts = list(macro.tokens)
        for order, at in enumerate(places):
            token, around = plain[order], {*plain[max(0, order - 1) : order], *plain[order + 1 : order + 2]}
            if "##" in around and raw.get(token, token) in self._open:
                raise _IsOpen
            if token in raw:
                is_text = plain[max(0, order - 1) : order] == ["#"]
                parts[at] = f'"{raw[token]}"' if is_text else raw[token] if "##" in around else whole[token]
        text = re.sub(r"\s*##\s*", "", "".join(parts))
        return re.sub(r'#\s*(?=")', "", text)

    def _meant(self, word: str) -> str:
        """The word that a macro stands for, perhaps by way of others."""
        passed = set[str]()
        while word in self._words and word not in passed:
            passed.add(word)
            word = self._words[word]
        return word


def _definitions(code: str) -> set[tuple[str, str, str]]:
    """The name, the parameters with their parentheses, and the text of each definition of a macro."""
    return {(name, parameters, text.replace("\\\n", " ").strip()) for name, parameters, text in _DEFINE.findall(code)}


def _makes_kernel(parameters: str, text: str) -> bool:
    """Whether a macro stands for a kernel, or for its head with its name; not for its first words alone."""
    return _KERNEL.search(text) is not None and ("{" in text or ("void" in text and parameters != ""))


def _arguments(tokens: Sequence[str], opening: int) -> tuple[list[str], int]:
    """The arguments in the parentheses that open at a position, and where these close; 0 if they do not."""
    if tokens[opening : opening + 1] != ["("]:
        return [], 0
    depth, parts = 0, [""]
    for at in range(opening, len(tokens)):
        depth += (tokens[at] in "([{") - (tokens[at] in ")]}")
        if depth == 0:
            return parts, at
        if tokens[at] == "," and depth == 1:
            parts.append("")
        elif at > opening:
            parts[-1] += tokens[at]
    return [], 0
