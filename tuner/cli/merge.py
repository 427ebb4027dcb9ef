"""`tune merge`: the stores of several machines in one."""

from __future__ import annotations

from pathlib import Path

import click

from tuner.cli import output
from tuner.cli.options import JSON, RESULTS, warn


@click.command()
@click.argument("sources", nargs=-1, required=True, type=click.Path(path_type=Path))
@RESULTS
@JSON
def command(sources: tuple[Path, ...], results: Path | None, as_json: bool) -> int:
    """Put the records of other stores, folders or files, into yours; of two about one thing the better stays.

    Example: tune merge node1/results node2/results --results results
    """
    from tuner.store import merge

    done = merge.merge(sources, results)
    warn(done.problems)
    if as_json:
        output.document({"files": done.files, "records": done.records, "written": done.written})
        return 0
    click.echo(str(done))
    return 0
