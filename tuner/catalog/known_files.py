"""The list of the user's space files that were tuned before, with their names in the store."""

import contextlib
import functools
import json
import os
import re
from collections.abc import Mapping
from pathlib import Path

from tuner import paths

MOST = 1000  # files
MOST_BYTES = 1 << 22
_NAME = re.compile(r"\w[\w.+-]*(/\w[\w.+-]*)*")


def read() -> Mapping[Path, str]:
    """The names by file, the earliest first, including files that no longer exist.

    Raises RequestError if other users can write to the list, because it determines which code runs.
    """
    try:
        with paths.known_kernels().open("rb") as file:
            paths.check_trusted(paths.known_kernels(), os.fstat(file.fileno()))
            return _names(file.read(MOST_BYTES))
    except OSError:
        return {}


@functools.lru_cache(maxsize=1)
def _names(content: bytes) -> Mapping[Path, str]:
    """The names in a list, which a process reads some ten times."""
    names: dict[Path, str] = {}
    for line in content.splitlines():
        with contextlib.suppress(ValueError, LookupError, TypeError, RecursionError):
            data = json.loads(line)
            name, path = data["name"], Path(data["file"])
            if path.is_absolute() and _NAME.fullmatch(name) and "\0" not in str(path):
                names[path] = name
    return names


def add(file: Path, name: str) -> None:
    """Remember the name of a file. If the list is not writable, do nothing."""
    known = read()
    if known.get(file) == name:
        return
    try:
        paths.state()
        if len(known) >= MOST:
            _shorten(known)
        line = f"{json.dumps({'file': str(file), 'name': name})}\n".encode()
        handle = os.open(paths.known_kernels(), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            os.write(handle, line)  # one write, so that several processes can append at the same time
        finally:
            os.close(handle)
    except OSError:
        return


def _shorten(known: Mapping[Path, str]) -> None:
    """Drop files that no longer exist; if still too many are left, keep only the latest MOST / 2."""
    present = [(file, name) for file, name in known.items() if os.path.isfile(file)]
    kept = present[-MOST // 2 :] if len(present) >= MOST else present
    lines = [json.dumps({"file": str(file), "name": name}) for file, name in kept]
    paths.replace(paths.known_kernels(), "".join(f"{line}\n" for line in lines).encode())
