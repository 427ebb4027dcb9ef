"""The tables of modules, made from the modules' docstrings, which the site shows in docs/architecture.md.

python docs/hooks/rooms.py           prints them
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MARKER = "<!-- rooms -->"  # in docs/architecture.md, replaced by the tables
# Bottom up: a room imports only rooms before it.
ORDER = [
    "space", "catalog", "drafting", "devices", "children", "search", "measure", "prediction", "store", "launch",
    "families", "torch", "tuning", "session", "judging", "exchange", "experiments", "report", "door", "cli",
]  # fmt: skip


def summary(file: Path) -> str:
    """The first paragraph of a module's docstring, on one line."""
    text = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
    return " ".join(text.partition("\n\n")[0].split())


def tables() -> str:
    """A section for each room: a table of its modules, then the rooms inside it."""
    package = ROOT / "tuner"
    parts = [f"### Outside the rooms\n\n{_table(package)}"]
    for room in ORDER:
        parts += _sections(package / room, 3)
    return "\n".join(parts)


def _sections(folder: Path, level: int) -> Iterator[str]:
    name = folder.relative_to(ROOT / "tuner").as_posix()
    table = _table(folder)
    yield f"{'#' * level} {name}\n\n{summary(folder / '__init__.py')}\n" + (f"\n{table}" if table else "")
    for inner in sorted(path.parent for path in folder.glob("*/__init__.py")):
        yield from _sections(inner, level + 1)


def _table(folder: Path) -> str:
    modules = [file for file in sorted(folder.glob("*.py")) if not file.stem.startswith("__")]
    rows = [f"| `{file.stem}` | {_cell(summary(file))} |\n" for file in modules]
    return "".join(["| module | what it holds |\n|---|---|\n", *rows]) if rows else ""


def _cell(text: str) -> str:
    return re.sub(r"(?<!\\)\|", r"\\|", text.removesuffix("."))


if __name__ == "__main__":
    print(tables(), end="")
