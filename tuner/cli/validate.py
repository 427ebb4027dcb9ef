"""`tune validate`: a space file checked."""

from __future__ import annotations

from pathlib import Path

import click

from tuner import paths
from tuner.cli import output
from tuner.cli.options import JSON


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@JSON
def command(file: Path, as_json: bool) -> int:
    """Check a space file. Example: tune validate my_kernel.yaml"""
    from tuner.space import reader

    space = reader.read(file)
    summary = {"file": str(file), "valid": True, "kernel": space.name, "parameters": len(space.parameters)}
    if as_json:
        output.document(summary)
    else:
        click.echo(f"{paths.plain(file)}: valid, {len(space.parameters)} parameters")
    return 0
