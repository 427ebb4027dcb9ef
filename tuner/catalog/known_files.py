"""The space files of the user's that were tuned before, with the names that they have in the store."""

import contextlib
import json
import os
import re
from collections.abc import Mapping
from pathlib import Path

from tuner import paths

MOST = 1000  # files
MOST_BYTES = 1 << 22
_NAME = re.compile(r"\w[\w.+-]*(/\w[\w.+-]*)*")


def read() -> dict[Path, str]:
    """The names by file, the earliest first; files that are gone are among them. Raises RequestError where others could
    have written the list: it says what is run."""
    try:
        with paths.known_kernels().open("rb") as file:
            paths.check_trusted(paths.known_kernels(), os.fstat(file.fileno()))
            lines = file.read(MOST_BYTES).splitlines()
    except OSError:
        return {}
    names: dict[Path, str] = {}
    for line in lines:
        with contextlib.suppress(ValueError, LookupError, TypeError, RecursionError):
            data = json.loads(line)
            name, path = data["name"], Path(data["file"])
            if path.is_absolute() and _NAME.fullmatch(name) and "\0" not in str(path):
                names[path] = name
    return names


def add(file: Path, name: str) -> None:
    """Remember the name of a file. A list that cannot be written stays as it is."""
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
            os.write(handle, line)  # in one piece, so that several processes may add at once
        finally:
            os.close(handle)
    except OSError:
        return


def _shorten(known: Mapping[Path, str]) -> None:
    """Forget the files that are gone, and the earliest half of the others if they are still too many."""
    present = [(file, name) for file, name in known.items() if os.path.isfile(file)]
    kept = present[-MOST // 2 :] if len(present) >= MOST else present
    lines = [json.dumps({"file": str(file), "name": name}) for file, name in kept]
    paths.replace(paths.known_kernels(), "".join(f"{line}\n" for line in lines).encode())
