"""`tune list`: the kernels that ship."""

import click

from tuner.cli import output
from tuner.cli.options import JSON


@click.command("list")
@JSON
def command(as_json: bool) -> None:
    """List the kernels that ship with tuner.

    Example: tune list --json
    """
    from tuner.space import catalog

    spaces = {name: catalog.load(name) for name in catalog.names()}
    data = [
        {"kernel": name, "title": space.title, "languages": [*space.languages], "parameters": len(space.parameters)}
        for name, space in spaces.items()
    ]
    rows = [[name, space.title, " ".join(space.languages), len(space.parameters)] for name, space in spaces.items()]
    output.answer(as_json, data, output.table(["kernel", "title", "languages", "parameters"], rows))
