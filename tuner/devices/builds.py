"""Builds on disk, named by everything that changes them, shared by tuner and launcher.

A build is written aside and renamed, so concurrent processes see whole files only. The oldest used go when the
folder exceeds MAX_BYTES.
"""

from __future__ import annotations

import contextlib
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tuner import paths
from tuner.errors import RequestError

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


def newest(beginning: str) -> bytes | None:
    """Of the builds whose names begin like this, the last that was made or used."""
    found = [path for path in folder().glob(f"{beginning}-*") if path.suffix != ".json"]
    return read(max(found, key=lambda path: path.stat().st_mtime).name) if found else None


@dataclass(frozen=True)
class Exported:
    """A build that was exported: of which source, by its digest, in which configuration."""

    source: str
    config: dict[str, Any]
    binary: bytes


def exported(place: Path, architecture: str) -> list[Exported]:
    """The builds for this architecture in a folder that `tune export --to cubin` wrote.

    Raises RequestError where the folder is no such one.
    """
    try:
        listed = json.loads((place / "launch.json").read_bytes())["builds"]
        return [
            Exported(one["source"], dict(one["config"]), (place / Path(one["file"]).name).read_bytes())
            for one in listed
            if one["architecture"] == architecture
        ]
    except (OSError, ValueError, LookupError, TypeError, RecursionError) as error:
        raise RequestError(f"{place}: not a folder that `tune export --to cubin` wrote: {error}") from None


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
