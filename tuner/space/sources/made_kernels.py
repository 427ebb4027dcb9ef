"""Writes out the kernels that macros make, whose names no text has: `SCALE(float, f32)`, `void JOIN(scale_, T)(...)`.

All other macros stay, because they may be parameters. Directives and #undef are not followed.
"""

from __future__ import annotations

import functools
import re
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

    parameters: tuple[str, ...]
    tokens: tuple[str, ...]


class _TooLong(Exception):
    """The text grows beyond MOST_LETTERS, or macros expand without end."""


@functools.lru_cache(maxsize=8)
def written_out(code: str) -> str:
    """`code`, without comments, with the macros expanded that make kernels or join names."""
    if "define" not in code or not (_KERNEL.search(code) and re.search(r"##|\\\n", code)):
        return code
    reader = _Reader(code)
    if not reader.macros:
        return code
    parts, end = list[str](), 0
    try:
        for directive in _DIRECTIVE.finditer(code):
            parts += [reader.expanded(code[end : directive.start()]), directive[0]]
            end = directive.end()
        return "".join([*parts, reader.expanded(code[end:])])
    except _TooLong:
        return code


class _Reader:
    """The macros of a code that make kernels or join names."""

    def __init__(self, code: str) -> None:
        every = _DEFINE.findall(code)
        self._words = {name: text for name, parameters, text in every if not parameters and text.strip().isidentifier()}
        texts = {name: text.replace("\\\n", " ") for name, parameters, text in every if parameters}
        made = {name for name, text in texts.items() if "##" in text or _KERNEL.search(text)}
        while more := {n for n, text in texts.items() if n not in made and made & {*re.findall(r"\w+", text)}}:
            made |= more
        self.macros: Mapping[str, _Macro] = {
            name: _Macro(tuple(re.findall(r"\w+", parameters)), tuple(_TOKEN.findall(texts[name])))
            for name, parameters, _ in every
            if name in made and "..." not in parameters
        }
        self._letters = 0

    def expanded(self, text: str, depth: int = 0) -> str:
        """A text with these macros expanded."""
        tokens, parts, at = _TOKEN.findall(text), list[str](), 0
        self._letters += len(text)
        if depth > MOST_DEPTH or self._letters > MOST_LETTERS:
            raise _TooLong
        while at < len(tokens):
            macro = self.macros.get(tokens[at])
            opening = at + 1 + (at + 2 < len(tokens) and tokens[at + 1].isspace())
            given, last = _arguments(tokens, opening) if macro else ([], 0)
            if macro is None or not last or len(given) != len(macro.parameters):
                parts.append(tokens[at])
                at += 1
            else:
                parts.append(self.expanded(self._called(macro, given, depth), depth + 1))
                at = last + 1
        return "".join(parts)

    def _called(self, macro: _Macro, given: Sequence[str], depth: int) -> str:
        """The text of a macro with these arguments, its parts joined."""
        raw = dict(zip(macro.parameters, (each.strip() for each in given), strict=True))
        whole = {name: self.expanded(self._words.get(each, each), depth + 1) for name, each in raw.items()}
        plain = [token for token in macro.tokens if not token.isspace()]
        places = [at for at, token in enumerate(macro.tokens) if not token.isspace()]
        parts = list(macro.tokens)
        for order, at in enumerate(places):
            token, around = plain[order], {*plain[max(0, order - 1) : order], *plain[order + 1 : order + 2]}
            if token in raw:
                is_text = plain[max(0, order - 1) : order] == ["#"]
                parts[at] = f'"{raw[token]}"' if is_text else raw[token] if "##" in around else whole[token]
        text = re.sub(r"\s*##\s*", "", "".join(parts))
        return re.sub(r'#\s*(?=")', "", text)


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
