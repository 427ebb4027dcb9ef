"""`tune schema`: the JSON Schema of a space file."""

import click

from tuner.cli import output


@click.command()
@click.option("--json", is_flag=True, hidden=True, help="Print JSON, which this verb always does.")
def command(json: bool) -> None:
    """Print the JSON Schema of space files, for editors.

    Example: tune schema > space.schema.json
    """
    from tuner.space import schema

    output.document(schema.json_schema())
