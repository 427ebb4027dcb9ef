"""`tune schema`: the JSON Schema of a space file, and the functions of references."""

import click

from tuner.cli import output


@click.command()
@click.option("--functions", is_flag=True, help="List the functions that a reference may call instead.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, which this verb does anyway for the schema.")
def command(functions: bool, as_json: bool) -> None:
    """Print the JSON Schema of space files, for editors.

    Example: tune schema > space.schema.json
    """
    if functions:
        from tuner.space.expressions.array_expressions import usage

        lines = usage()
        output.answer(as_json, lines, "\n".join(lines.values()))
    else:
        from tuner.space.file import schema

        output.document(schema.json_schema())
