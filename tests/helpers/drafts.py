"""Drafts of `tune new`: what they hold, what they ask, and whether they compile."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from helpers.processes import Tune
from tuner.space.file.yamlfile import read


def guessed(text: str) -> list[str]:
    """The arrays of a draft whose shapes are guesses, about which it asks in one question."""
    match = re.search(r"# \? the shapes? of (?:these are guesses|this is a guess): ([\w, ]+);", text)
    return match[1].split(", ") if match else []


def drafted(folder: Path, tune: Tune, code: str | bytes, *options: str, name: str = "f.cu") -> tuple[Any, str]:
    """The data and the text of the draft for a file of this content."""
    (folder / name).write_bytes(code if isinstance(code, bytes) else code.encode())
    (folder / "f.yaml").unlink(missing_ok=True)
    done = tune("new", folder / name, *options)
    assert done.status == 0, done.err
    return read(folder / "f.yaml").data, (folder / "f.yaml").read_text()


def compiled(folder: Path, tune: Tune, text: str) -> None:
    """The draft compiles once its questions are answered, as somebody would who trusts it."""
    answered = re.sub(r"  # \? .*", "", text)
    (folder / "f.yaml").write_text(re.sub(r"^  reference:$", "  reference: none", answered, flags=re.MULTILINE))
    done = tune("validate", folder / "f.yaml", "--compile")
    assert done.status == 0, done.err
