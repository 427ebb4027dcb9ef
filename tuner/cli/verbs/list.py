"""`tune list`: list the known kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from tuner.cli import output
from tuner.cli.options import JSON

if TYPE_CHECKING:
    from tuner.catalog.catalog import CatalogEntry

MOST_WARNINGS = 20


@click.command("list")
@JSON
def command(as_json: bool) -> None:
    """List shipped kernels, your own, and those of installed packages.

    Your own are the kernels of the project in the current folder, those in the folders of TUNER_SPACES, and all space
    files that you have tuned.

    Example: tune list --json
    """
    from tuner.catalog import catalog

    entries, problems = catalog.every()
    spaces = list(catalog.loaded(entries, problems))
    data = [
        {
            "kernel": entry.name,
            "title": space.title,
            "languages": [*space.written_in],
            "parameters": len(space.parameters),
            "origin": entry.origin,
            "file": str(entry.file),
        }
        for entry, space in spaces
    ]
    rows = [
        [entry.name, space.title, " ".join(space.written_in), len(space.parameters), _place(entry)]
        for entry, space in spaces
    ]
    messages = list(dict.fromkeys(problems))
    rest = len(messages) - MOST_WARNINGS
    output.warn([*messages[:MOST_WARNINGS], *([f"{rest} more warnings like these"] if rest > 0 else [])])
    output.answer(as_json, data, output.table(["kernel", "title", "languages", "parameters", "from"], rows))


def _place(entry: CatalogEntry) -> str:
    """The origin of a kernel, with the path if it is a file outside of projects."""
    return f"{entry.origin} {entry.file}" if entry.origin == "file" else entry.origin
