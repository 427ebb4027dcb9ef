"""Write to standard error: permanent lines, and on a terminal a block below them that is redrawn in place."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from tuner.cli.screen import sparkline
from tuner.cli.terminal import broken, can_write, cells, size_of, width_of
from tuner.quoting import plain

Span = tuple[str, str]  # a text and its style, a key of _STYLES
Line = Sequence[Span]

_STYLES = {"": "", "bold": "1", "dim": "2", "red": "31", "green": "32"}
_DUMB = ("", "dumb", "unknown")  # values of TERM for terminals that cannot move the cursor


class LiveBlock:
    """Standard error of this process. It `is_live` if it is a terminal that can move its cursor; else only permanent
    lines are printed.

    NO_COLOR (https://no-color.org) turns styles off; TERM=dumb turns the block off.
    """

    def __init__(self) -> None:
        self._file = sys.stderr
        self.is_live = self._file.isatty() and os.environ.get("TERM", "") not in _DUMB
        self._is_styled = self.is_live and not os.environ.get("NO_COLOR")
        self.has_blocks = can_write(self._file.encoding, sparkline.BLOCKS)
        self._cells: list[int] = []  # columns filled by each line of the drawn block; empty if none is drawn

    @property
    def width(self) -> int:
        """The columns that a line may fill."""
        return width_of(self._size())

    def draw(self, block: Sequence[Line]) -> None:
        """Draw `block` in place of the previous one. Lines that are too long, and lines below the screen, are cut."""
        lines = [_cut(line, self.width) for line in block[: max(1, self._size().lines - 1)]]
        written = "\n".join("".join(map(self._styled, line)) for line in lines)
        self._write(self._home() + written)
        self._cells = [sum(cells(text) for text, _ in line) for line in lines]

    def say(self, text: str) -> None:
        """Print permanent lines, wrapped on a terminal. The block is removed until the next `draw`."""
        lines = "\n".join(plain(text).splitlines())
        self._write(f"{self._home()}{broken(lines, self.width) if self.is_live else lines}\n")
        self._cells = []

    def clear(self) -> None:
        """Remove the block."""
        if self._cells:
            self._write(self._home())
            self._cells = []

    def _home(self) -> str:
        """The control sequence that erases the block and moves the cursor to where it began. It counts the block's rows
        at the terminal's present width, since a terminal that has become narrower wraps lines."""
        if not self._cells:
            return ""
        columns = self._size().columns
        rows = sum(max(1, -(-count // columns)) for count in self._cells)
        # Erased line by line: tmux copies a screen that is erased from its first cell into the scrollback.
        return "\r\x1b[K" + "\x1b[1A\x1b[K" * (rows - 1)

    def _styled(self, span: Span) -> str:
        text, style = span
        return f"\x1b[{_STYLES[style]}m{text}\x1b[0m" if style and self._is_styled else text

    def _size(self) -> os.terminal_size:
        return size_of(self._file)

    def _write(self, text: str) -> None:
        if text:
            self._file.write(text)
            self._file.flush()


def _cut(line: Line, width: int) -> list[Span]:
    """The beginning of `line` that fits in `width` columns, without control characters."""
    fitting: list[Span] = []
    for text, style in line:
        head = ""
        for character in plain(text, keep=""):
            width -= cells(character)
            if width < 0:
                return [*fitting, (head, style)]
            head += character
        fitting.append((head, style))
    return fitting
