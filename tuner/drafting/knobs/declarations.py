"""Finds the declarations in a function's tokens. There is no C parser: what may be a declaration counts as one."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from tuner.space.sources.prototype import is_type_word
from tuner.space.sources.tokens import matching

_IDENTIFIER = re.compile(r"[A-Za-z_]\w*")
NO_TYPE = {
    "return", "else", "do", "goto", "case", "delete", "throw", "new", "sizeof", "default", "break", "continue", "and",
    "or", "not", "if", "for", "while",
}  # fmt: skip
QUALIFIERS = {
    "const", "static", "volatile", "constexpr", "register", "extern", "inline", "struct", "union", "enum", "class",
    "typename", "auto",
}  # fmt: skip


def declarators(body: Sequence[str], position: int) -> Iterator[int]:
    """The positions of the names that the declaration declares that begins at a position, if one does."""
    first = _after_type(body, position)
    if first is None:
        return
    end = statement_end(body, first)
    part: list[int] = []
    is_open = True  # until an initializer begins
    while first < end:
        word = body[first]
        if word == ",":
            yield from part[-1:]
            part, is_open = [], True
        elif word in "=[({":
            is_open, first = False, first if word == "=" else matching(body, first)
        elif is_open and _IDENTIFIER.fullmatch(word):
            part.append(first)
        first += 1
    yield from part[-1:]


def _after_type(body: Sequence[str], position: int) -> int | None:
    """The position of the first declared name after a type; None if no declaration begins at `position`."""
    typed = is_auto = False
    while position < len(body):
        word = body[position]
        if not typed and _is_type_of_compiler(body, position):
            typed, position = True, position + 1
        elif word in QUALIFIERS or word.startswith("__") or word == "alignas" or (typed and word in "*&"):
            is_auto |= word == "auto"
            typed |= is_auto
            position += 1
            if position < len(body) and body[position] == "(" and not typed:  # __align__(16)
                position = matching(body, position) + 1
        elif is_type_word(word):
            typed, position = True, position + 1
        elif is_auto and word == "[":  # auto [a, b]
            return position + 1
        elif not _IDENTIFIER.fullmatch(word) or word in NO_TYPE:
            return None
        elif typed:
            return position if body[position + 1 : position + 2] and body[position + 1] in "=;,[({:)" else None
        else:
            typed, position = True, after_name(body, position)
    return None


def _is_type_of_compiler(body: Sequence[str], position: int) -> bool:
    """Whether a word that begins with `__` is a type, as in `__half2 *p` and `__half x = 0`: unlike after
    `__shared__`, no type follows it."""
    word, after, second = (*body[position : position + 3], ";", ";", ";")[:3]
    is_name = _IDENTIFIER.fullmatch(after) and after not in QUALIFIERS and not is_type_word(after)
    return word.startswith("__") and (after in "*&" or (is_name is not None and second in "=;,[({:"))


def after_name(body: Sequence[str], position: int) -> int:
    """The position after a type name, such as `ns::Tile<4>`."""
    position += 1
    if tuple(body[position : position + 1]) == ("<",):
        depth, end = 0, position
        while end < len(body) and body[end] not in ";{&|":
            depth += (body[end] == "<") - (body[end] == ">")
            end += 1
            if depth == 0:
                position = end
                break
    if tuple(body[position : position + 1]) == ("::",):
        return after_name(body, position + 1)
    return position


def statement_end(body: Sequence[str], position: int) -> int:
    """The position where the statement, or the parenthesised list, ends."""
    while position < len(body) and body[position] not in (";", ")"):
        position = matching(body, position) + 1 if body[position] in "([{" else position + 1
    return position
