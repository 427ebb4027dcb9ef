"""Launch forms on disk: a Space as JSON, which is read instead of YAML as long as its files are the same."""

import contextlib
import json
import os
from pathlib import Path
from typing import Any

from tuner import paths
from tuner.errors import TunerError
from tuner.space import launch_form
from tuner.space.model import MAX_FILE_BYTES, Space


def find(path: Path, name: str) -> Space | None:
    """The Space in the file `path`, called `name`, from its form: one that ships, or one in the cache. None where there
    is none, or a file has changed since. Raises RequestError if the cache is not to be trusted."""
    form, folder = _form(path, name), path.resolve().parent
    return _shipped_form(paths.shipped("forms").parent / form, folder) or _cached_form(paths.cache() / form, folder)


def keep(path: Path, space: Space) -> None:
    """Leave the form of a space, which `path` holds, in the cache. Without a writable cache, the next load reads the
    YAML again."""
    with contextlib.suppress(OSError):
        paths.replace(paths.cache() / _form(path, space.name), _to_form(space, path.resolve().parent))


def _form(path: Path, name: str) -> str:
    return f"forms/{paths.digest(name, _content(path))}.json"


def _content(path: Path) -> bytes:
    """The file's bytes, up to the most that a space file may have."""
    try:
        with path.open("rb") as file:
            return file.read(MAX_FILE_BYTES)
    except OSError:
        return b""  # the YAML reader reports the error


def _to_form(space: Space, folder: Path) -> bytes:
    """The launch form of a space. Its paths are relative to the YAML's `folder`, so that copies of the files may use
    it too."""

    def relative(file: Path | str) -> str:
        return os.path.relpath(file, folder)

    digests = {relative(file): paths.digest(file.read_bytes()) for file in (*space.files, *space.sources)}
    data = launch_form.to_json(space)
    data |= {key: [relative(path) for path in data[key]] for key in ("files", "include")}
    for part in launch_form.with_files(data):
        part["file"] = relative(part["file"])
    return json.dumps({"files": digests, "space": data}).encode()


def _shipped_form(form: Path, folder: Path) -> Space | None:
    """The Space of a form that ships, trusted as this module is."""
    try:
        return _from_form(form.read_bytes(), folder)
    except OSError:
        return None


def _cached_form(form: Path, folder: Path) -> Space | None:
    """The Space of a form in the cache. Raises RequestError if the form is not to be trusted."""
    try:
        paths.check_trusted(form.parent, form.parent.stat())
        return _from_form(paths.read_trusted(form), folder)
    except OSError:
        return None


def _from_form(content: bytes, folder: Path) -> Space | None:
    """The Space of a launch form; None if the form is damaged, or a file has changed since."""
    try:
        data: Any = json.loads(content)
        space = data["space"]
        if space["version"] != launch_form.VERSION:
            return None
        for file, digest in data["files"].items():
            if paths.digest((folder / file).read_bytes()) != digest:
                return None
        for key in ("files", "include"):
            space[key] = [os.path.normpath(folder / path) for path in space[key]]
        for part in launch_form.with_files(space):
            part["file"] = os.path.normpath(folder / part["file"])
        return launch_form.from_json(space)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, TunerError, RecursionError):
        return None
