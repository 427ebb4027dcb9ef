"""Gives each variable of a function a name of its own: blocks may declare several of one name."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Sequence

from tuner.drafting.knobs.declarations import declarators
from tuner.space.sources.tokens import matching

_NAME = re.compile(r"[A-Za-z_]\w*")
_HEADS = ("for", "if", "while", "switch")
_OTHER = "__of_block_"  # before the number of a declaration


def renamed(body: Sequence[str], taken: Collection[str] = ()) -> tuple[str, ...]:
    """The tokens of a function in which each further variable of a name has another name. The function's parameters,
    `taken`, have their own."""
    declared = _declared(body)
    counts = Counter(body[at] for at in declared) + Counter(taken)
    several = {name for name, count in counts.items() if count > 1}
    if several.isdisjoint(body[at] for at in declared):
        return tuple(body)
    found, seen = list(body), Counter[str](taken)
    scopes: list[tuple[int, dict[str, str]]] = [(len(body), {})]  # each with its end
    for at, word in enumerate(body):
        while at > scopes[-1][0]:
            scopes.pop()
        if word == "{" and at > 0:
            scopes.append((matching(body, at), {}))
        elif word in _HEADS and body[at + 1 : at + 2] == ("(",):
            scopes.append((_end(body, at), {}))
        if word not in several or _is_member(body, at):
            continue
        if at in declared:
            scopes[-1][1][word] = f"{word}{_OTHER}{seen[word]}" if seen[word] else word
            seen[word] += 1
        found[at] = next((names[word] for _, names in reversed(scopes) if word in names), word)
    return tuple(found)


def plain(name: str) -> str:
    """A name as the source has it."""
    return name.partition(_OTHER)[0]


def _declared(body: Sequence[str]) -> set[int]:
    """The positions at which names are declared."""
    found = set[int]()
    for at in range(len(body)):
        before = tuple(body[max(0, at - 2) : at])
        is_in_head = len(before) == 2 and before[1] == "(" and before[0] in _HEADS
        if at == 0 or before[-1] in (";", "{", "}", "else", "do") or is_in_head:
            found.update(declarators(body, at))
    return found


def _is_member(body: Sequence[str], at: int) -> bool:
    return body[max(0, at - 1) : at] == (".",) or body[max(0, at - 2) : at] == ("-", ">")


def _end(body: Sequence[str], at: int) -> int:
    """The position where the statement ends that begins at a position."""
    ifs = list[bool]()  # whether each head around the statement is one of `if`, which may have an `else`
    while True:
        while at < len(body) and body[at] in _HEADS and body[at + 1 : at + 2] == ("(",):
            ifs.append(body[at] == "if")
            at = matching(body, at + 1) + 1
        if body[at : at + 1] == ("{",):
            at = matching(body, at)
        while at < len(body) - 1 and body[at] not in (";", "}"):
            at = (matching(body, at) if body[at] in "([{" else at) + 1
        while ifs and not (ifs[-1] and body[at + 1 : at + 2] == ("else",)):
            ifs.pop()
        if not ifs:
            return at
        ifs.pop()
        at += 2
