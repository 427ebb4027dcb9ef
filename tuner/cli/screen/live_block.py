"""Standard error: lines that stay, and below them, on a terminal, a block that is drawn again in its place."""

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
_DUMB = ("", "dumb", "unknown")  # terminals that only print


class LiveBlock:
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
        return width_of(self._size())

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
        self._write(f"{self._home()}{broken(lines, self.width) if self.is_live else lines}\n")
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
        return size_of(self._file)

    def _write(self, text: str) -> None:
        if text:
            self._file.write(text)
            self._file.flush()


def _cut(line: Line, width: int) -> list[Span]:
    """The beginning of `line` that fits, without what would drive the terminal."""
    shown: list[Span] = []
    for text, style in line:
        kept = ""
        for character in plain(text, keep=""):
            width -= cells(character)
            if width < 0:
                return [*shown, (kept, style)]
            kept += character
        shown.append((kept, style))
    return shown
