"""A command in a pseudo-terminal, and what a terminal shows of it."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from helpers import commands
from helpers.processes import PATIENCE_SECONDS

_CODE = re.compile(r"\x1b\[(\d*)(;\d+)*([A-Za-z])")


@dataclass
class Terminal:
    """A screen without a bottom, which knows the control codes that `tune` writes, and refuses all others."""

    columns: int
    rows: list[str] = field(default_factory=lambda: [""])
    row: int = 0
    column: int = 0
    wraps: int = 0  # lines that were broken because they were too long
    styles: int = 0  # codes for colours and the like

    def write(self, text: str) -> None:
        position = 0
        while position < len(text):
            if (code := _CODE.match(text, position)) is not None:
                self._obey(code[3], int(code[1] or 1 if code[3] == "A" else code[1] or 0))
                position = code.end()
                continue
            self._put(text[position])
            position += 1

    def _obey(self, letter: str, number: int) -> None:
        if letter == "A":
            assert number <= self.row, "above the first row"
            self.row -= number
        elif letter == "K":
            assert number == 0
            self.rows[self.row] = self.rows[self.row][: self.column]
        else:
            assert letter == "m", letter
            self.styles += 1

    def _put(self, character: str) -> None:
        if character == "\r":
            self.column = 0
        elif character == "\n":
            self._down()
        else:
            assert character.isprintable(), repr(character)
            assert unicodedata.east_asian_width(character) not in "WF"
            if self.column == self.columns:
                self.wraps += 1
                self.column = 0
                self._down()
            line = self.rows[self.row].ljust(self.column)
            self.rows[self.row] = line[: self.column] + character + line[self.column + 1 :]
            self.column += 1

    def _down(self) -> None:
        self.row += 1
        if self.row == len(self.rows):
            self.rows.append("")

    def resize(self, columns: int) -> None:
        """Break long rows again, as terminals do."""
        rows: list[str] = []
        for number, row in enumerate(self.rows):
            if number == self.row:
                self.row, self.column = len(rows) + max(0, len(row) - 1) // columns, min(len(row), columns)
            rows += [row[i : i + columns] for i in range(0, len(row), columns)] or [""]
        self.rows, self.columns = rows, columns


@dataclass(frozen=True)
class Shown:
    """What a terminal showed: `frames`, each a list of rows, the last at the end; the exit status; lines that did not
    fit; codes for colours; and seconds until something was shown."""

    frames: list[list[str]]
    status: int
    wraps: int
    styles: int
    first_seconds: float


def tune(
    *arguments: str,
    columns: int,
    environment: Mapping[str, str] | None = None,
    resize: Callable[[list[str]], int | None] = lambda rows: None,
) -> Shown:
    """The `tune` command on a terminal with so many columns. `resize` looks at each frame, and gives other columns, or
    None."""

    def start(terminal: int, names: Mapping[str, str]) -> commands.Command:
        return commands.start(*arguments, environment=names, terminal=terminal)

    return _shown(start, columns, environment, resize)


def run(
    *arguments: str,
    columns: int,
    environment: Mapping[str, str] | None = None,
    resize: Callable[[list[str]], int | None] = lambda rows: None,
) -> Shown:
    """Python with these arguments, on such a terminal."""

    def start(terminal: int, names: Mapping[str, str]) -> subprocess.Popen[bytes]:
        command = [sys.executable, *arguments]
        return subprocess.Popen(command, stdin=terminal, stdout=terminal, stderr=terminal, env=names)

    return _shown(start, columns, environment, resize)


def _shown(
    start: Callable[[int, Mapping[str, str]], subprocess.Popen[bytes] | commands.Command],
    columns: int,
    environment: Mapping[str, str] | None,
    resize: Callable[[list[str]], int | None],
) -> Shown:
    """What a terminal shows of the process that `start` starts on it, in an environment."""
    ours, theirs = pty.openpty()
    _set_size(ours, columns)
    names = {**os.environ, "TERM": "xterm-256color", "PYTHONIOENCODING": "utf-8", **(environment or {})}
    began = time.monotonic()
    process = start(theirs, names)
    os.close(theirs)
    terminal, frames, data, first = Terminal(columns), list[list[str]](), b"", 0.0

    def show(seconds: float) -> bool:
        """Show what comes within so many seconds. Raises OSError when the command has ended."""
        nonlocal data, first
        assert time.monotonic() - began < PATIENCE_SECONDS, "nothing happens"
        if not select.select([ours], [], [], seconds)[0]:
            return False
        data += os.read(ours, 1 << 16)
        first = first or time.monotonic() - began
        whole = _whole(data)
        terminal.write(data[:whole].decode())
        data = data[whole:]
        frames.append(list(terminal.rows))
        return True

    with contextlib.suppress(OSError):
        while True:
            if show(1) and (other := resize(terminal.rows)) is not None:
                process.send_signal(signal.SIGSTOP)  # what it has written was for the columns that were
                while show(0.05):
                    pass
                _set_size(ours, other)
                terminal.resize(other)
                process.send_signal(signal.SIGCONT)
    os.close(ours)
    return Shown(frames, process.wait(), terminal.wraps, terminal.styles, first)


def _whole(data: bytes) -> int:
    """How many bytes are whole characters and codes."""
    end = len(data)
    start = data.rfind(b"\x1b", max(0, end - 12))
    if start >= 0 and not re.match(rb"\x1b\[[\d;]*[A-Za-z]", data[start:]):
        end = start
    while end:
        try:
            data[:end].decode()
            return end
        except UnicodeDecodeError:
            end -= 1
    return 0


def _set_size(terminal: int, columns: int) -> None:
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
