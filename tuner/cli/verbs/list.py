"""`tune list`: the kernels that there are."""

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
    """List the kernels that ship with tuner, your own, and those of installed packages.

    Your own are those of the project that the current folder is in, those in the folders of TUNER_SPACES, and the files
    that were tuned before.

    Example: tune list --json
    """
    from tuner.catalog import catalog

    entries, problems = catalog.every()
    spaces = list(catalog.loaded(entries, problems))
    data = [
        {
            "kernel": entry.name,
            "title": space.title,
            "languages": [*space.languages],
            "parameters": len(space.parameters),
            "origin": entry.origin,
            "file": str(entry.file),
        }
        for entry, space in spaces
    ]
    rows = [
        [entry.name, space.title, " ".join(space.languages), len(space.parameters), _place(entry)]
        for entry, space in spaces
    ]
    messages = list(dict.fromkeys(problems))
    rest = len(messages) - MOST_WARNINGS
    output.warn([*messages[:MOST_WARNINGS], *([f"{rest} more like these"] if rest > 0 else [])])
    output.answer(as_json, data, output.table(["kernel", "title", "languages", "parameters", "from"], rows))


def _place(entry: CatalogEntry) -> str:
    """Where a kernel belongs, with the file if nothing else tells it."""
    return f"{entry.origin} {entry.file}" if entry.origin == "file" else entry.origin
