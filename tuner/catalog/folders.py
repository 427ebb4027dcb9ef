"""Lists the space files in and below a folder, up to a limit."""

import itertools
import os
from collections.abc import Iterator
from pathlib import Path

from tuner.quoting import shown

MOST_ENTRIES = 20_000  # files and folders examined in and below one folder
SUFFIXES = (".yaml", ".yml")


def space_files(folder: Path, problems: list[str]) -> Iterator[Path]:
    """The space files in and below `folder`, without operation files and files whose names begin with `_` or `.`.

    Skips hidden folders and links to folders. `problems` gets a message for each folder that cannot be read, and one
    if there are more than MOST_ENTRIES files and folders.
    """
    where = shown(folder)
    if not os.path.isdir(folder):
        problems.append(f"{where}: there is no such folder")
        return
    left, queue = MOST_ENTRIES, [folder]
    while queue:
        current = queue.pop(0)
        try:
            with os.scandir(current) as listing:
                entries = list(itertools.islice(listing, left + 1))
        except OSError as error:
            problems.append(f"{shown(current)}: cannot be read: {error.strerror}")
            continue
        left -= len(entries)
        if left < 0:
            problems.append(f"{where}: has more than {MOST_ENTRIES:,} files; the rest is ignored; name subfolders")
            entries.pop()
        for entry in sorted(entries, key=lambda entry: entry.name):
            if is_space(entry.name) and os.path.isfile(entry.path):
                yield Path(entry.path)
            elif entry.is_dir(follow_symlinks=False) and not entry.name.startswith((".", "__")):
                queue.append(Path(entry.path))
        if left < 0:
            return


def is_space(name: str) -> bool:
    """Whether a file with this name counts as a space file."""
    stem, suffix = os.path.splitext(name)
    return suffix in SUFFIXES and stem != "operation" and not name.startswith(("_", "."))
