"""The cache of builds on disk, which tuning and launching share.

A build's name covers everything that changes the build. A build is written to a temporary file and renamed, so other
processes see complete files only. Each file ends with a checksum, because loading a damaged build (for example, from a
copied cache) would crash the process. The least recently used builds are deleted once the folder exceeds MAX_BYTES.
"""

import contextlib
import itertools
import os
import time
from pathlib import Path

from tuner import paths

MAX_BYTES = 2 << 30
FIGURES = ".figures"  # suffix of the file with a build's figures
_SWEPT = "builds.swept"  # the file beside the folder that tells when it was swept
_SWEEP_EVERY, _SWEEP_SECONDS = 200, 600.0  # builds that a process writes; for its first one, the time since any sweep
_writes = itertools.count()  # unlike an int, safe to share between threads


def folder() -> Path:
    """The folder of builds. Only the user may access it, because its builds are loaded and run."""
    return paths.private(paths.cache() / "builds")


def read(name: str) -> bytes | None:
    """The cached build `name`; None if it is missing or damaged."""
    path = folder() / name
    data = paths.read_checked(path)
    if data is not None:
        with contextlib.suppress(OSError):  # a read-only cache still serves
            os.utime(path)
    return data


def holds(name: str) -> bool:
    """Whether the cache has a file for the build `name`. The file may be damaged."""
    return os.path.isfile(paths.cache_folder() / "builds" / name)


def newest(beginning: str) -> list[str]:
    """The names of the builds that start with `beginning` and a hyphen, the most recently used first."""
    entries: list[tuple[float, str]] = []
    for path in folder().glob(f"{beginning}-*"):
        with contextlib.suppress(FileNotFoundError):  # another process deleted it
            if path.suffix != FIGURES:
                entries.append((path.stat().st_mtime, path.name))
    return [name for _, name in sorted(entries, reverse=True)]


def write(name: str, data: bytes) -> None:
    """Cache a build. If the disk is full or the cache read-only, do nothing: the next launch compiles again."""
    with contextlib.suppress(OSError):
        paths.write_checked(folder() / name, data)
        written = next(_writes)
        if written % _SWEEP_EVERY == 0 and (written > 0 or not _is_swept()):
            sweep(MAX_BYTES)


def sweep(most: int) -> None:
    """Delete the least recently used builds until the rest takes at most `most` bytes."""
    (paths.cache() / _SWEPT).touch(0o600)
    entries: list[tuple[float, int, str]] = []
    with os.scandir(folder()) as found:
        for entry in found:
            with contextlib.suppress(FileNotFoundError):  # another process deleted it
                status = entry.stat(follow_symlinks=False)
                entries.append((status.st_mtime, status.st_size, entry.path))
    total = sum(size for _, size, _ in entries)
    for _, size, path in sorted(entries):
        if total <= most:
            break
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        total -= size


def _is_swept() -> bool:
    """Whether a process has swept the folder a short time ago: looking at all builds takes long for one build."""
    try:
        return 0 <= time.time() - os.stat(paths.cache() / _SWEPT).st_mtime < _SWEEP_SECONDS
    except OSError:
        return False
