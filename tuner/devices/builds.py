"""Builds on disk, named by everything that changes them, shared by tuner and launcher.

A build is written aside and renamed, so concurrent processes see whole files only. The oldest used go when the
folder exceeds MAX_BYTES.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from tuner import paths

MAX_BYTES = 2 << 30
_SWEEP_EVERY = 200
_written = 0


def key(*parts: str) -> str:
    """The name of a build."""
    return paths.digest(*parts)


def folder() -> Path:
    """Where builds lie; private, because they are loaded and run."""
    return paths.private(paths.cache() / "builds")


def read(name: str) -> bytes | None:
    """The build called `name`, if it is there."""
    path = folder() / name
    with contextlib.suppress(OSError):
        data = path.read_bytes()
        with contextlib.suppress(OSError):  # a cache that may only be read still serves
            os.utime(path)
        return data or None
    return None


def write(name: str, data: bytes) -> None:
    """Keep a build. A full disk or a read-only cache costs the next launch a compilation, nothing else."""
    with contextlib.suppress(OSError):
        paths.replace(folder() / name, data)
        _count()


def _count() -> None:
    global _written
    _written += 1
    if _written % _SWEEP_EVERY == 1:
        sweep(MAX_BYTES)


def sweep(most: int) -> None:
    """Delete the builds that were not used for longest until `most` bytes are left."""
    entries = []
    for path in folder().iterdir():
        try:
            entries.append((path.stat().st_mtime, path.stat().st_size, path))
        except FileNotFoundError:
            continue  # another process swept it
    total = sum(size for _, size, _ in entries)
    for _, size, path in sorted(entries):
        if total <= most:
            break
        path.unlink(missing_ok=True)
        total -= size
