"""`tune schema`: print the JSON Schema of space files, or the functions of references."""

import click

from tuner.cli import output


@click.command()
@click.option("--functions", is_flag=True, help="List the functions that references may call, in place of the schema.")
@click.option("--json", "as_json", is_flag=True, help="Print the functions as JSON; the schema always is.")
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
