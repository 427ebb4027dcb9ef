"""Standard error: lines that stay, and below them, on a terminal, a block that is drawn again in its place."""

from __future__ import annotations

import os
import sys
import textwrap
import unicodedata
from collections.abc import Sequence
from typing import TextIO

from tuner.cli.screen import sparkline
from tuner.paths import plain

Span = tuple[str, str]  # a text and its style, a key of _STYLES
Line = Sequence[Span]

_STYLES = {"": "", "bold": "1", "dim": "2", "red": "31", "green": "32"}
_DUMB = ("", "dumb", "unknown")  # terminals that only print
NARROW = 80  # columns, where a terminal does not say


class Screen:
    """Standard error of this process. A terminal that can move its cursor `is_live`; all else gets plain lines.

    NO_COLOR turns styles off, and TERM=dumb the block (https://no-color.org).
    """

    def __init__(self) -> None:
        self._file = sys.stderr
        self.is_live = self._file.isatty() and os.environ.get("TERM", "") not in _DUMB
        self._is_styled = self.is_live and not os.environ.get("NO_COLOR")
        self.has_blocks = can_write(self._file.encoding, sparkline.BLOCKS)
        self._cells: list[int] = []  # of each line of the block that is drawn

    @property
    def width(self) -> int:
        """Columns that a line may fill."""
        return _width_of(self._size())

    def draw(self, block: Sequence[Line]) -> None:
        """Put `block` in the place of what was drawn before. A line that is too long is cut."""
        lines = [_cut(line, self.width) for line in block[: max(1, self._size().lines - 1)]]
        written = "\n".join("".join(map(self._styled, line)) for line in lines)
        self._write(self._home() + written)
        self._cells = [sum(cells(text) for text, _ in line) for line in lines]

    def say(self, text: str) -> None:
        """Print lines that stay, above the block, which the next `draw` shows again. On a terminal they end between
        words."""
        lines = "\n".join(plain(text).splitlines())
        self._write(f"{self._home()}{_broken(lines, self.width) if self.is_live else lines}\n")
        self._cells = []

    def clear(self) -> None:
        """Remove the block."""
        if self._cells:
            self._write(self._home())
            self._cells = []

    def _home(self) -> str:
        """What moves the cursor to the block's first column and row, and removes it. Since the block was drawn the
        terminal may have become narrower, and have broken its lines."""
        if not self._cells:
            return ""
        columns = self._size().columns
        rows = sum(max(1, -(-count // columns)) for count in self._cells)
        # Line by line: tmux keeps a screen that is erased from its first cell on in the scrollback.
        return "\r\x1b[K" + "\x1b[1A\x1b[K" * (rows - 1)

    def _styled(self, span: Span) -> str:
        text, style = span
        return f"\x1b[{_STYLES[style]}m{text}\x1b[0m" if style and self._is_styled else text

    def _size(self) -> os.terminal_size:
        return _size_of(self._file)

    def _write(self, text: str) -> None:
        if text:
            self._file.write(text)
            self._file.flush()


def cells(text: str) -> int:
    """The columns that a text fills on a terminal."""
    return sum(map(_width, text))


def _width(character: str) -> int:
    if character.isascii():
        return 1
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def _cut(line: Line, width: int) -> list[Span]:
    """The beginning of `line` that fits, without what would drive the terminal."""
    shown: list[Span] = []
    for text, style in line:
        kept = ""
        for character in plain(text, keep=""):
            width -= _width(character)
            if width < 0:
                return [*shown, (kept, style)]
            kept += character
        shown.append((kept, style))
    return shown


def fitted(text: str, file: TextIO) -> str:
    """`text` as it is printed to a file: on a terminal, its lines end between words."""
    return _broken(text, _width_of(_size_of(file))) if file.isatty() else text


def _size_of(file: TextIO) -> os.terminal_size:
    try:
        size = os.get_terminal_size(file.fileno())
    except (OSError, ValueError):
        size = os.terminal_size((0, 0))
    return os.terminal_size((size.columns or NARROW, size.lines or 24))


def _width_of(size: os.terminal_size) -> int:
    """Columns that a line may fill. The last one stays free: some terminals begin a new line when it is written."""
    return max(1, size.columns - 1)


def _broken(text: str, width: int) -> str:
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
