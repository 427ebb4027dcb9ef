"""`tune list`: list the known kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from tuner.cli import output
from tuner.cli.options import JSON
from tuner.errors import RequestError
from tuner.quoting import shown

if TYPE_CHECKING:
    from tuner.catalog.kernel_lists import CatalogEntry

MOST_WARNINGS = 20


@click.command("list")
@click.argument("text", required=False, default="")
@JSON
def command(text: str, as_json: bool) -> None:
    """List shipped kernels, your own, and those of installed packages; with TEXT, those with it in name or title.

    Your own are the kernels of the project in the current folder, those in the folders of TUNER_SPACES, and all space
    files that you have tuned.

    Example: tune list transpose
    """
    from tuner.catalog import catalog, kernel_lists

    entries, problems = kernel_lists.every()
    spaces = [
        (entry, space)
        for entry, space in catalog.loaded(entries, problems)
        if text.casefold() in f"{entry.name} {space.title}".casefold()
    ]
    messages = list(dict.fromkeys(problems))
    rest = len(messages) - MOST_WARNINGS
    output.warn([*messages[:MOST_WARNINGS], *([f"{rest} more warnings like these"] if rest > 0 else [])])
    if not spaces and text:
        raise RequestError(f"no kernel has {shown(text)!r} in its name or title; `tune list` lists all")
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
    output.answer(as_json, data, output.table(["kernel", "title", "languages", "parameters", "from"], rows))


def _place(entry: CatalogEntry) -> str:
    """The origin of a kernel, with the path if it is a file outside of projects."""
    return f"{entry.origin} {entry.file}" if entry.origin == "file" else entry.origin
