"""What `tune export --to cubin` writes, compiled."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from helpers.processes import Tune, run


def bundle(tune: Tune, folder: Path, *arguments: str) -> dict[str, Any]:
    done = tune("export", *arguments, "--to", "cubin", "--output", folder, "--json")
    assert done.status == 0, done.err
    read: dict[str, Any] = json.loads((folder / "launch.json").read_text())
    return read


def compiled_example(folder: Path) -> Path:
    """The bundle's example, compiled as its first lines say, but with every warning an error."""
    program = folder / "example"
    flags = ["-std=c11", "-Wall", "-Wextra", "-Werror", "-pedantic"]
    run("cc", *flags, "-o", program, folder / "example.c", "-ldl")
    return program
