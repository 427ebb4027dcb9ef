"""`tune validate`: a space file checked."""

from pathlib import Path

import click

from tuner.cli import output
from tuner.cli.options import JSON


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@JSON
def command(file: Path, as_json: bool) -> None:
    """Check a space file, and name the line and key of its first fault.

    Example: tune validate my_kernel.yaml
    """
    from tuner.space import reader

    space = reader.read(file)
    count = len(space.parameters)
    data = {"file": str(file), "valid": True, "kernel": space.name, "parameters": count}
    output.answer(as_json, data, f"{file}: valid, {count} parameters")
