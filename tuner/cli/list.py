"""`tune list`: the kernels that ship."""

from __future__ import annotations

import click

from tuner.cli import output
from tuner.cli.options import JSON


@click.command("list")
@JSON
def command(as_json: bool) -> int:
    """The kernels that ship. Example: tune list --json"""
    from tuner.space import catalog

    rows = []
    for name in catalog.names():
        space = catalog.load(name)
        rows.append({
            "kernel": name,
            "title": space.title,
            "languages": list(space.languages),
            "parameters": len(space.parameters),
        })  # fmt: skip
    if as_json:
        output.document(rows)
    else:
        output.table(["kernel", "title", "languages", "parameters"], [list(row.values()) for row in rows])
    return 0
