"""Reads the keywords of a `tuner.Space` as a space file would be read."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tuner import paths
from tuner.errors import SpaceError
from tuner.quoting import quoted
from tuner.space import model
from tuner.space.file import reader
from tuner.space.file.yamlfile import Document
from tuner.space.python import plain_data, written_files
from tuner.space.python.plain_data import Where

_NAME = re.compile(r"\w[\w.+-]*(/\w[\w.+-]*)*")


def read(given: Mapping[str, Any], folder: Path, name: str | None) -> tuple[dict[str, Any], model.Space]:
    """The keywords as plain data, and the space. Raises SpaceError with the key of the first error."""
    stem = written_files.stem(_first_kernel(given))
    name = _default_name(folder, stem) if name is None else _checked(name)
    document = Document(folder / f"{stem}.py", {}, {}, {}, origin=f"Space {name}")
    data: dict[str, Any] = plain_data.plain(given, document.error)
    data = {"title": stem, **data}
    document.data.update(_with_files(data, document, stem))
    return data, reader.of_document(document, name)


def folder_of(folder: Any) -> Path:
    """The folder that paths are relative to; the current one for None. Raises SpaceError if it is no path."""
    if folder is not None and not isinstance(folder, str | os.PathLike):
        raise SpaceError(f"Space: folder: {quoted(folder)}: write the path of a folder")
    try:
        return Path(os.path.abspath(folder or "."))
    except FileNotFoundError:
        raise SpaceError("Space: the current folder has been deleted; write `folder`") from None


def _first_kernel(given: Mapping[str, Any]) -> object:
    steps = given.get("steps")
    while "kernel" not in given and isinstance(steps, list | tuple) and steps and isinstance(steps[0], Mapping):
        given = steps[0]
        steps = given.get("steps")
    return given.get("kernel")


def _default_name(folder: Path, stem: str) -> str:
    place = re.sub(r"[^\w.+-]", "_", folder.name).lstrip(".+-")[:100] or "python"
    return f"{place}/{stem}"


def _checked(name: object) -> str:
    if not isinstance(name, str) or len(name) > 300 or not _NAME.fullmatch(name):
        raise SpaceError(f"Space: name: {quoted(name)}: write words of letters, digits and ._+-, separated by /")
    if (paths.shipped("spaces") / f"{name}.yaml").is_file():
        raise SpaceError(f"Space: name: {quoted(name)}: a kernel of tuner has this name; write another one")
    return name


def _with_files(data: dict[str, Any], document: Document, stem: str) -> dict[str, Any]:
    """The data of the space, with files in place of the texts of kernels and of arrays."""
    data = _copied(data, document, ())
    languages = [each for each in data.get("languages", ()) if isinstance(each, str)]
    holds_text = False
    for container, key in plain_data.files_in(data):
        if key == "source" and plain_data.is_text(container[key]):
            name = written_files.stem(container.get("kernel", stem))
            container[key] = str(written_files.source(container[key], name, languages))
            holds_text = True
    if holds_text:  # its headers cannot be beside it
        data["include"] = [*data.get("include", ()), str(document.path.parent)]
    return data


def _copied(value: Any, document: Document, where: Where) -> Any:
    if isinstance(value, dict):
        return {key: _copied(each, document, (*where, key)) for key, each in value.items()}
    if isinstance(value, list):
        return [_copied(each, document, (*where, position)) for position, each in enumerate(value)]
    if isinstance(value, np.ndarray):
        try:
            file = str(written_files.array(value))
        except ValueError:
            raise document.error(where, f"an array of {value.dtype}; write one of numbers") from None
        return {"file": file} if where[-1] == "fill" else file
    return value
