"""Writes a `tuner.Space` as a space file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from tuner import paths
from tuner.errors import SpaceError
from tuner.quoting import quoted
from tuner.space import model
from tuner.space.expressions.function_names import origin
from tuner.space.file import yamlfile
from tuner.space.python import plain_data, written_files

_ADVICE = {
    "restrictions": "write it as an expression",
    "reference": "write it as an expression, or into a file and {'python': 'FILE.py:FUNCTION'}",
    "fill": "write it into a file and {'python': 'FILE.py:FUNCTION'}",
}


def yaml_text(data: dict[str, Any], space: model.Space, folder: Path, path: Path | None) -> str:
    """The text of a space file that says what `data` does, written to `path` unless that is None.

    data: of a space whose paths are relative to `folder`.

    Raises SpaceError for what only Python can hold, and RequestError if a file cannot be written.
    """
    for where, value in plain_data.python_in(data):
        raise _python(space, where, value)
    target = folder if path is None else Path(os.path.abspath(path)).parent
    stem = written_files.stem(space.steps[0].kernel) if path is None else path.stem
    sources = dict[Path, str]()
    for container, key in plain_data.files_in(data):
        value = container[key]
        if key == "source" and plain_data.is_text(value):
            container[key] = _named(sources, value, stem, data.get("languages", ()))
        else:
            container[key] = _relative(value, folder, target)
    text = yamlfile.dumped(data)
    if path is not None:
        _write(path, text)
        for name, source in sources.items():
            _write(target / name, source)
    return text


def _named(sources: dict[Path, str], text: str, stem: str, languages: Any) -> str:
    """The name of a new file for the text of a kernel."""
    suffix = written_files.suffix(text, languages)
    names = (Path(f"{stem}{number or ''}{suffix}") for number in range(len(sources) + 1))
    name = next(name for name in names if sources.get(name, text) == text)
    sources[name] = text
    return str(name)


def _relative(value: str, folder: Path, target: Path) -> str:
    """A path relative to `folder`, relative to `target`. A function of a file keeps its name behind the path."""
    if folder == target or os.path.isabs(value):
        return value
    return os.path.relpath(folder / value, target)


def _write(path: Path, text: str) -> None:
    with paths.writing(path, "name another file"):
        paths.replace(path, text.encode())


def _python(space: model.Space, where: tuple[str | int, ...], value: Any) -> SpaceError:
    key = ".".join(map(str, where))
    if not callable(value):
        return SpaceError(f"Space {space.name}: {key}: an array; save it as a .npy file and write {{'file': 'x.npy'}}")
    advice = next(advice for name, advice in _ADVICE.items() if name in where)
    return SpaceError(f"Space {space.name}: {key}: {quoted(origin(value))} is Python, not YAML; {advice}")
