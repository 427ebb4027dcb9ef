"""Measure the width of text on a terminal, and break it into lines that fit."""

from __future__ import annotations

import os
import textwrap
import unicodedata
from typing import TextIO

NARROW = 80  # columns, if a terminal does not report its width


def cells(text: str) -> int:
    """The number of columns that `text` fills on a terminal."""
    return sum(map(_width, text))


def _width(character: str) -> int:
    if character.isascii():
        return 1
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def fitted(text: str, file: TextIO) -> str:
    """`text` as it is printed to `file`: wrapped between words if `file` is a terminal."""
    return broken(text, width_of(size_of(file))) if file.isatty() else text


def size_of(file: TextIO) -> os.terminal_size:
    """Columns and lines of the terminal that `file` is; NARROW x 24 if it is not a terminal."""
    try:
        size = os.get_terminal_size(file.fileno())
    except (OSError, ValueError):
        size = os.terminal_size((0, 0))
    return os.terminal_size((size.columns or NARROW, size.lines or 24))


def width_of(size: os.terminal_size) -> int:
    """The columns that a line may fill. The last column stays free: writing to it wraps the line on some terminals."""
    return max(1, size.columns - 1)


def broken(text: str, width: int) -> str:
    """`text` wrapped to lines of at most `width` characters. Longer words, such as paths, are not broken."""
    lines = []
    for line in text.splitlines():
        indent = " " * (len(line) - len(line.lstrip()) + 2)
        parts = textwrap.wrap(line, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
        lines += parts or [line]
    return "\n".join(lines)


def can_write(encoding: str | None, text: str) -> bool:
    """Whether `text` can be written to a file of this encoding."""
    try:
        text.encode(encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True
