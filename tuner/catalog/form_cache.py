"""Launch forms on disk: a Space as JSON, read instead of YAML as long as the files of the space are unchanged.

A form also has the Version of its space, and the digests of the headers on which that depends. The Version of a form
that ships is used: to compute it, all sources of a family would be read and expanded.
"""

import contextlib
import functools
import json
import os
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tuner import paths
from tuner.errors import EnvironmentTrouble, TunerError
from tuner.space import launch_form, snapshot
from tuner.space.model import MAX_FILE_BYTES, Space
from tuner.space.sources import includes
from tuner.space.sources.rendering import Version


def find(path: Path, name: str) -> Space | None:
    """The Space `name` of the file `path`, from a shipped or a cached launch form.

    None if there is no form, or if a file has changed since. Raises RequestError if other users can write to the cache.
    """
    form, folder = _form(path, name), path.resolve().parent
    return _shipped_form(paths.shipped("forms").parent / form, folder) or _cached_form(paths.cache() / form, folder)


def keep(path: Path, space: Space) -> None:
    """Cache the launch form of the space in the file `path`. If the cache is not writable, do nothing."""
    with contextlib.suppress(OSError, EnvironmentTrouble):
        paths.private(paths.cache() / "forms")
        paths.replace(paths.cache() / _form(path, space.name), _to_form(space, path.resolve().parent))


def _form(path: Path, name: str) -> str:
    return f"forms/{paths.digest(name, _content(path))}.json"


def _content(path: Path) -> bytes:
    """The file's bytes, up to the largest allowed size of a space file; empty if the file cannot be read."""
    try:
        return snapshot.read(path)[:MAX_FILE_BYTES]
    except OSError:
        return b""  # the YAML reader reports the error


def _to_form(space: Space, folder: Path) -> bytes:
    """The launch form of a space, as JSON. Paths are relative to the YAML's `folder`, so that copies can use it too."""

    def relative(file: Path | str) -> str:
        return os.path.relpath(file, folder)

    def digests(files: Iterable[Path]) -> dict[str, str]:
        return {relative(file): paths.digest(snapshot.read(file)) for file in files}

    sources, version = () if space.python_language else space.sources, None
    with contextlib.suppress(TunerError):  # a header is missing, which whoever reads the source reports
        headers = digests(file for source in sources for file in includes.files(source, space.include))
        version = {**asdict(Version.of(space)), "headers": headers}
    form = {
        "format": launch_form.VERSION,
        "files": digests((*space.files, *space.sources)),
        "space": launch_form.to_json(space, text_of=relative),
        "version": version,
    }
    return json.dumps(form).encode()


def _shipped_form(form: Path, folder: Path) -> Space | None:
    """The Space of a shipped form. It is as trustworthy as this module; None if there is none."""
    try:
        return _from_form(form.read_bytes(), folder, with_version=True)
    except OSError:
        return None


def _cached_form(form: Path, folder: Path) -> Space | None:
    """The Space of a cached form; None if there is none. Raises RequestError if other users can write to it."""
    try:
        paths.check_trusted(form.parent, form.parent.stat())
        return _from_form(paths.read_trusted(form), folder)
    except OSError:
        return None


def _from_form(content: bytes, folder: Path, with_version: bool = False) -> Space | None:
    """The Space of a launch form, and its Version if that is trusted; None if the form is corrupt, or if a file has
    changed since."""
    try:
        data: Any = json.loads(content)
        if data["format"] != launch_form.VERSION:
            return None
        version = data["version"] if with_version else {"headers": {}}
        for file, digest in (*data["files"].items(), *version["headers"].items()):
            path = folder / file
            if _digest(path, snapshot.stamp(path)) != digest:
                return None
        loaded = launch_form.from_json(data["space"], lambda text: Path(os.path.normpath(folder / text)))
        if with_version:
            Version(str(version["code"]), str(version["signature"])).keep(loaded)
        return loaded
    except (OSError, ImportError, ValueError, KeyError, TypeError, AttributeError, TunerError, RecursionError):
        return None


@functools.lru_cache(maxsize=1024)
def _digest(path: Path, stamp: snapshot.Stamp | None) -> str:
    """The digest of a file with this stamp. The kernels of a family share headers."""
    return paths.digest(snapshot.read(path))
