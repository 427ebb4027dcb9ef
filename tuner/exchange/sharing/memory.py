"""Which files of shared stores a store has taken: their checksums, in its file `pulled.json`."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from tuner import paths
from tuner.errors import RequestError
from tuner.store import locks

FILE, FORMAT, VERSION = "pulled.json", "tuner pulled files", 1
MOST = 200_000  # checksums
_CHARACTERS = 80  # of a checksum's line, at most


class TakenFiles:
    """The checksums of the files that were taken into a store, and those that are taken now."""

    def __init__(self, results: Path | None, is_empty: bool = False) -> None:
        """`results` is the store; by default, the user's own. If it `is_empty`, as of a store that took none."""
        self._file = (results or paths.user_results()) / FILE
        self._known = dict.fromkeys([] if is_empty else _read(self._file))
        self._new: dict[str, None] = {}

    def __contains__(self, sha256: str) -> bool:
        return sha256 in self._known or sha256 in self._new

    def add(self, sha256s: Iterable[str]) -> None:
        """Remember these until `write`."""
        self._new.update(dict.fromkeys(sha256s))

    def write(self) -> None:
        """Write what is new to the file. Raises RequestError if it cannot be written."""
        if not self._new:
            return
        with locks.updating(self._file):
            known = [*dict.fromkeys([*_read(self._file), *self._new])][-MOST:]
            document = {"format": FORMAT, "version": VERSION, "files": known}
            paths.replace(self._file, json.dumps(document, indent=0).encode())
        self._new.clear()


def _read(file: Path) -> list[str]:
    """The checksums in the file; none if it is missing or damaged, which costs a second download."""
    try:
        data = json.loads(paths.read_text(file, _CHARACTERS * MOST))
        known = data["files"] if (data["format"], data["version"]) == (FORMAT, VERSION) else []
        return [each for each in known if isinstance(each, str)]
    except (OSError, ValueError, LookupError, TypeError, RecursionError, RequestError):
        return []
