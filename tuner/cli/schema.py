"""`tune schema`: the JSON Schema of a space file."""

from __future__ import annotations

import click

from tuner.cli import output


@click.command()
@click.option("--json", is_flag=True, hidden=True, help="It is JSON anyway.")
def command(json: bool) -> int:
    """The JSON Schema of a space file, for editors. Example: tune schema > space.schema.json"""
    from tuner.space import schema as published

    output.document(published.json_schema())
    return 0
