"""Kernels whose operation is a test's own: a source, and the file of its space."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

OF_OPERATION = ("options", "tolerance", "extent", "derive", "accept", "also", "library")


def array(name: str, dtype: str, shape: list[int | str], role: str = "in", **more: Any) -> dict[str, Any]:
    """An array argument of a space file."""
    return {"name": name, "dtype": dtype, "shape": shape, "role": role, **more}


def written(
    folder: Path, code: str, arguments: list[dict[str, Any]], reference: Any, language: str = "c", **more: Any
) -> Path:
    """Writes `code`, whose entry point is `f`, and the file of its space: one size `n`, one configuration. `more` are
    other keys of the file, or of its operation."""
    (folder / f"f.{'c' if language == 'c' else 'cu'}").write_text(code)
    operation = {
        "sizes": more.pop("sizes", {"n": None}),
        "extent": ["n"],
        "arguments": [*arguments, {"name": "n", "dtype": "int32"}],
        "reference": reference,
        **{key: more.pop(key) for key in [*more] if key in OF_OPERATION},
    }
    space = {"title": "t", "operation": operation, "kernel": "f", "languages": [language], "parameters": {"a": [1]}}
    file = folder / "f.yaml"
    file.write_text(yaml.safe_dump({**space, **more}, sort_keys=False))
    return file
