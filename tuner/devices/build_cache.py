"""Builds on disk, named by everything that changes them. Tuning and launching share them.

A build is written to a temporary file and renamed, so other processes see whole files only. It ends with its checksum:
a damaged build, from a copied cache perhaps, would crash the process that loads it. The least recently used builds are
deleted once the folder exceeds MAX_BYTES.
"""

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
BUNDLE = ("tuner bundle", 2)  # format and version of launch.json
DISPATCH = ("tuner dispatch bundle", 2)  # format and version of DISPATCH_FILE
DISPATCH_FILE, RECORDS = "dispatch.json", "records"  # in the folder that serves a family
FIGURES = ".figures"  # suffix of the file with a build's figures
_CHECKSUM = 32  # bytes; loaders ignore trailing data
_SWEEP_EVERY = 200
_writes = itertools.count()  # unlike an int, safe to share between threads


def folder() -> Path:
    """The folder of builds; private, because they are loaded and run."""
    return paths.private(paths.cache() / "builds")


def read(name: str) -> bytes | None:
    """The build called `name`; None if it is missing or damaged."""
    path = folder() / name
    with contextlib.suppress(OSError):
        content = paths.read_trusted(path)
        data, checksum = content[:-_CHECKSUM], content[-_CHECKSUM:]
        if data and checksum == _checksum(data):
            with contextlib.suppress(OSError):  # a read-only cache still serves
                os.utime(path)
            return data
    return None


def holds(name: str) -> bool:
    """Whether there is a build called `name`, which may be damaged."""
    return (folder() / name).is_file()


def _checksum(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()


def newest(beginning: str) -> list[str]:
    """The names of builds with this beginning, the most recently used first."""
    entries: list[tuple[float, str]] = []
    for path in folder().glob(f"{beginning}-*"):
        with contextlib.suppress(FileNotFoundError):  # another process swept it
            if path.suffix != FIGURES:
                entries.append((path.stat().st_mtime, path.name))
    return [name for _, name in sorted(entries, reverse=True)]


_MOST_LAUNCH = 10_000_000  # characters of a launch.json


@dataclass(frozen=True)
class ExportedBinary:
    """A binary of an exported build. `source` is the digest of its Source; `entries` are the names in the binary of
    kernels that have another one in the source."""

    source: str
    binary: bytes
    entries: dict[str, str]


@dataclass(frozen=True)
class ExportedBuild:
    """A build in a folder of `tune export --to cubin`: a configuration, and a binary for each of its sources."""

    architecture: str
    config: dict[str, Any]
    binaries: tuple[ExportedBinary, ...]


def stem(kernel: str) -> str:
    """The last part of a kernel's name."""
    return kernel.rpartition("/")[2]


def read_bundle(bundle: Path, kernel: str | None) -> list[ExportedBuild]:
    """The builds in a folder that `tune export --to cubin` wrote.

    Raises RequestError if it is not such a folder, or was exported for another kernel than `kernel`, unless that is
    None.
    """
    try:
        data = json.loads(paths.read_text(bundle / "launch.json", _MOST_LAUNCH))
        if data["format"] != BUNDLE[0]:
            raise ValueError(data["format"])
        if data["version"] != BUNDLE[1]:
            raise RequestError(
                f"{bundle}: launch.json is of version {paths.quoted(data['version'])}, where {BUNDLE[1]} is read; "
                "export it again"
            )
        if kernel is not None and stem(str(data["kernel"])) != stem(
            kernel
        ):  # the folder of its space may have another name
            raise RequestError(f"{bundle}: was exported for {paths.shown(str(data['kernel']))}, not for {kernel}")
        return [
            ExportedBuild(
                str(build["architecture"]),
                dict(build["config"]),
                tuple(exported_binary(bundle, cubin) for cubin in build["cubins"]),
            )
            for build in data["builds"]
        ]
    except OSError as error:
        why = f"{Path(str(error.filename)).name}: {error.strerror}"
    except (ValueError, LookupError, TypeError, RecursionError):
        why = "launch.json is damaged"
    raise RequestError(f"{bundle}: not a folder that `tune export --to cubin` wrote: {why}; export it again")


def exported_binary(bundle: Path, data: dict[str, Any]) -> ExportedBinary:
    """A binary of a bundle. Raises RequestError where it is not the one that was exported."""
    file = bundle / Path(data["file"]).name
    binary = file.read_bytes()
    if paths.digest(binary) != data["checksum"]:  # loading it might crash the process
        raise RequestError(f"{bundle}: {paths.shown(file.name)} is not what was exported; export it again")
    entries = {str(kernel): str(entry) for kernel, entry in data["entries"].items()}
    return ExportedBinary(str(data["source"]), binary, entries)


def write(name: str, data: bytes) -> None:
    """Keep a build. If the disk is full or the cache read-only, the next launch compiles again."""
    with contextlib.suppress(OSError):
        paths.replace(folder() / name, data + _checksum(data))
        if next(_writes) % _SWEEP_EVERY == 0:
            sweep(MAX_BYTES)


def sweep(most: int) -> None:
    """Delete the least recently used builds until at most `most` bytes are left."""
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
