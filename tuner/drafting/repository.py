"""Finds files in the repository of a kernel's source."""

from __future__ import annotations

import os
from pathlib import Path

_NAMES = (".git", ".hg", ".svn")
MOST_FILES = 20_000  # that are looked at


def root(file: Path) -> Path | None:
    """The repository of a file; None if it is in none."""
    return next((each for each in file.resolve().parents if any((each / name).exists() for name in _NAMES)), None)


def folders_of(header: str, file: Path) -> list[Path]:
    """The folders in a file's repository in which a compiler would find a header, such as `include` for `util/x.h`;
    empty if it has too many files."""
    within, top, count, found = Path(header), root(file), 0, list[Path]()
    if top is None or within.is_absolute() or ".." in within.parts:
        return []
    for folder, folders, names in os.walk(top):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        count += len(names)
        if count > MOST_FILES:
            return []
        place = Path(folder)
        if within.name in names and _ends_with(place, within.parent):
            found.append(place.parents[len(within.parent.parts) - 1] if within.parent.parts else place)
    return found


def _ends_with(folder: Path, last: Path) -> bool:
    return not last.parts or folder.parts[-len(last.parts) :] == last.parts
