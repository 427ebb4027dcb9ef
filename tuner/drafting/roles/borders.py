"""Tells which arrays keep elements at a border, or beside a part: no store reaches the first index of an axis."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

from tuner.drafting.polynomials import Polynomial
from tuner.space.sources.tokens import matching

_FIRST = r"\b(\w+) (?:< [1-9A-Z]\w*|< = 0|= = 0)(?= (?:\| \||\)|$))"
_OTHERS = r"\b(\w+) (?:> 0|> = [1-9A-Z]\w*)(?= (?:& &|\)|$))"
_TURNED = re.compile(r"(?<![\w*/%+-] )\b(\d\w*|[A-Z][A-Z0-9_]*) ([<>]) (= )?([A-Za-z_]\w*)(?= (?:& &|\| \||\)|$))")
_SECOND = re.compile(r"(?:\w+ )*(\w+) = [1-9A-Z]\w* ;.* (?:\1 \+ [+=]|\+ \+ \1)")
_SHIFTED = re.compile(r"\b(\w+) = [^;,]*(?:threadIdx \. \w|get_global_id \( \d \)) \+ (?:[1-9]\d*|[A-Z]\w*)(?= [;,])")
_LESS = re.compile(r"(\w+) (?:\) )*- (?=(?:\( )*(\w+))")
_LEAVES = re.compile(r"(?:{ )?(?:return|continue)\b")


def is_kept(name: str, body: str, scalars: Collection[str]) -> bool:
    """Whether all stores to an array are where threads with the first indices do not come, as behind
    `if (x < 1 || y < 1) return;` and in `if (x > 0 && y > 0)`, or in a loop that begins behind the first element, or
    where threads do; an index from which something is subtracted, as in `y[i - 1]` and `y[n - i]`, tells nothing."""
    words, indices = body.split(), list[tuple[int, set[str]]]()
    for at, word in enumerate(words):
        if word == name and words[at - 1] != "." and words[at + 1 : at + 2] == ["["]:
            end = matching(words, at + 1)
            if words[end + 1 : end + 2] == ["="] and words[end + 2 : end + 3] != ["="]:
                indices.append((at, _origins(" ".join(words[at + 2 : end]), body)))
    guards = [(names - {*scalars}, first, end) for names, first, end in _guards(words)]
    shifted = {*_SHIFTED.findall(body)}
    return bool(indices) and all(
        any(first <= at < end and not names.isdisjoint(read) for names, first, end in guards)
        or not shifted.isdisjoint(read)
        for at, read in indices
    )


def is_behind(index: Polynomial, scalars: Collection[str]) -> bool:
    """Whether an index begins behind the first element, as in `y[first + i]` and `y[plane * rows * n + i]`."""
    has_scalar = any(product and {*product} <= {*scalars} for product in index)
    return has_scalar and len(index) > 1 and all(factor > 0 for product, factor in index.items() if product)


def _origins(index: str, body: str) -> set[str]:
    """The names to which an index adds, and those from which these are computed by way of local variables."""
    assigned, names, texts = re.findall(r"\b(\w+) = (?!=)([^;,]*)", body), set[str](), [index]
    while more := {word for text in texts for word in text.split()} - names:
        names |= more
        texts = [index, *(text for name, text in assigned if name in names)]
    less = {name for text in texts for pair in _LESS.findall(text) for name in pair}
    return {*filter(str.isidentifier, names)} - less


def _guards(words: list[str]) -> Iterator[tuple[set[str], int, int]]:
    """The names that are not at the first index between two positions."""
    blocks = list[int]()
    for at, word in enumerate(words):
        if word in "{}":
            blocks = [*blocks, at] if word == "{" else blocks[:-1]
        if word not in ("if", "for") or words[at + 1 : at + 2] != ["("]:
            continue
        opening = matching(words, at + 1) + 1
        head = _TURNED.sub(_turned, " ".join(words[at + 2 : opening]))
        end = end_of(words, opening)
        if word == "for":
            yield ({match[1]} if (match := _SECOND.match(head)) else set(), opening, end)
        elif _LEAVES.match(" ".join(words[opening : opening + 2])):
            around = matching(words, blocks[-1]) if blocks else len(words)
            yield {*re.findall(_FIRST, head)} if "& &" not in head else set(), end, around
        elif words[end : end + 1] != ["else"]:
            yield {*re.findall(_OTHERS, head)} if "| |" not in head else set(), opening, end


def _turned(match: re.Match[str]) -> str:
    """A comparison of a number with a name, with the name on the left."""
    return f"{match[4]} {'<>'[match[2] == '<']} {match[3] or ''}{match[1]}"


def end_of(words: list[str], at: int) -> int:
    """The position after the statement at a position, with the statements of loops and conditions before it."""
    while at < len(words) and words[at] in ("if", "for", "while"):
        at = matching(words, at + 1) + 1
    while at < len(words) and words[at] not in (";", "{"):
        at = matching(words, at) + 1
    return (matching(words, at) if words[at : at + 1] == ["{"] else at) + 1
