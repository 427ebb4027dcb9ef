"""User text in messages: quoted, shortened, and without control characters."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from traceback import FrameSummary

MOST_SHOWN = 400  # characters of a name or value in a message


def shown(text: object, most: int = MOST_SHOWN) -> str:
    """`text`, such as a file name, for a message: without terminal control sequences, shortened to `most`
    characters."""
    line = plain(text, keep="")
    return line if len(line) <= most else f"{line[: most - 203]}...{line[-200:]}"


def quoted(value: object) -> str:
    """The repr of a value from a user or a file, for a message."""
    try:
        return shown(repr(value))
    except ValueError:  # Python refuses to format integers of more than 4300 digits
        return "a number of thousands of digits"


def plain(text: object, keep: str = "\n\t") -> str:
    """`text` with `?` in place of every character that is neither printable nor in `keep`.

    These are control characters, text direction marks and lone surrogates.
    """
    return "".join(c if c.isprintable() or c in keep else "?" for c in str(text))


def first_line(text: object) -> str:
    """The first line of a text that is not empty."""
    return str(text).strip().partition("\n")[0]


def described(error: BaseException) -> str:
    """An exception of a user's code, for a message: its class, and the first line of its text."""
    try:
        text = shown((str(error).strip().splitlines() or [""])[0])
    except Exception:
        text = ""
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def innermost(error: BaseException, is_own: Callable[[str], bool]) -> FrameSummary | None:
    """The innermost place of an error in those files of which `is_own` is true; None if there is none."""
    import traceback  # slow to import; few runs meet an error

    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if is_own(frame.filename)]
    return frames[-1] if frames else None
