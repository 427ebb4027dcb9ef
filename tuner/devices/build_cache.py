"""Builds on disk, named by everything that changes them, shared by tuner and launcher.

A build is written aside and renamed, so concurrent processes see whole files only. It ends with its checksum, because a
damaged one (a cache may be copied from another machine) takes the process down that loads it. The oldest used go when
the folder exceeds MAX_BYTES.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tuner import paths
from tuner.errors import RequestError

MAX_BYTES = 2 << 30
BUNDLE = ("tuner bundle", 1)  # format and version of launch.json
FIGURES = ".figures"  # ends the name of what the compiler said of a build
_CHECKSUM = 32  # bytes; loaders ignore what follows a library
_SWEEP_EVERY = 200
_writes = itertools.count()  # which, unlike a number, threads may share


def key(*parts: str) -> str:
    """The name of a build."""
    return paths.digest(*parts)


def folder() -> Path:
    """Where builds lie; private, because they are loaded and run."""
    return paths.private(paths.cache() / "builds")


def read(name: str) -> bytes | None:
    """The build called `name`, if it is there and whole."""
    path = folder() / name
    with contextlib.suppress(OSError):
        found = path.read_bytes()
        data, checksum = found[:-_CHECKSUM], found[-_CHECKSUM:]
        if data and checksum == _checksum(data):
            with contextlib.suppress(OSError):  # a cache that may only be read still serves
                os.utime(path)
            return data
    return None


def _checksum(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()


def newest(beginning: str) -> list[str]:
    """The names of the builds that begin like this, the last that was made or used first."""
    found: list[tuple[float, str]] = []
    for path in folder().glob(f"{beginning}-*"):
        with contextlib.suppress(FileNotFoundError):  # another process swept it
            if path.suffix != FIGURES:
                found.append((path.stat().st_mtime, path.name))
    return [name for _, name in sorted(found, reverse=True)]


@dataclass(frozen=True)
class ExportedBuild:
    """A build that was exported: for which architecture, of which source, by its digest, in which configuration."""

    architecture: str
    source: str
    config: dict[str, Any]
    binary: bytes


def stem(kernel: str) -> str:
    """The last part of a kernel's name."""
    return kernel.rpartition("/")[2]


def exported(place: Path, kernel: str) -> list[ExportedBuild]:
    """The builds in a folder that `tune export --to cubin` wrote.

    Raises RequestError where the folder is no such one, or of another kernel than the one called `kernel`.
    """
    try:
        bundle = json.loads((place / "launch.json").read_bytes())
        about = bundle["format"], bundle["version"]
        if about != BUNDLE:
            raise RequestError(f"{place}: launch.json is of {about}; {BUNDLE} can be read; export it again")
        if stem(str(bundle["kernel"])) != stem(kernel):  # what comes before is the folder that its space lies in
            raise RequestError(f"{place}: was exported for {paths.shown(str(bundle['kernel']))}, not for {kernel}")
        return [
            ExportedBuild(
                str(one["architecture"]),
                str(one["source"]),
                dict(one["config"]),
                (place / Path(one["file"]).name).read_bytes(),
            )
            for one in bundle["builds"]
        ]
    except OSError as error:
        why = f"{Path(str(error.filename)).name}: {error.strerror}"
    except (ValueError, LookupError, TypeError, RecursionError):
        why = "launch.json is damaged"
    raise RequestError(f"{place}: not a folder that `tune export --to cubin` wrote: {why}; export it again")


def write(name: str, data: bytes) -> None:
    """Keep a build. A full disk or a read-only cache costs the next launch a compilation, nothing else."""
    with contextlib.suppress(OSError):
        paths.replace(folder() / name, data + _checksum(data))
        if next(_writes) % _SWEEP_EVERY == 0:
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
