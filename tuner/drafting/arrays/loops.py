"""Finds the tokens of a function that run several times: conditions, steps and bodies of loops."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tuner.space.sources.tokens import matching

_COUNTS = re.compile(r"(?:\w+ )*(\w+) = 0 (?:, [^;]*)?; \1 < (?!=)[^;&|]* ; (?:[^;]* , )?(?:\1 \+ \+|\+ \+ \1)(?: ,|$)")
_LEAVES = {"break", "return", "goto"}
_WITH_CONDITION = ("for", "while", "if", "switch")


def repeated(body: Sequence[str]) -> list[bool]:
    """For each token, whether it is in a loop; the first part of a `for` is not."""
    found = [False] * len(body)
    for at, word in enumerate(body):
        if word == "do":
            first, end = at, _end(body, at + 1)
        elif word in ("for", "while") and tuple(body[at + 1 : at + 2]) == ("(",):
            first, end = at, _end(body, at)
            if word == "for" and ";" in body[at:end]:
                first = at + body[at:end].index(";")
        else:
            continue
        found[first : end + 1] = [True] * (min(end + 1, len(body)) - first)
    return found


def counter(body: Sequence[str], at: int) -> str:
    """The variable that the innermost loop around a position counts from 0 by 1 to a limit, if nothing else ends it."""
    for first in range(at, -1, -1):
        end = _end(body, first) if body[first] in ("for", "while", "do") else 0
        if end < at:
            continue
        head = body[first + 2 : matching(body, first + 1)] if body[first] == "for" else ()
        match = _COUNTS.match(" ".join(head))
        return match[1] if match and _LEAVES.isdisjoint(body[first:end]) else ""
    return ""


def _end(body: Sequence[str], at: int) -> int:
    """The last token of the statement that begins at a position."""
    while at < len(body) and body[at] in _WITH_CONDITION and tuple(body[at + 1 : at + 2]) == ("(",):
        at = matching(body, at + 1) + 1
    if tuple(body[at : at + 1]) == ("{",):
        return matching(body, at)
    return next((i for i in range(at, len(body)) if body[i] in (";", "}")), len(body) - 1)
