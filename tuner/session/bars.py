"""One line of progress, redrawn in place: on a terminal, or in a notebook."""

from __future__ import annotations

import html
import os
import sys
from typing import Any, Protocol

FULL, EMPTY = "#", "."
CELLS = 20  # of a bar


class Bar(Protocol):
    """A place for one line, above which permanent lines go."""

    def draw(self, share: float | None, text: str) -> None: ...

    def say(self, text: str) -> None: ...

    def clear(self) -> None: ...


class TerminalBar:
    """The line on standard error."""

    def __init__(self) -> None:
        self._is_drawn = False

    def draw(self, share: float | None, text: str) -> None:
        """Draw the line, cut to the width of the terminal. `share` is the length of the bar, None for no bar."""
        cells = "" if share is None else f"[{_cells(share)}] "
        self._write(f"\r\x1b[K{f'{cells}{text}'[: _columns() - 1]}")
        self._is_drawn = True

    def say(self, text: str) -> None:
        self.clear()
        self._write(f"{text}\n")

    def clear(self) -> None:
        if self._is_drawn:
            self._write("\r\x1b[K")
        self._is_drawn = False

    def _write(self, text: str) -> None:
        try:
            sys.stderr.write(text)
            sys.stderr.flush()
        except (OSError, ValueError):  # standard error has been closed
            return


class NotebookBar:
    """The line below a cell, which it replaces; permanent lines go to the cell's standard error."""

    def __init__(self) -> None:
        from IPython import display

        self._display: Any = display
        self._handle: Any = None

    def draw(self, share: float | None, text: str) -> None:
        bar = "" if share is None else f'<progress value="{share:.3f}" max="1"></progress> '
        self._show(f"<div>{bar}<code>{html.escape(text)}</code></div>")

    def say(self, text: str) -> None:
        print(text, file=sys.stderr)

    def clear(self) -> None:
        if self._handle is not None:
            self._show("")

    def _show(self, text: str) -> None:
        page = self._display.HTML(text)
        if self._handle is None:
            self._handle = self._display.display(page, display_id=True)
        else:
            self._handle.update(page)


class PlainLines:
    """Permanent lines on standard error alone, where no line can be redrawn."""

    def draw(self, share: float | None, text: str) -> None:
        """Draw nothing."""

    def say(self, text: str) -> None:
        print(text, file=sys.stderr)

    def clear(self) -> None:
        """Do nothing."""


def suitable() -> Bar:
    """The bar for where this program runs."""
    if _is_in_notebook():
        return NotebookBar()
    try:
        is_terminal = sys.stderr.isatty()
    except (AttributeError, ValueError):  # there is no standard error, or it is closed
        is_terminal = False
    return TerminalBar() if is_terminal else PlainLines()


def _is_in_notebook() -> bool:
    """Whether this process is the kernel of a notebook; a terminal's IPython is none."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return shell is not None and hasattr(shell, "kernel")


def _columns() -> int:
    """The width of the terminal that standard error is, whatever the other streams are."""
    try:
        return max(2, os.get_terminal_size(sys.stderr.fileno()).columns)
    except (OSError, ValueError):
        return 80


def _cells(share: float) -> str:
    full = round(CELLS * min(1.0, max(0.0, share)))
    return FULL * full + EMPTY * (CELLS - full)
