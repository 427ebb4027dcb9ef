"""Read a file of records: a header line, then one record per line.

Lines that cannot be read are reported and skipped.
"""

from __future__ import annotations

import json
import stat
from collections.abc import Iterable
from pathlib import Path

from tuner.errors import RequestError
from tuner.quoting import shown
from tuner.store.record import Record

FORMAT = "tuner results"
VERSION = 1

MOST_BYTES = 1 << 26
_MOST_REPORTED = 3  # unreadable lines with a message of their own


def header(kernel: str) -> str:
    """The first line of a kernel's file."""
    return json.dumps({"format": FORMAT, "version": VERSION, "kernel": kernel})


def read(path: Path, kernel: str | None = None) -> tuple[list[Record], list[str]]:
    """The records of a file, and messages about its unreadable lines; both are empty if there is no file.

    With `kernel`, a file whose header names another kernel is skipped. Raises RequestError if the file is no file of
    records, is of a newer version, or cannot be read.
    """
    return parsed(lines(path), shown(path), kernel)


def parsed(lines: Iterable[str], where: str, kernel: str | None = None) -> tuple[list[Record], list[str]]:
    """As `read`, of the lines of a file, which messages call `where`."""
    records: list[Record] = []
    problems: list[str] = []
    skipped = 0
    for number, line in enumerate(lines, 1):
        if number == 1:
            header_kernel = kernel_of(where, line)
            if kernel is not None and header_kernel != kernel:
                return [], [f"{misplaced(where, header_kernel, kernel)}; skipped"]
            continue
        try:
            records.append(Record.from_line(line))
        except ValueError as error:
            if line.strip():
                skipped += 1
                if skipped <= _MOST_REPORTED:
                    problems.append(f"{where}:{number}: skipped, not a record: {error}")
    if skipped > _MOST_REPORTED:
        problems.append(f"{where}: {skipped - _MOST_REPORTED} more lines skipped")
    return records, problems


def read_or_pass(path: Path, kernel: str | None) -> tuple[list[Record], list[str]]:
    """As `read`, but a file that is no file of records, or of a newer version, or cannot be read, is a message."""
    try:
        return read(path, kernel)
    except RequestError as error:
        return [], [f"{error}; the file is passed over"]


def lines(path: Path) -> list[str]:
    """All lines, the header first; none if there is no file. Raises RequestError if the file cannot be read."""
    where = shown(path)
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise RequestError(f"{where}: the results cannot be read: not a file; move it away")
        if status.st_size > MOST_BYTES:
            raise RequestError(f"{where}: {status.st_size} bytes; results have at most {MOST_BYTES}; move it away")
        # Bytes that are not UTF-8 must be written back unchanged.
        text = path.read_bytes().decode("utf-8", errors="surrogateescape")
    except FileNotFoundError:
        return []
    except OSError as error:
        raise RequestError(f"{where}: the results cannot be read: {error.strerror}; name others by --results") from None
    return text.removesuffix("\n").split("\n") if text else []


def misplaced(where: str, header_kernel: object, kernel: str) -> str:
    """The message for a file at this kernel's path whose header names another kernel."""
    name = repr(str(header_kernel)[:60])
    return f"{where}:1: its header names kernel {name}, but this is the file of {kernel}"


def kernel_of(where: str, line: str) -> object:
    """The kernel that the header names.

    Raises RequestError if the file is no file of records, or is of a newer version.
    """
    if line.startswith("\ufeff"):
        raise RequestError(f"{where}:1: begins with a byte order mark (BOM); save the file as UTF-8 without one")
    try:
        header = json.loads(line)
        is_ours = header["format"] == FORMAT
        version = header["version"]
    except (ValueError, TypeError, KeyError, RecursionError):
        is_ours, version = False, None
    if not is_ours or not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise RequestError(f"{where}:1: not a results file: its first line is not the header; move the file away")
    if version > VERSION:
        raise RequestError(
            f"{where}:1: written by a newer tuner: the file has format version {version}, this tuner reads {VERSION}; "
            "update tuner"
        )
    return header.get("kernel")
