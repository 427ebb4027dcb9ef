"""Kernels by name: those that ship, and any YAML file that a user names."""

import contextlib
import json
import os
from pathlib import Path
from typing import Any

from tuner import paths
from tuner.errors import RequestError, TunerError
from tuner.paths import quoted
from tuner.space import launch_form
from tuner.space.model import MAX_FILE_BYTES, Space


def names() -> list[str]:
    """The names of the shipped kernels, `family/stage`, sorted."""
    root = paths.shipped("spaces")
    stages = (path.relative_to(root).with_suffix("") for path in root.rglob("*.yaml"))
    return sorted(path.as_posix() for path in stages if path.name != "operation" and not path.name.startswith("_"))


def find(kernel: str) -> tuple[Path, str]:
    """File and name of `kernel`: `sgemm/06_tiled`, a unique part of that, or the path of a YAML file.

    Raises RequestError, with the nearest names, if no kernel or several kernels match.
    """
    path = Path(kernel)
    if path.suffix in (".yaml", ".yml"):
        if not os.path.isfile(path):
            raise RequestError(f"kernel {quoted(kernel)}: there is no such file; name a file, or one of `tune list`")
        return path, f"{path.resolve().parent.name}/{path.stem}"
    kernels = names()
    matches = [name for name in kernels if name == kernel] or [name for name in kernels if kernel and kernel in name]
    if len(matches) == 1:
        return paths.shipped("spaces") / f"{matches[0]}.yaml", matches[0]
    if matches:
        raise RequestError(f"kernel {quoted(kernel)} could be {', '.join(matches)}; write more of the name")
    import difflib

    aliases = {name.rpartition("/")[2]: name for name in kernels} | {name: name for name in kernels}
    near = dict.fromkeys(aliases[match] for match in difflib.get_close_matches(kernel, aliases, n=3))
    hint = f"did you mean {' or '.join(near)}?" if near else "`tune list` shows all, `tune --help` the verbs"
    raise RequestError(f"kernel {quoted(kernel)}: there is no such kernel; {hint}")


def load(kernel: str) -> Space:
    """The Space of `kernel`, from its launch form if that is up to date, else from its YAML.

    Reading YAML imports pydantic and yaml, which is slow. So forms ship with the package, and a new one goes to the
    cache for the next launch. Raises RequestError.
    """
    path, name = find(kernel)
    folder = path.resolve().parent
    form = f"forms/{paths.digest(name, _content(path))}.json"
    space = _shipped_form(paths.shipped("forms").parent / form, folder) or _cached_form(paths.cache() / form, folder)
    if space is not None:
        return space
    try:
        from tuner.space import reader
    except ModuleNotFoundError as missing:
        raise RequestError(
            f"{path}: reading it needs {missing.name}, which is not installed; pip install pydantic pyyaml, or load "
            f"{name} on a machine that has it, and name a copy of that machine's cache folder with TUNER_CACHE"
        ) from None
    space = reader.read(path, name)
    with contextlib.suppress(OSError):  # without a writable cache, the next load reads the YAML again
        paths.replace(paths.cache() / form, _to_form(space, folder))
    return space


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
