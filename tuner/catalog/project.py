"""Finds the project of a space file: the nearest tuner.toml or pyproject.toml in the folders above it."""

import functools
import os
import re
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tuner import paths
from tuner.classes import dataclass
from tuner.errors import RequestError
from tuner.quoting import quoted, shown

MOST_CHARACTERS = 1 << 20  # of a TOML file
MOST_FOLDERS = 100  # in `spaces` of one file
_NAME = re.compile(r"\w[\w.+-]{0,99}")
_ALLOWED = "letters, digits and ._+- are allowed, a letter or digit first, and at most 100 of them"


@dataclass(frozen=True)
class Project:
    """A user's folder with kernels, as its `file` (tuner.toml or pyproject.toml) describes it.

    `name` is the first part of its kernels' names, `spaces` the folders of space files, and `options` the default
    command-line options, unchecked.
    """

    name: str
    root: Path
    spaces: tuple[Path, ...]
    file: Path
    options: Mapping[str, Any]

    def name_of(self, file: Path) -> str:
        """The name of a space file of this project: the project's name and the file's path.

        The path is relative to the folder in `spaces` that contains the file, or to the project's folder if there is
        none or if an earlier folder of `spaces` has a file with the same path.
        """
        stem = file.with_suffix("")
        for position, folder in enumerate(self.spaces):
            if file.is_relative_to(folder):
                inner = file.relative_to(folder)
                if not any(os.path.isfile(earlier / inner) for earlier in self.spaces[:position]):
                    return "/".join([self.name, *map(safe, stem.relative_to(folder).parts)])
        return "/".join([self.name, *map(safe, stem.relative_to(self.root).parts)])


def safe(part: str) -> str:
    """A folder's or file's name as a part of a kernel's name: characters except letters, digits and ._+- become _."""
    text = re.sub(r"[^\w.+-]", "_", part)[:100]
    return text if _NAME.fullmatch(text) else f"_{text}"[:100]


def above(folder: Path) -> Project | None:
    """The project that contains `folder` (an absolute path without links); None if there is none.

    It is the nearest folder with a tuner.toml, or with a pyproject.toml that has [tool.tuner]; if there is none, the
    nearest with any pyproject.toml. Files that belong neither to this user, nor to root, nor to the owner of `folder`
    are ignored, because their authors could choose which code runs. Raises RequestError, with the file and the key, if
    a file is invalid or cannot be read.
    """
    nearest: Project | None = None
    try:
        owners = {os.getuid(), 0, folder.stat().st_uid}
    except OSError:
        return None
    for root in (folder, *folder.parents):
        own, general = _table(root / "tuner.toml", owners), _table(root / "pyproject.toml", owners)
        table = own if own is not None else _section(general, "tool", "tuner")
        if table is not None:
            file = root / ("pyproject.toml" if own is None else "tuner.toml")
            return _project(root, file, table, general)
        if general is not None and nearest is None:
            nearest = _project(root, root / "pyproject.toml", {}, general)
    return nearest


def _project(root: Path, file: Path, table: Mapping[str, Any], general: Mapping[str, Any] | None) -> Project:
    """The project in `root`: `table` is its table in `file`, `general` the whole pyproject.toml."""
    where = shown(file)
    for key in table:
        if key not in ("name", "spaces", "options"):
            raise RequestError(f"{where}: {quoted(key)}: there is no such key; write `name`, `spaces` or `options`")
    name, folders, options = table.get("name"), table.get("spaces", []), table.get("options", {})
    if not isinstance(options, Mapping):
        raise RequestError(f"{where}: options = {quoted(options)}: write a table of options, as in [options]")
    if name is not None and not (isinstance(name, str) and _NAME.fullmatch(name)):
        raise RequestError(f"{where}: name = {quoted(name)}: {_ALLOWED}")
    if not isinstance(folders, list) or len(folders) > MOST_FOLDERS or not all(map(_is_folder_name, folders)):
        allowed = f'write a list of at most {MOST_FOLDERS} folders, as in spaces = ["kernels"]'
        raise RequestError(f"{where}: spaces = {quoted(folders)}: {allowed}")
    if name is None:
        published = (_section(general, "project") or {}).get("name")
        name = safe(published if isinstance(published, str) and published else root.name or "root")
    resolved = dict.fromkeys(Path(os.path.realpath(root / folder)) for folder in folders)
    return Project(name, root, tuple(resolved), file, options)


def _is_folder_name(value: object) -> bool:
    return isinstance(value, str) and bool(value) and "\0" not in value


def _section(data: Mapping[str, Any] | None, *keys: str) -> Mapping[str, Any] | None:
    """The nested table at these keys; None if there is none."""
    for key in keys:
        data = data.get(key) if isinstance(data, Mapping) else None
    return data if isinstance(data, Mapping) else None


def _table(file: Path, owners: set[int]) -> Mapping[str, Any] | None:
    """The content of a TOML file; None if there is no file, or if none of the `owners` owns it."""
    try:
        status = file.stat()
    except OSError:
        return None
    if not stat.S_ISREG(status.st_mode) or status.st_uid not in owners:
        return None
    return _parsed(file, status.st_mtime_ns, status.st_size)


@functools.lru_cache(maxsize=64)
def _parsed(file: Path, _modified: int, _size: int) -> Mapping[str, Any]:
    import tomllib  # most launches read no TOML file

    where = shown(file)
    try:
        return tomllib.loads(paths.read_text(file, MOST_CHARACTERS))
    except OSError as error:
        raise RequestError(f"{where}: cannot be read: {error.strerror}; correct its permissions") from None
    except (ValueError, RecursionError) as error:
        raise RequestError(f"{where}: is not TOML: {shown(error)}; correct it") from None
