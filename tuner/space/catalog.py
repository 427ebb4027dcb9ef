"""Kernels by name: what ships, and any YAML file that a user names."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tuner import paths
from tuner.errors import RequestError, TunerError
from tuner.space import launch_form

if TYPE_CHECKING:
    from tuner.space.model import Space

_MAX_BYTES = 1_000_000


def names() -> list[str]:
    """The kernels that ship, `family/stage`, in order."""
    root = paths.shipped("spaces")
    found = (path.relative_to(root).with_suffix("") for path in root.rglob("*.yaml"))
    return sorted(path.as_posix() for path in found if path.name != "operation" and not path.name.startswith("_"))


def find(kernel: str) -> tuple[Path, str]:
    """File and name of `kernel`: `sgemm/06_tiled`, a unique part of it, or the path of a YAML file.

    Raises RequestError, with the nearest names, where there is no such kernel or more than one.
    """
    path = Path(kernel)
    if path.suffix in (".yaml", ".yml"):
        if not path.is_file():
            raise RequestError(f"kernel {kernel!r}: there is no such file; name a file, or one of `tune list`")
        return path, f"{path.resolve().parent.name}/{path.stem}"
    known = names()
    matches = [name for name in known if name == kernel] or [name for name in known if kernel and kernel in name]
    if len(matches) == 1:
        return paths.shipped("spaces") / f"{matches[0]}.yaml", matches[0]
    if matches:
        raise RequestError(f"kernel {kernel!r} could be {', '.join(matches)}; write more of the name")
    import difflib

    stages = {name.rpartition("/")[2]: name for name in known} | {name: name for name in known}
    near = dict.fromkeys(stages[match] for match in difflib.get_close_matches(kernel, stages, n=3, cutoff=0.4))
    hint = f"did you mean {' or '.join(near)}?" if near else "`tune list` shows all"
    raise RequestError(f"kernel {kernel!r}: there is no such kernel; {hint}")


def load(kernel: str) -> Space:
    """The Space of `kernel`, from its launch form where one is still true, else from its YAML.

    Forms lie beside the spaces that ship, and in the cache. Reading YAML imports pydantic and yaml; what it gives is
    left in the cache so that the next launch does not. Raises RequestError.
    """
    path, name = find(kernel)
    folder = path.resolve().parent
    kept = f"forms/{paths.digest(name, _beginning(path))}.json"
    known = _still_true(paths.shipped("forms").parent / kept, folder) or _still_true(paths.cache() / kept, folder)
    if known is not None:
        return known
    try:
        from tuner.space import reader
    except ModuleNotFoundError as missing:
        raise RequestError(
            f"{path}: reading it needs {missing.name}, which is not installed; pip install pydantic pyyaml, or load "
            f"{name} where it is, and name a copy of that machine's cache folder with TUNER_CACHE"
        ) from None
    made = reader.read(path, name)
    with contextlib.suppress(OSError):  # a read-only cache costs the next load the same again, nothing else
        paths.replace(paths.cache() / kept, _form(made, folder))
    return made


def _beginning(path: Path) -> bytes:
    """All of a file that is no longer than a space file may be."""
    try:
        with path.open("rb") as file:
            return file.read(_MAX_BYTES)
    except OSError:
        return b""  # the reader of YAML says what is wrong


def _form(space: Space, folder: Path) -> bytes:
    """The launch form of a space. Files are named as they lie from the YAML's `folder`, so that the form is as true
    where they were all copied to."""

    def near(file: Path) -> str:
        return os.path.relpath(file, folder)

    stamps = {near(file): paths.digest(file.read_bytes()) for file in (*space.files, space.source)}
    placed = {"source": near(space.source), "files": [near(file) for file in space.files]}
    return json.dumps({"files": stamps, "space": {**launch_form.to_json(space), **placed}}).encode()


def _still_true(kept: Path, folder: Path) -> Space | None:
    """The Space of a launch form whose files have not changed since; None otherwise."""
    try:
        data: Any = json.loads(kept.read_bytes())
        space = data["space"]
        if space["version"] != launch_form.VERSION:
            return None
        for file, digest in data["files"].items():
            if paths.digest((folder / file).read_bytes()) != digest:
                return None
        space["source"] = os.path.normpath(folder / space["source"])
        space["files"] = [os.path.normpath(folder / file) for file in space["files"]]
        return launch_form.from_json(space)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, TunerError, RecursionError):
        return None
