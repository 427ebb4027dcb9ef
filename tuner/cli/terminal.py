"""How wide text is on a terminal, and how it is broken or cut to fit."""

from __future__ import annotations

import os
import textwrap
import unicodedata
from typing import TextIO

NARROW = 80  # columns, where a terminal does not say


def cells(text: str) -> int:
    """The columns that a text fills on a terminal."""
    return sum(map(_width, text))


def _width(character: str) -> int:
    if character.isascii():
        return 1
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def fitted(text: str, file: TextIO) -> str:
    """`text` as it is printed to a file: on a terminal, its lines end between words."""
    return broken(text, width_of(size_of(file))) if file.isatty() else text


def size_of(file: TextIO) -> os.terminal_size:
    """Columns and lines of the terminal that a file is, or what stands for them where it is none."""
    try:
        size = os.get_terminal_size(file.fileno())
    except (OSError, ValueError):
        size = os.terminal_size((0, 0))
    return os.terminal_size((size.columns or NARROW, size.lines or 24))


def width_of(size: os.terminal_size) -> int:
    """Columns that a line may fill. The last one stays free: some terminals begin a new line when it is written."""
    return max(1, size.columns - 1)


def broken(text: str, width: int) -> str:
    """`text` in lines of at most `width` characters. A word that is longer, such as a path, stays in one piece."""
    lines = []
    for line in text.splitlines():
        indent = " " * (len(line) - len(line.lstrip()) + 2)
        parts = textwrap.wrap(line, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
        lines += parts or [line]
    return "\n".join(lines)


def can_write(encoding: str | None, text: str) -> bool:
    """Whether a file of this encoding can hold `text`."""
    try:
        text.encode(encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True
