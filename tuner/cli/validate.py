"""`tune validate`: a space file checked."""

from pathlib import Path

import click

from tuner.cli import output
from tuner.cli.options import JSON


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.argument("size", required=False)
@JSON
def command(file: Path, size: str | None, as_json: bool) -> None:
    """Check a space file, and name the line and key of its first fault.

    Its expressions are evaluated at SIZE, 1024 if omitted, for a common GPU: for all configurations of a small space,
    and for a sample of those of a large one.

    Example: tune validate my_kernel.yaml
    """
    from tuner.space import reader
    from tuner.space.model import size_text

    space, sizes, evaluation = reader.evaluate(file, size)
    count, tried = len(space.parameters), evaluation.configurations
    data = {"file": str(file), "valid": True, "kernel": space.name, "parameters": count, "tried": tried, "size": sizes}
    evaluated = f"evaluated for {tried} configurations" if tried else "none of the configurations tried is valid"
    output.answer(as_json, data, f"{file}: valid, {count} parameters; {evaluated} at {size_text(sizes)}")
